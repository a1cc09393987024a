// SPDX-License-Identifier: BSD-3-Clause
// Reactions to the parts' events before the core is open: notices reach the user with their
// severity, and broken connections are kept.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/process_name.h"
#include "core/connection_reactions.h"
#include "core/path_reactions.h"
#include "core/protocol_reactions.h"
#include "unit/core/reachable_rail.h"

namespace adaptib::test {
namespace {

using Messages = std::vector<std::pair<Severity, std::string>>;

class ReactionsTest : public testing::Test {
protected:
    MessageFunction message() {
        return [this](Severity severity, const std::string& text) {
            messages_.emplace_back(severity, text);
        };
    }
    Messages messages_;
};

TEST_F(ReactionsTest, NoticesReachTheUserBeforeThereAreParts) {
    PathReactions paths(message());
    paths.on_path_line("path");
    EXPECT_EQ(messages_, (Messages{{Severity::notice, "path"}}));
}

TEST_F(ReactionsTest, ABrokenConnectionIsKeptForTheReport) {
    ReachablePeer world(LinkLayer::infiniband);
    BrokenConnections broken;
    ProtocolReactions protocol(broken, message(), nullptr);
    world.peer->ending.failure = "lost";
    protocol.on_broken(*world.peer);
    EXPECT_TRUE(broken.any());
    EXPECT_EQ(messages_, (Messages{{Severity::failure, "lost"}}));
}

TEST_F(ReactionsTest, ABrokenConnectionThatIsNoNewsIsKeptWithoutAMessage) {
    ReachablePeer world(LinkLayer::infiniband);
    world.peer->contact.name = endpoint_name(5, 3);
    BrokenConnections broken;
    std::vector<std::uint64_t> asked;
    ProtocolReactions protocol(broken, message(), [&](std::uint64_t process) {
        asked.push_back(process);
        return false;
    });
    protocol.on_broken(*world.peer);
    EXPECT_EQ(asked, std::vector<std::uint64_t>{5});
    EXPECT_TRUE(broken.any());
    EXPECT_TRUE(messages_.empty());
}

} // namespace
} // namespace adaptib::test
