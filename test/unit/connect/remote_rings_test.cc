// SPDX-License-Identifier: BSD-3-Clause
// Rings in peers' memory: where messages go, and what happens without memory to post from.
#include "connect/remote_rings.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/wire_connect.h"
#include "unit/connect/recorded_rails.h"

namespace adaptib::test {
namespace {

class Remote : public RecordedConnections {
protected:
    static constexpr std::uint64_t kCredit = 0x100000;
    static constexpr Bytes kRing = 4096;

    Remote() {
        peer_->in.ring_parts = {.lines_bytes = kRing};
        EXPECT_TRUE(first_.allocate(4096, kLocalWrite, peer_->in.ring_memory).ok());
        peer_->lanes.scheduler = make_scheduler({});
        for (std::uint32_t rail = 0; rail < 2; ++rail) {
            Subchannel& subchannel = peer_->lanes.subchannels.emplace_back();
            subchannel.local_rail = rail;
            subchannel.remote_memory_key = 50 + rail;
            EXPECT_TRUE(rails_[rail]->create_qp({}, subchannel.qp).ok());
        }
        peer_->session.state = ConnectState::open;
    }

    static ConnectBody offer(bool direct = false) {
        ConnectBody body{};
        body.credit_address = kCredit;
        body.ring_address = kCredit + RingMemory::before_lines({.direct = direct});
        body.ring_bytes = kRing;
        body.measure_address = 0x200000;
        return body;
    }
    bool write() {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = 0;
        return peer_->out.ring->reserve(0) != nullptr && peer_->out.ring->commit(header).ok();
    }

    const ConnectContext context_ = recorded_context({});
    ControlLanes lanes_{context_};
    ConnectionPool pool_{4, world_.counters};
    RemoteRings rings_{context_, lanes_, pool_};
    std::unique_ptr<Peer> peer_ = idle_peer(1);
};

TEST_F(Remote, MessagesGoWhereThePeerHasOfferedARing) {
    RemoteRings::note(*peer_, offer());
    EXPECT_EQ(peer_->in.credit_address, kCredit);
    EXPECT_EQ(peer_->control.measure_address, 0x200000u);
    EXPECT_EQ(peer_->out.ring, nullptr); // a path may still drop out
    peer_->control.lane = 1;
    rings_.open(*peer_);
    ASSERT_NE(peer_->out.ring, nullptr);
    EXPECT_EQ(peer_->out.ring_capacity, peer_->out.ring->most());
    ASSERT_TRUE(write());
    EXPECT_TRUE(made(*peer_, 0).posts.empty());
    ASSERT_EQ(made(*peer_, 1).posts.size(), 1u); // the control lane
    const SendWork& work = made(*peer_, 1).posts.front();
    EXPECT_EQ(work.remote_address, offer().ring_address);
    EXPECT_EQ(work.remote_key, 51u);
    EXPECT_NE(work.flags & kInline, 0u); // as far as the rail takes it
    EXPECT_EQ(work.wr_id, wr_id_of(&peer_->connection.ring_work));
}

TEST_F(Remote, AnotherControlLaneReachesTheSameRing) {
    RemoteRings::note(*peer_, offer());
    rings_.open(*peer_);
    ASSERT_TRUE(write());
    ASSERT_TRUE(peer_->out.ring->pause(second_).ok());
    rings_.migrate(*peer_, peer_->lanes.subchannels[1]);
    ASSERT_TRUE(write());
    ASSERT_EQ(made(*peer_, 1).posts.size(), 1u);
    const SendWork& work = made(*peer_, 1).posts.front();
    EXPECT_EQ(work.remote_key, 51u);
    EXPECT_GT(work.remote_address, offer().ring_address); // behind the first message
    EXPECT_EQ(made(*peer_, 0).posts.size(), 1u);
}

// The limit is that of the paths together: the control lane may change.
TEST_F(Remote, MessagesToADeviceThatPlacesInAnyOrderAreOfOnePacket) {
    first_.place_in_any_order(2048);
    second_.place_in_any_order(1024);
    RemoteRings::note(*peer_, offer());
    peer_->lanes.subchannels[0].unordered = true; // the peer's device, not this process's
    rings_.open(*peer_);
    EXPECT_EQ(peer_->out.ring_capacity, 1024 - kRingOverhead);
    second_.place_in_any_order(0); // unknown: the smallest MTU
    rings_.open(*peer_);
    EXPECT_EQ(peer_->out.ring_capacity, 256 - kRingOverhead);
    peer_->lanes.subchannels[0].unordered = false;
    rings_.open(*peer_);
    EXPECT_GT(peer_->out.ring_capacity, 1024u);
}

TEST_F(Remote, WithoutMemoryToPostFromDatagramsServe) {
    first_.memory_result = Status::error(Reason::locked_memory);
    RemoteRings::note(*peer_, offer());
    const auto other = idle_peer(2);
    pool_.keep(*other, {});
    rings_.open(*peer_);
    EXPECT_EQ(peer_->out.ring, nullptr);
    EXPECT_EQ(peer_->connection.remote_ring.units, 0u); // as if none were offered
    EXPECT_FALSE(other->connection.kept.link.linked()); // that might have made room
}

TEST_F(Remote, MemoryThatCanBeStoredIntoIsMapped) {
    // Memory of this process stands for the peer's.
    std::unique_ptr<MemoryRegion> memory;
    const RingParts parts{.lines_bytes = kRing, .direct = true};
    ASSERT_TRUE(first_.allocate(RingMemory::bytes(parts), kLocalWrite, memory).ok());
    const RingMemory layout(*memory, parts);
    layout.begin();
    ConnectBody body = offer(true);
    body.credit_address = reinterpret_cast<std::uintptr_t>(layout.credit());
    body.ring_address = reinterpret_cast<std::uintptr_t>(layout.lines());
    made(*peer_, 0).mappable = true;
    RemoteRings::note(*peer_, body);
    rings_.open(*peer_);
    EXPECT_EQ(peer_->transfers.answers, &layout.answer());
    EXPECT_EQ(peer_->transfers.answer_data, layout.answer_data());
    ASSERT_TRUE(write());
    EXPECT_TRUE(made(*peer_, 0).posts.empty());
    EXPECT_NE(*layout.lines(), std::byte{0});

    RemoteRings::note(*peer_, offer()); // of a next connection, over which nothing can be stored
    peer_->out.ring.reset();
    rings_.open(*peer_);
    EXPECT_EQ(peer_->transfers.answers, nullptr);
    EXPECT_EQ(peer_->transfers.answer_data, nullptr);
}

} // namespace
} // namespace adaptib::test
