// SPDX-License-Identifier: BSD-3-Clause
// Rings in which nothing has arrived for a while.
#include "core/idle_rings.h"

#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

struct OnePeer {
    Peer& peer;
    template <typename F> void for_each(F&& f) const { f(peer); }
};

class IdleRingsTest : public CoreParts {
protected:
    IdleRingsTest() {
        connect(*peer_);
        const RingTarget lines{.address = reinterpret_cast<std::uintptr_t>(out_.address()),
                               .units = 64};
        peer_->out.ring = std::make_unique<RingWriter>(rail_, mapping_, lines, &consumed_, 0);
    }

    std::unique_ptr<Peer> peer_ = peer(20);
    MemoryRail rail_;
    MemoryQp mapping_;
    PlainRegion out_{64 * kRingUnit};
    std::uint64_t consumed_ = 0;
    IdleRings idle_{counters()};
};

TEST_F(IdleRingsTest, ForWhichMemoryWasRefusedTakeLongMessagesAgain) {
    constexpr Bytes kMessage = 500;
    ASSERT_LE(kMessage, peer_->out.ring->most());
    peer_->out.ring_capacity = 0; // as Peer::reserve() leaves it
    ASSERT_FALSE(peer_->out.by_ring(kMessage));
    ASSERT_TRUE(idle_.is_due(clock().now()));
    idle_.shrink(OnePeer{*peer_}, clock().now());
    EXPECT_TRUE(peer_->out.by_ring(kMessage));
    EXPECT_FALSE(idle_.is_due(clock().now()));
    EXPECT_TRUE(idle_.is_due(clock().now() + IdleRings::kEvery));
}

} // namespace
} // namespace adaptib::test
