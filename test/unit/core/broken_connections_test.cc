// SPDX-License-Identifier: BSD-3-Clause
// Broken connections: each is reported once, by the peer that the user knows.
#include "core/broken_connections.h"

#include <gtest/gtest.h>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

class BrokenConnectionsTest : public testing::Test {
protected:
    BrokenConnectionsTest() {
        broken_.listen([](void* list,
                          Peer& peer) { static_cast<std::vector<Peer*>*>(list)->push_back(&peer); },
                       &heard_);
    }
    std::vector<Peer*> report() {
        heard_.clear();
        broken_.report([this](std::uint64_t name) {
            return name == known_->contact.name ? known_.get() : nullptr;
        });
        return heard_;
    }

    TwoRails rails_;
    std::unique_ptr<Peer> known_ = rails_.peer(5);
    std::unique_ptr<Peer> amo_peer_ = rails_.peer(5);
    std::unique_ptr<Peer> other_ = rails_.peer(6);
    BrokenConnections broken_;
    std::vector<Peer*> heard_;
};

TEST_F(BrokenConnectionsTest, EachIsReportedOnce) {
    EXPECT_FALSE(broken_.any());
    broken_.add(*known_);
    EXPECT_TRUE(broken_.any());
    EXPECT_EQ(report(), std::vector<Peer*>{known_.get()});
    EXPECT_FALSE(broken_.any());
    EXPECT_TRUE(report().empty());
}

TEST_F(BrokenConnectionsTest, TheUserHearsOfPeersThatItKnows) {
    broken_.add(*amo_peer_);
    broken_.add(*other_);
    EXPECT_EQ(report(), std::vector<Peer*>{known_.get()});
}

TEST_F(BrokenConnectionsTest, WithoutAHandlerTheyAreDropped) {
    broken_.listen(nullptr, nullptr);
    broken_.add(*known_);
    EXPECT_TRUE(report().empty());
    EXPECT_FALSE(broken_.any());
}

} // namespace
} // namespace adaptib::test
