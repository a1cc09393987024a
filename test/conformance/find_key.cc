// SPDX-License-Identifier: BSD-3-Clause
// Conformance: the initiator finds the keys of the target's regions itself (capability
// sees_regions).
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

constexpr std::uint32_t kWrite = kRemoteWrite;
constexpr std::uint32_t kWindow = kRemoteWrite | kRemoteRead | kRemoteAtomic;

class FindKey : public Fixture {
protected:
    void SetUp() override {
        Fixture::SetUp();
        if (!IsSkipped() && !HasFatalFailure() && !has(Capability::rc)) {
            GTEST_SKIP() << "the rail lacks rc";
        }
    }
    // The key that find_key puts in place of the given one; 0 if it finds none.
    static std::uint32_t found(End& from, const RemoteRange& range, std::uint32_t given) {
        std::uint32_t key = given;
        const Status status = from.qp->find_key(range, key);
        EXPECT_TRUE(status.ok() || status.reason() == Reason::bad_key);
        EXPECT_TRUE(status.ok() || key == given);
        return status.ok() ? key : 0;
    }
};
ADAPTIB_CONFORMANCE(FindKey);

TEST_P(FindKey, IsNotSupportedWithoutTheCapability) {
    if (has(Capability::sees_regions)) {
        GTEST_SKIP() << "the rail has sees_regions";
    }
    Pair p = rc_pair();
    Buffer& target = memory(1, 64);
    std::uint32_t key = target.key();
    EXPECT_EQ(p.a.qp->find_key({target.remote(), 64, kWrite}, key).reason(), Reason::not_supported);
}

TEST_P(FindKey, AKeyThatCoversTheRangeStays) {
    ADAPTIB_NEEDS(sees_regions);
    Pair p = rc_pair();
    Buffer& first = memory(1, 4096);
    Buffer& same = allocated(1, 4096);
    for (Buffer* each : {&first, &same}) {
        EXPECT_EQ(found(p.a, {each->remote(), 4096, kWindow}, each->key()), each->key());
        EXPECT_EQ(found(p.a, {each->remote(4095), 1, kWrite}, each->key()), each->key());
    }
}

TEST_P(FindKey, AnotherRegionThatCoversTheRangeIsFound) {
    ADAPTIB_NEEDS(sees_regions);
    Pair p = rc_pair();
    std::vector<Buffer*> regions;
    for (int i = 0; i < 300; ++i) {
        regions.push_back(&memory(1, 100 + static_cast<Bytes>(i)));
    }
    for (std::size_t i = 0; i < regions.size(); ++i) {
        const std::uint32_t wrong = regions[(i * 7 + 1) % regions.size()]->key();
        const Bytes length = 100 + i;
        EXPECT_EQ(found(p.a, {regions[i]->remote(), length, kWindow}, wrong), regions[i]->key());
        EXPECT_EQ(found(p.a, {regions[i]->remote(length - 1), 1, kWrite}, ~0u), regions[i]->key());
    }
}

TEST_P(FindKey, NothingIsFoundBeyondARegionOrWithoutItsRights) {
    ADAPTIB_NEEDS(sees_regions);
    Pair p = rc_pair();
    Buffer& readable = memory(1, 64, kRemoteRead);
    const std::uint64_t at = readable.remote();
    EXPECT_EQ(found(p.a, {at, 64, kRemoteRead}, readable.key()), readable.key());
    EXPECT_EQ(found(p.a, {at, 64, kWrite}, readable.key()), 0u);
    EXPECT_EQ(found(p.a, {at, 64, kRemoteRead | kWrite}, readable.key()), 0u);
    EXPECT_EQ(found(p.a, {at, 65, kRemoteRead}, readable.key()), 0u);
    EXPECT_EQ(found(p.a, {at - 1, 2, kRemoteRead}, readable.key()), 0u);
    EXPECT_EQ(found(p.a, {at, ~Bytes{0}, kRemoteRead}, readable.key()), 0u);
}

TEST_P(FindKey, ARegionThatIsGoneIsNotFoundAndItsSlotIsUsedAgain) {
    ADAPTIB_NEEDS(sees_regions);
    Pair p = rc_pair();
    Buffer& other = memory(1, 64);
    std::vector<std::byte> bytes(256);
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    std::uint32_t stale = 0;
    for (int i = 0; i < 100; ++i) {
        std::unique_ptr<MemoryRegion> region;
        ASSERT_EQ(rail(1).register_memory(bytes.data(), bytes.size(), kAllAccess, region), kOk);
        EXPECT_EQ(found(p.a, {at, 256, kWindow}, i % 2 == 0 ? stale : other.key()),
                  region->remote_key());
        stale = region->remote_key();
        region.reset();
        EXPECT_EQ(found(p.a, {at, 256, kWindow}, stale), 0u);
    }
}

TEST_P(FindKey, AQueuePairThatIsNotReadyFindsNothing) {
    ADAPTIB_NEEDS(sees_regions);
    Pair p = rc_pair();
    Buffer& target = memory(1, 64);
    std::uint32_t key = target.key();
    QpAttributes error;
    error.state = QpState::error;
    ASSERT_EQ(p.b.qp->modify(error, kQpState), kOk);
    EXPECT_EQ(p.a.qp->find_key({target.remote(), 64, kWrite}, key).reason(), Reason::bad_state);
    ASSERT_EQ(p.a.qp->modify(error, kQpState), kOk);
    EXPECT_EQ(p.a.qp->find_key({target.remote(), 64, kWrite}, key).reason(), Reason::bad_state);
    EXPECT_EQ(key, target.key());
}

} // namespace
} // namespace adaptib::conformance
