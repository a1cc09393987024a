// SPDX-License-Identifier: BSD-3-Clause
// Cooperative copies of long data: right whether or not the other end comes, and over
// when the call is.
//
// ThreadSanitizer does not see that the words that two cores share are the same ones: the test
// looks at data that the other end's thread touches only when that thread has ended.
#include <algorithm>
#include <chrono>

#include "attentive.h"
#include "cooperative_copy.h"
#include "cores.h"
#include "window.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience{120};

static_assert(SharedWork::of(SharedWork{.number = SharedWork::kNumbers,
                                        .front = 1,
                                        .back = 256,
                                        .done = 2,
                                        .closed = true,
                                        .refused = false}
                                 .word())
                  .back == 256);
static_assert(SharedWork::of(SharedWork{.number = 77, .done = 5}.word() +
                             SharedWork{.done = 3}.word())
                  .done == 8);
static_assert(SharedWork::of(SharedWork{.number = 77, .closed = true}.word() +
                             SharedWork{.refused = true}.word())
                  .refused);

TEST(CooperativeCopy, BothEndsCopyAMessage) {
    Cores world(2);
    exchange(world, 100, 3);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    const Counters& counters = world.counters(kWants);
    for (std::size_t round = 0;
         counters.copies_cooperative < 20 && std::chrono::steady_clock::now() < end; ++round) {
        carry(world, true, round);
        if (round % 10 == 0 &&
            world.peer(kWants, kHas)->transfers.cooperative_copy_choices != nullptr) {
            ask_first(*world.peer(kWants, kHas));
        }
    }
    EXPECT_GE(counters.copies_cooperative, 1u) << "on a busy machine the sender may come seldom";
    EXPECT_GE(counters.copies_offered, counters.copies_cooperative);
    EXPECT_GT(world.counters(kHas).rdma_write_bytes, 0u) << "what the sender copied";
    for (const std::size_t node : {kWants, kHas}) {
        EXPECT_EQ(world.counters(node).bad_packets, 0u);
        EXPECT_TRUE(world.messages(node).empty());
    }
}

// An offer that nobody took up in time is void: data that lies there by then stays as it is.
TEST(CooperativeCopy, AnOfferThatIsOverIsNotTakenUp) {
    Cores world(2);
    exchange(world, 100, 3);
    carry(world, false, 0);
    ask_first(*world.peer(kWants, kHas));
    std::vector<std::byte> out = pattern(1u << 20, 1);
    std::vector<std::byte> in(out.size());
    TestRequest send;
    TestRequest receive;
    ASSERT_TRUE(world.send(kHas, kWants, 1, contiguous(out), send).ok());
    const std::uint64_t offered = world.counters(kWants).copies_offered;
    ASSERT_TRUE(world.receive(kWants, kHas, 1, contiguous(in), receive).ok());
    for (int pass = 0; pass < 100; ++pass) {
        world.progress(kWants);
    }
    ASSERT_TRUE(receive.done);
    ASSERT_TRUE(in == out);
    EXPECT_EQ(world.counters(kWants).copies_offered, offered + 1);
    EXPECT_EQ(world.counters(kWants).copies_cooperative, 0u);
    in = pattern(in.size(), 2);
    ASSERT_TRUE(world.run({&send})); // sees the offer
    exchange(world, 100, 4);
    EXPECT_TRUE(in == pattern(in.size(), 2));
    EXPECT_EQ(world.counters(kHas).rdma_write, 0u);
    EXPECT_EQ(world.counters(kHas).bad_packets, 0u);
}

// A process that copies data itself does not wait for offers, so it gets none. Its mark is
// set by hand here.
TEST(CooperativeCopy, WhoCopiesInTheOtherDirectionIsNotAsked) {
    Cores world(2);
    exchange(world, 100, 3);
    carry(world, false, 0);
    const Counters& counters = world.counters(kWants);
    const auto offers = [&] {
        ask_first(*world.peer(kWants, kHas));
        const std::uint64_t before = counters.copies_offered;
        carry(world, false, 1);
        return counters.copies_offered - before;
    };
    EXPECT_GT(offers(), 0u);
    EXPECT_EQ(counters.copies_crossed, 0u);
    std::uint64_t& mark = world.peer(kHas, kWants)->in.ring_layout().answer().shared;
    mark = SharedWork{.front = 1}.word();
    EXPECT_EQ(offers(), 0u);
    const std::uint64_t crossed = counters.copies_crossed;
    EXPECT_GT(crossed, 0u);
    mark = SharedWork{.closed = true}.word();
    EXPECT_GT(offers(), 0u);
    EXPECT_EQ(counters.copies_crossed, crossed + 1) << "the last one ended beside one";
}

// A copy by one end alone is marked while it lasts, and no longer.
TEST(CooperativeCopy, WhoCopiesAloneIsNotMarkedAnyMoreBehindIt) {
    Cores world(2);
    exchange(world, 100, 3);
    carry(world, false, 0);
    const std::uint64_t word = world.peer(kWants, kHas)->in.ring_layout().answer().shared;
    EXPECT_NE(word, 0u);
    EXPECT_TRUE(SharedWork::of(word).closed);
}

// A put or get. The window is the first half of the memory.
struct OneSidedWay {
    const char* name;
    opal_common_adaptib_operation_t operation;
    bool staged; // else each end copies a part
};

class OneSidedCooperativeCopy : public testing::TestWithParam<OneSidedWay> {
protected:
    static Options options() {
        Options options;
        options.parameters.long_copies = const_cast<char*>(GetParam().staged ? "staged" : "auto");
        return options;
    }
    std::uint64_t copied() {
        const Counters& counters = world.counters(kWants);
        return GetParam().staged ? counters.copies_staged : counters.copies_cooperative;
    }
    bool transfer(std::size_t bytes) {
        if (!GetParam().staged) {
            ask_first(*world.peer(kWants, kHas));
        }
        const Attentive target(world, kHas);
        return world.core(kWants).protocol().one_sided().try_rma(
            *world.peer(kWants, kHas),
            operation(GetParam().operation, own.data(), window, 0, bytes), nullptr);
    }

    static constexpr std::size_t kWindow = 2u << 20;
    Cores world{2, options()};
    std::vector<std::byte> memory = pattern(2 * kWindow, 5);
    Window window{world, kHas, memory.data(), kWindow};
    std::vector<std::byte> own = std::vector<std::byte>(kWindow + 1);
};

TEST_P(OneSidedCooperativeCopy, TheTargetCopies) {
    const bool put = GetParam().operation == OPAL_COMMON_ADAPTIB_PUT;
    const std::vector<std::byte> untouched(memory.begin() + kWindow, memory.end());
    TestRequest first;
    ASSERT_TRUE(
        start(world, kWants, kHas, operation(GetParam().operation, own.data(), window, 0, 8), first)
            .ok());
    ASSERT_TRUE(world.run({&first}));
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (std::size_t i = 0; copied() < 20 && std::chrono::steady_clock::now() < end; ++i) {
        for (const std::size_t bytes : {kWindow, kWindow / 2 + 1}) {
            own = pattern(own.size(), i);
            ASSERT_TRUE(transfer(bytes));
            ASSERT_TRUE(
                std::equal(own.begin(), own.begin() + std::ptrdiff_t(bytes), memory.begin()));
            ASSERT_EQ(own[bytes], pattern(own.size(), i)[bytes]);
        }
    }
    EXPECT_FALSE(transfer(own.size())) << "beyond the window";
    EXPECT_GE(copied(), 1u) << "on a busy machine the target may come seldom";
    EXPECT_TRUE(std::equal(untouched.begin(), untouched.end(), memory.begin() + kWindow));
    EXPECT_GT(put ? world.counters(kHas).rdma_read_bytes : world.counters(kHas).rdma_write_bytes,
              0u);
    exchange(world, 100, 4);
}

INSTANTIATE_TEST_SUITE_P(All, OneSidedCooperativeCopy,
                         testing::Values(OneSidedWay{"put", OPAL_COMMON_ADAPTIB_PUT, false},
                                         OneSidedWay{"get", OPAL_COMMON_ADAPTIB_GET, false},
                                         OneSidedWay{"put_staged", OPAL_COMMON_ADAPTIB_PUT, true},
                                         OneSidedWay{"get_staged", OPAL_COMMON_ADAPTIB_GET, true}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CooperativeCopy, NobodyIsAskedWhereItIsSwitchedOff) {
    Options options;
    options.parameters.long_copies = const_cast<char*>("alone");
    Cores world(2, options);
    exchange(world, 100, 3);
    for (std::size_t round = 0; round < 15; ++round) {
        carry(world, false, round);
    }
    EXPECT_EQ(world.counters(kWants).copies_offered, 0u);
}

} // namespace
} // namespace adaptib::test
