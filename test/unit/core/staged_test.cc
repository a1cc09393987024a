// SPDX-License-Identifier: BSD-3-Clause
// Long data that both ends copy through staging memory: the data is right whether the other end
// takes part, stays away, leaves halfway or writes nonsense, and the copy is over when the call
// returns.
//
// ThreadSanitizer does not see that the words which two cores share are the same ones. So the tests
// look at the memory that the other end's thread touches only after that thread has ended.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "attentive.h"
#include "cooperative_copy.h"
#include "cores.h"
#include "simulator/faults/fault.h"

namespace adaptib::test {
namespace {

constexpr Bytes kUnit = SharedWork::kUnit;
constexpr std::size_t kBytes = (1u << 20) + 5;
constexpr std::chrono::seconds kPatience{120};
constexpr std::size_t kRoundsToLearn = 20;

Options staged() {
    Options options;
    options.parameters.long_copies = const_cast<char*>("staged");
    return options;
}

void expect_unharmed(Cores& world) {
    for (const std::size_t node : {kWants, kHas}) {
        EXPECT_EQ(world.counters(node).bad_packets, 0u);
        EXPECT_TRUE(world.messages(node).empty());
    }
    exchange(world, 100, 3);
}

TEST(Staged, BothEndsCopyAMessage) {
    Cores world(2, staged());
    exchange(world, 100, 3);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const Counters& counters = world.counters(kWants);
    for (std::size_t round = 0;
         counters.copies_staged < 20 && std::chrono::steady_clock::now() < end; ++round) {
        carry(world, true, round);
    }
    EXPECT_GE(counters.copies_staged, 1u) << "on a busy machine the sender may come seldom";
    EXPECT_EQ(counters.copies_cooperative, 0u);
    EXPECT_GT(world.counters(kHas).rdma_write_bytes, 0u) << "what the sender copied";
    expect_unharmed(world);
}

// Each core is the initiator of one copy and the helper in the other one.
TEST(Staged, DataInBothDirectionsAtOnce) {
    Cores world(2, staged());
    exchange(world, 100, 3);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const auto is_enough = [&](std::size_t node) {
        return world.counters(node).copies_staged >= 20 && world.counters(node).copies_crossed > 0;
    };
    for (unsigned round = 0; !(is_enough(kWants) && is_enough(kHas)); ++round) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "both ends never copied at once";
        std::vector<std::byte> out[2] = {pattern(kBytes, round), pattern(kBytes, round + 77)};
        std::vector<std::byte> in[2] = {std::vector<std::byte>(kBytes),
                                        std::vector<std::byte>(kBytes)};
        TestRequest sends[2];
        TestRequest receives[2];
        for (const std::size_t node : {kWants, kHas}) {
            ASSERT_TRUE(world.send(node, 1 - node, 1, contiguous(out[node]), sends[node]).ok());
        }
        std::atomic<int> ready{0};
        const auto receive = [&](std::size_t node) {
            ++ready;
            while (ready < 2) {
                std::this_thread::yield();
            }
            const Status status = world.receive(node, static_cast<std::int32_t>(1 - node), 1,
                                                contiguous(in[node]), receives[node]);
            EXPECT_TRUE(status.ok());
            for (int pass = 0; pass < 100; ++pass) {
                world.progress(node);
            }
        };
        std::thread other(receive, kHas);
        receive(kWants);
        other.join();
        ASSERT_TRUE(world.run({&sends[0], &sends[1], &receives[0], &receives[1]}));
        ASSERT_TRUE(in[kWants] == out[kHas]);
        ASSERT_TRUE(in[kHas] == out[kWants]);
    }
    expect_unharmed(world);
}

TEST(Staged, ASenderThatIsNotThereIsNotWaitedFor) {
    Cores world(2, staged());
    exchange(world, 100'000, 3); // connects
    carry(world, false, 0);
    EXPECT_GT(world.counters(kWants).copies_offered, 0u);
    EXPECT_EQ(world.counters(kWants).copies_staged, 0u);
    EXPECT_EQ(world.counters(kHas).rdma_write_bytes, 0u) << "offers that are over";
    expect_unharmed(world);
}

// Options of cores whose fabrics have the faults of `plans`.
Options faulty(fault::FaultPlan (&plans)[2], fault::FaultLog (&logs)[2], Options options) {
    options.wrap = [&](std::size_t node, std::unique_ptr<Fabric> fabric, const Clock& clock) {
        return fault::with_faults(std::move(fabric), plans[node], clock, logs[node]);
    };
    return options;
}

// Staged copies that cannot go on: the data takes another way, and no core prints a message.
class StagedRefused : public testing::TestWithParam<bool> { // true: the sender makes progress
protected:
    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    Cores world{2, faulty(plans, logs, staged())};
};

TEST_P(StagedRefused, NoMemoryForStagingBlocks) {
    exchange(world, 30'000, 3); // connects, and leaves no staging block allocated
    plans[kWants].faults.push_back({.fault = fault::Fault::allocate_fails, .rate = 1});
    carry(world, GetParam(), 0);
    EXPECT_GT(logs[kWants].count(fault::Fault::allocate_fails), 0u);
    EXPECT_EQ(world.counters(kWants).copies_offered, 0u);
    EXPECT_EQ(world.counters(kWants).copies_staged, 0u);
    expect_unharmed(world);
}

// Between two messages the system ceases to copy from process to process.
TEST_P(StagedRefused, SingleCopiesEndInTheMiddleOfAJob) {
    exchange(world, 100'000, 3);
    carry(world, GetParam(), 0);
    for (fault::FaultPlan& plan : plans) {
        plan.faults.push_back({.fault = fault::Fault::request_fails, .nth = 1u << 30});
    }
    carry(world, GetParam(), 1);
    carry(world, GetParam(), 2);
    expect_unharmed(world);
}

INSTANTIATE_TEST_SUITE_P(Senders, StagedRefused, testing::Bool(),
                         [](const auto& there) { return there.param ? "there" : "away"; });

// By the test's clock a system call takes 20 us, and a copy by the processor takes no time.
TEST(Staged, IsChosenWherePinningIsDear) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "under ThreadSanitizer the threads' turns decide which way is faster";
#endif
    fault::FaultPlan plans[2];
    fault::FaultLog logs[2];
    Cores world(2, faulty(plans, logs, Options{}));
    exchange(world, 100'000, 3); // connects
    plans[kWants].at_rma_now = [&world] { world.clock.advance(Nanoseconds{20'000}); };
    // The sender's thread may lose its processor for a while, which makes staged copies slow for
    // that time. So the choice has to return to staged copies; it need not stay with them.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const Counters& counters = world.counters(kWants);
    constexpr std::size_t kThree[] = {65'536, 200'000, 1u << 20};
    constexpr std::size_t kRounds = 4; // that are looked at together
    constexpr std::size_t kWanted = kRounds * std::size(kThree) * 3 / 4;
    std::uint64_t staged = 0;
    for (std::size_t round = 0; staged < kWanted && std::chrono::steady_clock::now() < end;
         round += kRounds) {
        const std::uint64_t before = counters.copies_staged;
        for (std::size_t i = 0; i < kRounds; ++i) {
            carry(world, true, round + i, kThree);
        }
        staged = round < kRoundsToLearn ? 0 : counters.copies_staged - before;
    }
    EXPECT_GE(staged, kWanted) << "of " << kRounds * std::size(kThree) << " messages";
    expect_unharmed(world);
}

// The test plays the sender: it replies by hand in the receiver's answer slot, as the receiver,
// which has made its offer, looks how long it has waited. The sender's core sees the offer only
// when the offer is over.
class StagedByHand : public testing::Test {
protected:
    void SetUp() override {
        exchange(world, 100'000, 3); // connects
        out = pattern(kBytes, 9);
        in.assign(kBytes, std::byte{});
        ASSERT_TRUE(world.send(kHas, kWants, 1, contiguous(out), send).ok());
        for (int pass = 0; pass < 100; ++pass) {
            world.progress(kHas);
        }
    }

    // Receives the message, and while the receiver waits for the sender's part, replaces the state
    // of the offer by reply(state), once.
    void receive_with(SharedWork (*reply)(SharedWork state)) {
        AnswerSlot& slot = world.peer(kWants, kHas)->in.ring_layout().answer();
        bool has_replied = false;
        world.clock.at_now = [&] {
            const SharedWork state = SharedWork::of(slot.shared_word().load());
            if (state.number != 0 && !state.closed && !has_replied) {
                has_replied = true;
                slot.shared_word().store(reply(state).word());
            }
        };
        TestRequest receive;
        ASSERT_TRUE(world.receive(kWants, kHas, 1, contiguous(in), receive).ok());
        for (int pass = 0; pass < 100 && !receive.done; ++pass) {
            world.progress(kWants);
        }
        world.clock.at_now = nullptr;
        EXPECT_TRUE(has_replied);
        EXPECT_TRUE(receive.done);
        EXPECT_TRUE(world.run({&send}));
        EXPECT_TRUE(in == out);
        exchange(world, 100, 3);
    }

    Cores world{2, staged()};
    std::vector<std::byte> out;
    std::vector<std::byte> in;
    TestRequest send;
};

TEST_F(StagedByHand, WhoTakesAUnitAndSaysThatItCannot) {
    receive_with([](SharedWork state) {
        state.back = 1;
        state.refused = true;
        return state;
    });
    EXPECT_EQ(world.counters(kWants).copies_staged, 0u);
    EXPECT_EQ(world.counters(kWants).bad_packets, 0u);
}

TEST_F(StagedByHand, WhatTheSlotSaysWithoutSenseIsNotBelieved) {
    receive_with([](SharedWork state) {
        state.back = 1;
        state.done = 2;
        return state;
    });
    EXPECT_EQ(world.counters(kWants).copies_staged, 0u);
    EXPECT_EQ(world.counters(kWants).bad_packets, 1u);
}

// Offers that come late, or that nobody made: the sender takes no unit and writes nothing.
class StagedOffers : public StagedByHand {
protected:
    // Gives the sender an offer as if its peer asked for `bytes` bytes at `theirs` of the message
    // `send_id`. Sets `taken` to the number of units that the sender has taken.
    void offer(std::uint64_t send_id, const std::byte* theirs, std::size_t bytes) {
        Peer& peer = *world.peer(kHas, kWants);
        AnswerSlot& slot = world.peer(kWants, kHas)->in.ring_layout().answer();
        slot.moved_word().store(0);
        slot.shared_word().store(SharedWork{.number = 7}.word());
        CooperativeCopyBody body{};
        body.number = 7;
        body.theirs = reinterpret_cast<std::uintptr_t>(theirs);
        body.length = static_cast<std::uint32_t>(bytes);
        body.opcode = static_cast<std::uint8_t>(Opcode::write);
        body.staging_units = 4;
        body.send_id = send_id;
        body.staging = staging_address;
        body.staging_key = staging_key;
        MessageHeader header;
        header.type = MessageType::cooperative_copy;
        header.length = sizeof body;
        header.sequence = peer.in.next_receive;
        world.core(kHas).protocol().on_message(peer, header, reinterpret_cast<std::byte*>(&body));
        taken = SharedWork::of(slot.shared_word().load()).back;
        slot.shared_word().store(SharedWork{.closed = true}.word());
    }

    std::uint64_t staging_address = 0;
    std::uint32_t staging_key = 0;
    std::uint32_t taken = 0;
};

TEST_F(StagedOffers, WhatIsNoPartOfAMessageThatIsSentIsNotRead) {
    std::unique_ptr<MemoryRegion> region;
    Rail& rail = *world.core(kWants).rails()[0];
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite;
    ASSERT_TRUE(rail.allocate(4 * kUnit, kAccess, region).ok());
    staging_address = reinterpret_cast<std::uintptr_t>(region->address());
    staging_key = region->remote_key();
    std::uint64_t id = 0; // the generation in the upper half, slot 0 in the lower
    for (std::uint64_t generation = 1; generation < 100 && taken == 0; ++generation) {
        id = generation << 32;
        offer(id, out.data(), 2 * 65536);
    }
    EXPECT_EQ(taken, 4u) << "as many as there is room for: it is not emptied";
    EXPECT_EQ(std::memcmp(region->address(), out.data(), 4 * kUnit), 0);
    offer(id, out.data() + 1, out.size());
    EXPECT_EQ(taken, 0u) << "reaches beyond its end";
    offer(id, out.data() - 1, 65536);
    EXPECT_EQ(taken, 0u) << "begins before it";
    offer(id + 1, out.data(), 65536);
    EXPECT_EQ(taken, 0u) << "no message of ours";
    staging_key ^= 0x5555;
    offer(id, out.data(), 65536);
    EXPECT_EQ(taken, 0u) << "no memory to write to";
    EXPECT_EQ(world.counters(kHas).bad_packets, 0u);
}

} // namespace
} // namespace adaptib::test
