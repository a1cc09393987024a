// SPDX-License-Identifier: BSD-3-Clause
// Conformance: mapping a peer's memory (capability direct).
#include <atomic>
#include <cstring>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class MapUsable : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
    static std::byte* bytes(void* p) { return static_cast<std::byte*>(p); }
};
ADAPTIB_CONFORMANCE(MapUsable);

TEST_P(MapUsable, UsableFollowsTheState) {
    Pair p{rc_end(0), rc_end(1)};
    EXPECT_FALSE(p.a.qp->usable());
    connect(p.a, p.b);
    EXPECT_TRUE(p.a.qp->usable());
    EXPECT_TRUE(p.b.qp->usable());
    QpAttributes a;
    a.state = QpState::error;
    ASSERT_EQ(p.a.qp->modify(a, kQpState), kOk);
    EXPECT_FALSE(p.a.qp->usable());
    a.state = QpState::reset;
    ASSERT_EQ(p.a.qp->modify(a, kQpState), kOk);
    EXPECT_FALSE(p.a.qp->usable());
}

TEST_P(MapUsable, NothingIsMappedWithoutTheCapability) {
    if (has(Capability::direct)) {
        GTEST_SKIP() << "the rail has direct";
    }
    Pair p = rc_pair();
    Buffer& target = allocated(1, 4096);
    EXPECT_EQ(p.a.qp->map(target.remote(), 64, target.key()), nullptr);
}

TEST_P(MapUsable, StoresAreSeenByTheTarget) {
    ADAPTIB_NEEDS(direct);
    Pair p = rc_pair();
    for (const Bytes size : {Bytes{64}, Bytes{4096}, Bytes{300'000}}) {
        Buffer& target = allocated(1, size);
        void* there = p.a.qp->map(target.remote(), size, target.key());
        ASSERT_NE(there, nullptr) << size;
        EXPECT_TRUE(all_equal(bytes(there), size, std::byte{0}));
        fill(bytes(there), size, size);
        std::atomic_signal_fence(std::memory_order_seq_cst); // one thread stores and loads
        EXPECT_TRUE(holds(target.data(), size, size));
        fill(target.data(), size, size + 1);
        EXPECT_TRUE(holds(bytes(there), size, size + 1));
    }
}

TEST_P(MapUsable, PartsMapToTheSamePlace) {
    ADAPTIB_NEEDS(direct);
    Pair p = rc_pair();
    Buffer& target = allocated(1, 10'000);
    for (const Bytes offset : {Bytes{0}, Bytes{1}, Bytes{64}, Bytes{4095}, Bytes{9999}}) {
        void* there = p.a.qp->map(target.remote(offset), 10'000 - offset, target.key());
        ASSERT_NE(there, nullptr) << offset;
        *bytes(there) = static_cast<std::byte>(offset % 251 + 1);
        EXPECT_EQ(target.data()[offset], static_cast<std::byte>(offset % 251 + 1));
    }
}

TEST_P(MapUsable, WritesAndStoresMeet) {
    ADAPTIB_NEEDS(direct);
    ADAPTIB_NEEDS(rdma_write);
    Pair p = rc_pair();
    Buffer& source = memory(0, 4096);
    Buffer& target = allocated(1, 4096);
    void* there = p.a.qp->map(target.remote(), 4096, target.key());
    ASSERT_NE(there, nullptr);
    fill(source.data(), 4096, 3);
    const std::vector<Gather> gather{source.gather(0, 4096)};
    ASSERT_EQ(run(p.a, rdma_work(1, Opcode::write, gather, target.remote(), target.key())),
              WorkStatus::success);
    EXPECT_TRUE(holds(bytes(there), 4096, 3));
}

TEST_P(MapUsable, OnlyWhatTheKeyAllows) {
    ADAPTIB_NEEDS(direct);
    Pair p = rc_pair();
    Buffer& target = allocated(1, 4096);
    Buffer& read_only = allocated(1, 4096, kLocalWrite | kRemoteRead);
    Buffer& registered = memory(1, 4096);
    EXPECT_EQ(p.a.qp->map(target.remote(), 4097, target.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(target.remote() - 1, 2, target.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(target.remote(4096), 1, target.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(target.remote(), ~Bytes{0}, target.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(target.remote(), 64, ~0u), nullptr);
    EXPECT_EQ(p.a.qp->map(target.remote(), 64, read_only.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(read_only.remote(), 64, read_only.key()), nullptr);
    EXPECT_EQ(p.a.qp->map(registered.remote(), 64, registered.key()), nullptr)
        << "the caller's own memory is not the rail's";
    EXPECT_NE(p.a.qp->map(target.remote(), 4096, target.key()), nullptr);
    const std::uint64_t address = target.remote();
    const std::uint32_t key = target.key();
    destroy(target);
    EXPECT_EQ(p.a.qp->map(address, 64, key), nullptr) << "revoked";
    End& unconnected = rc_end(0);
    Buffer& other = allocated(1, 4096);
    EXPECT_EQ(unconnected.qp->map(other.remote(), 64, other.key()), nullptr);
}

TEST_P(MapUsable, QueuePairRightsCount) {
    ADAPTIB_NEEDS(direct);
    RcOptions rc;
    rc.access = kRemoteRead;
    Pair p = rc_pair(0, 1, {}, rc);
    Buffer& target = allocated(1, 4096);
    EXPECT_EQ(p.a.qp->map(target.remote(), 64, target.key()), nullptr);
}

TEST_P(MapUsable, RingOfStores) {
    // Writes as the ring channel does: stores the payload, then the word that publishes it.
    ADAPTIB_NEEDS(direct);
    Pair p = rc_pair();
    constexpr Bytes kSlots = 16;
    constexpr Bytes kSlot = 256;
    Buffer& ring = allocated(1, kSlots * kSlot);
    auto* there = bytes(p.a.qp->map(ring.remote(), ring.size(), ring.key()));
    ASSERT_NE(there, nullptr);
    for (std::uint64_t i = 1; i <= 1000; ++i) {
        ASSERT_TRUE(p.a.qp->usable());
        std::byte* slot = there + (i % kSlots) * kSlot;
        fill(slot, kSlot - 8, i);
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(slot + kSlot - 8))
            .store(i, std::memory_order_release);
        std::byte* seen = ring.data() + (i % kSlots) * kSlot;
        const std::atomic_ref<std::uint64_t> word(
            *reinterpret_cast<std::uint64_t*>(seen + kSlot - 8));
        ASSERT_EQ(word.load(std::memory_order_acquire), i);
        ASSERT_TRUE(holds(seen, kSlot - 8, i));
    }
}

TEST_P(MapUsable, MappingOutlivesTheRegionWhileTheQueuePairLives) {
    ADAPTIB_NEEDS(direct);
    Pair p = rc_pair();
    Buffer& target = allocated(1, 4096);
    auto* there = bytes(p.a.qp->map(target.remote(), 4096, target.key()));
    ASSERT_NE(there, nullptr);
    destroy(p.b);
    destroy(target);
    // A late store must not fault, and must not reach memory that is allocated afterwards: new
    // memory is zero.
    *there = std::byte{9};
    Buffer& next = allocated(1, 4096);
    EXPECT_TRUE(all_equal(next.data(), 4096, std::byte{0}));
}

} // namespace
} // namespace adaptib::conformance
