// SPDX-License-Identifier: BSD-3-Clause
// SynchronousRma: whichever way an operation takes, and whatever the target does meanwhile, the
// data is in place when the call returns.
#include "protocol/intranode/synchronous_rma.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr std::array<std::uint32_t, 1> kKeys{kRemoteKey};

std::vector<std::byte> numbered(std::size_t bytes, std::size_t seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        data[i] = static_cast<std::byte>(i * 31 + i / 251 + seed);
    }
    return data;
}

RmaWork work_of(Opcode opcode, std::vector<std::byte>& ours, std::vector<std::byte>& theirs) {
    RmaWork work;
    work.opcode = opcode;
    work.local = ours.data();
    work.length = ours.size();
    work.remote_address = reinterpret_cast<std::uintptr_t>(theirs.data());
    return work;
}

// Writes or reads, and returns true if the data is in place afterwards.
bool moves(TwoEnds& ends, Opcode opcode, Bytes length, std::size_t seed) {
    std::vector<std::byte> ours = numbered(length, seed);
    std::vector<std::byte> theirs = numbered(length, seed + 1);
    const std::vector<std::byte> expected = opcode == Opcode::write ? ours : theirs;
    const RmaWork work = work_of(opcode, ours, theirs);
    EXPECT_TRUE(ends.initiator.put_or_get(
        *ends.there, length, [&] { return work; }, ends.whole(), kKeys));
    return ours == expected && theirs == expected;
}

TEST(SynchronousRma, GoesOverTheOnlyPathWithItsKeys) {
    TwoEnds ends;
    EXPECT_TRUE(moves(ends, Opcode::write, 100, 1));
    EXPECT_TRUE(moves(ends, Opcode::read, 100, 2));
    const std::vector<RmaWork>& executed = ends.initiators_qp().executed;
    ASSERT_EQ(executed.size(), 2u);
    EXPECT_EQ(executed[0].local_key, kLocalKey);
    EXPECT_EQ(executed[0].remote_key, kRemoteKey);
    EXPECT_EQ(ends.counters.rdma_write, 1u);
    EXPECT_EQ(ends.counters.rdma_write_bytes, 100u);
    EXPECT_EQ(ends.counters.rdma_read, 1u);
    EXPECT_EQ(ends.counters.ring_sent, 0u);
}

TEST(SynchronousRma, WithoutTheOnlyPathNothingIsDone) {
    TwoEnds ends;
    std::vector<std::byte> ours = numbered(100, 1);
    std::vector<std::byte> theirs = numbered(100, 2);
    const RmaWork work = work_of(Opcode::write, ours, theirs);
    const auto done = [&](std::span<const std::uint32_t> keys) {
        return ends.initiator.put_or_get(
            *ends.there, work.length, [&] { return work; }, ends.whole(), keys);
    };
    EXPECT_FALSE(done({})) << "no key of the target's rail";
    ends.initiators_qp().executes = false;
    EXPECT_FALSE(done(kKeys));
    ends.initiators_qp().executes = true;
    ends.there->session.state = ConnectState::idle;
    EXPECT_FALSE(done(kKeys));
    ends.there->session.state = ConnectState::open;
    ends.there->lanes.subchannels.emplace_back();
    EXPECT_FALSE(done(kKeys));
    EXPECT_NE(ours, theirs);
    EXPECT_EQ(ends.counters.rdma_write, 0u);
}

class Assisted : public testing::Test {
protected:
    Assisted() { ends.there->transfers.assist_choices = std::make_unique<AssistChoices>(); }
    TwoEnds ends;
};

TEST_F(Assisted, ATargetThatAttendsServesSome) {
    for (std::size_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(moves(ends, i % 2 == 0 ? Opcode::write : Opcode::read, 64 + i, i));
    }
    EXPECT_GT(ends.served.operations_served, 0u);
    EXPECT_EQ(ends.served.operations_served,
              ends.counters.operations_assisted - ends.counters.operations_taken_back);
    EXPECT_EQ(ends.initiators_qp().executed.size() + ends.served.operations_served, 200u);
    EXPECT_EQ(ends.counters.rdma_write + ends.counters.rdma_read, 200u);
}

TEST_F(Assisted, AnOfferThatWasTakenBackIsNotServedLater) {
    ends.attends = false;
    for (std::size_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(moves(ends, Opcode::read, 64, i));
    }
    EXPECT_GT(ends.counters.operations_assisted, 0u);
    EXPECT_EQ(ends.counters.operations_taken_back, ends.counters.operations_assisted);
    EXPECT_EQ(ends.initiators_qp().executed.size(), 20u);
    ends.look_at_ring();
    EXPECT_EQ(ends.served.operations_served, 0u);
    EXPECT_EQ(ends.served.bad_packets, 0u);
}

TEST_F(Assisted, AnAtomicIsExecutedOnceWhicheverWay) {
    alignas(8) std::uint64_t word = 1000;
    for (std::uint64_t i = 0; i < 200; ++i) {
        ends.attends = i % 7 != 0;
        std::uint64_t old = 0;
        RmaWork work;
        work.opcode = Opcode::fetch_add;
        work.local = &old;
        work.length = sizeof old;
        work.remote_address = reinterpret_cast<std::uintptr_t>(&word);
        work.compare_add = 3;
        ASSERT_TRUE(ends.initiator.execute_atomic(*ends.there, work, ends.whole(), kKeys));
        EXPECT_EQ(old, 1000 + 3 * i);
        EXPECT_EQ(word, 1000 + 3 * (i + 1));
    }
    EXPECT_GT(ends.served.operations_served, 0u);
    EXPECT_EQ(ends.counters.rdma_atomic, 200u);
}

// The initiator's other threads would wait for the target, too.
TEST_F(Assisted, IsNotAskedWhileSeveralThreadsCall) {
    TwoEnds::share(ends.lock);
    for (std::size_t i = 0; i < 50; ++i) {
        const std::lock_guard guard(ends.lock);
        ASSERT_TRUE(moves(ends, i % 2 == 0 ? Opcode::write : Opcode::read, 64, i));
    }
    EXPECT_EQ(ends.counters.operations_assisted, 0u);
    EXPECT_EQ(ends.initiators_qp().executed.size(), 50u);
    for (std::size_t i = 0; i < 4 * BiasedLock::kBiasAfter; ++i) { // this one only, from now on
        const std::lock_guard guard(ends.lock);
        ASSERT_TRUE(moves(ends, Opcode::write, 64, i));
    }
    EXPECT_GT(ends.counters.operations_assisted, 0u);
}

TEST_F(Assisted, ATargetThatRefusesLeavesItToTheInitiator) {
    ends.targets_qp().serves = false;
    for (std::size_t i = 0; i < 20; ++i) {
        ASSERT_TRUE(moves(ends, Opcode::write, 64, i));
    }
    EXPECT_GT(ends.served.operations_served, 0u) << "it has looked at offers";
    EXPECT_EQ(ends.initiators_qp().executed.size(), 20u);
}

struct LongCase {
    const char* name;
    WayChoice::Way way;
    Opcode opcode;
    bool attends;
    bool serves;
};
class Long : public testing::TestWithParam<LongCase> {
protected:
    Long() {
        ends.there->transfers.cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
        ends.there->transfers.cooperative_copy_choices->only = GetParam().way;
        ends.attends = GetParam().attends;
        ends.targets_qp().serves = GetParam().serves;
    }
    TwoEnds ends;
};

TEST_P(Long, AllDataIsInPlace) {
    const LongCase& param = GetParam();
    const bool together = param.attends && param.way != CooperativeCopyChoices::kAlone;
    std::size_t seed = 1;
    for (const Bytes length :
         {Bytes{65536}, Bytes{200'001}, Bytes{1 << 20}, Bytes{4 << 20}, Bytes{(9 << 20) + 5}}) {
        EXPECT_TRUE(moves(ends, param.opcode, length, ++seed)) << length;
    }
    EXPECT_EQ(ends.counters.copies_cooperative > 0,
              together && param.way == CooperativeCopyChoices::kCooperative);
    EXPECT_EQ(ends.counters.copies_staged > 0,
              together && param.way == CooperativeCopyChoices::kStaged && param.serves);
    EXPECT_EQ(ends.counters.copies_offered > 0, param.way != CooperativeCopyChoices::kAlone);
    EXPECT_EQ(ends.counters.bad_packets + ends.served.bad_packets, 0u);
    EXPECT_TRUE(ends.slot().shared_word().load() == 0 ||
                SharedWork::of(ends.slot().shared_word().load()).closed);
}

// So the target knows that its own copies cross this one.
TEST(SynchronousRma, TheSlotSaysThatACopyIsUnderWay) {
    TwoEnds ends;
    ends.there->transfers.cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
    ends.there->transfers.cooperative_copy_choices->only = CooperativeCopyChoices::kAlone;
    const auto slot = [&] { return SharedWork::of(ends.slot().shared_word().load()); };
    SharedWork seen;
    ends.initiators_qp().looks = [&] { seen = slot(); };
    EXPECT_TRUE(moves(ends, Opcode::write, Bytes{1 << 20}, 1));
    EXPECT_EQ(seen.front, 1u);
    EXPECT_FALSE(seen.closed);
    EXPECT_TRUE(slot().closed);
}

TEST_P(Long, ThreadsThatShareTheLockDoNotWaitForTheTarget) {
    TwoEnds::share(ends.lock);
    EXPECT_TRUE(moves(ends, GetParam().opcode, Bytes{4 << 20}, 1));
    EXPECT_EQ(ends.counters.copies_offered, 0u);
    EXPECT_EQ(ends.counters.rdma_write_bytes + ends.counters.rdma_read_bytes, Bytes{4 << 20});
}

TEST_P(Long, ThreadsOfTheTargetDoNotWaitForTheInitiator) {
    TwoEnds::share(ends.targets_lock);
    EXPECT_TRUE(moves(ends, GetParam().opcode, Bytes{4 << 20}, 1));
    EXPECT_EQ(ends.counters.copies_staged, 0u);
}

constexpr WayChoice::Way kAlone = CooperativeCopyChoices::kAlone;
constexpr WayChoice::Way kCooperative = CooperativeCopyChoices::kCooperative;
constexpr WayChoice::Way kStaged = CooperativeCopyChoices::kStaged;
INSTANTIATE_TEST_SUITE_P(
    Ways, Long,
    testing::Values(LongCase{"AlonePut", kAlone, Opcode::write, true, true},
                    LongCase{"AloneGet", kAlone, Opcode::read, true, true},
                    LongCase{"CooperativePut", kCooperative, Opcode::write, true, true},
                    LongCase{"CooperativeGet", kCooperative, Opcode::read, true, true},
                    LongCase{"CooperativeAway", kCooperative, Opcode::read, false, true},
                    LongCase{"CooperativeRefused", kCooperative, Opcode::read, true, false},
                    LongCase{"StagedPut", kStaged, Opcode::write, true, true},
                    LongCase{"StagedGet", kStaged, Opcode::read, true, true},
                    LongCase{"StagedAway", kStaged, Opcode::write, false, true},
                    LongCase{"StagedRefused", kStaged, Opcode::write, true, false}),
    [](const auto& each) { return each.param.name; });

TEST(SynchronousRma, AMessagesDataIsStagedFromTheSendersBuffer) {
    TwoEnds ends;
    ends.there->transfers.cooperative_copy_choices = std::make_unique<CooperativeCopyChoices>();
    ends.there->transfers.cooperative_copy_choices->only = CooperativeCopyChoices::kStaged;
    ends.targets_qp().serves = false;                 // not asked: the buffer is known
    std::vector<std::byte> ours(TwoEnds::kBlock - 5); // the target fills all units at once
    std::vector<std::byte> theirs = numbered(ours.size(), 3);
    const std::uint64_t send = ends.send(theirs);
    const RmaWork work = work_of(Opcode::read, ours, theirs);
    EXPECT_TRUE(ends.initiator.read_message(*ends.there, work, ends.whole(), kKeys, send));
    EXPECT_EQ(ours, theirs);
    EXPECT_EQ(ends.counters.copies_staged, 1u);
    EXPECT_TRUE(ends.initiators_qp().executed.empty());
    EXPECT_EQ(ends.served.rdma_write_bytes, ours.size());
}

} // namespace
} // namespace adaptib::test
