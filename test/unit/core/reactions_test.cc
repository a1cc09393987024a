// SPDX-License-Identifier: BSD-3-Clause
// Reactions to the parts' events before the core is open: notices reach the user with their
// severity.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/path_reactions.h"

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

} // namespace
} // namespace adaptib::test
