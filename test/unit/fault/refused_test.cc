// SPDX-License-Identifier: BSD-3-Clause
// A put, get or atomic that its target refuses ends with an error; everything else between the two
// processes goes on, transfers in flight included.
//
// The initiator does not see the target's regions here, as over an adapter: the target's queue pair
// refuses, and fails.
#include <algorithm>
#include <array>
#include <deque>
#include <string_view>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"
#include "unit/core/window.h"

namespace adaptib::test {
namespace {

class Refused : public testing::TestWithParam<std::tuple<int, const char*>> {
protected:
    static constexpr std::size_t kBytes = 200000;

    Refused() {
        Options options;
        options.parameters.shm_rails = std::get<0>(GetParam());
        options.parameters.shm_single_copy = const_cast<char*>(std::get<1>(GetParam()));
        options.parameters.atomics = adapter_;
        for (fault::FaultPlan& plan : plans_) {
            plan.lacks = static_cast<std::uint32_t>(Capability::sees_regions);
        }
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return fault::with_faults(std::move(fabric), plans_[node], clock, logs_[node]);
        };
        world_.emplace(2, options);
        exchange(*world_, 100, 20);
    }

    // Starts an operation on memory that is a window no more.
    void start_wrong(opal_common_adaptib_operation_t kind, TestRequest& request,
                     std::vector<std::byte>& local) {
        Window gone(*world_, 1, gone_.data(), gone_.size());
        auto what = operation(kind, local.data(), gone, 0, local.size());
        gone.open.reset();
        ASSERT_TRUE(start(*world_, 0, 1, what, request).ok());
    }

    std::size_t refusals_reported() {
        const auto& messages = world_->messages(0);
        return static_cast<std::size_t>(
            std::count_if(messages.begin(), messages.end(), [](const std::string& each) {
                return each.find("is refused") != std::string::npos;
            }));
    }

    char adapter_[8] = "adapter";
    std::array<fault::FaultPlan, 2> plans_;
    std::array<fault::FaultLog, 2> logs_;
    std::vector<std::byte> gone_ = std::vector<std::byte>(kBytes);
    std::optional<Cores> world_;
};
INSTANTIATE_TEST_SUITE_P(Ways, Refused,
                         testing::Combine(testing::Values(1, 2), testing::Values("auto", "none")));

TEST_P(Refused, EndsAloneWithAnError) {
    for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET,
                            OPAL_COMMON_ADAPTIB_FETCH_ADD, OPAL_COMMON_ADAPTIB_COMPARE_SWAP}) {
        const bool atomic =
            kind == OPAL_COMMON_ADAPTIB_FETCH_ADD || kind == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
        std::vector<std::byte> local(atomic ? 8 : kBytes);
        TestRequest wrong;
        start_wrong(kind, wrong, local);
        ASSERT_TRUE(world_->run({&wrong}));
        EXPECT_EQ(wrong.user.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
        EXPECT_EQ(refusals_reported(), 1u) << "the first is told";
        exchange(*world_, 100, 3);
        exchange(*world_, 100000, 3);
    }
    EXPECT_EQ(world_->core(0).protocol().one_sided().under_way(), 0u);
}

// The description is that of a neighbor window, or half of each: the target is asked.
TEST_P(Refused, ADescriptionOfAnotherWindowWillDo) {
    std::vector<std::uint64_t> memory(64, 5);
    const Window mine(*world_, 1, memory.data(), 256);
    const Window other(*world_, 1, memory.data() + 32, 256);
    opal_common_adaptib_remote_t torn = other.remote;
    torn.base = mine.remote.base;
    for (const auto& remote : {other.remote, torn}) {
        for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET,
                                OPAL_COMMON_ADAPTIB_FETCH_ADD, OPAL_COMMON_ADAPTIB_COMPARE_SWAP}) {
            std::uint64_t local = 7;
            auto what = operation(kind, &local, mine, 8, 8);
            what.remote = &remote;
            what.operand = 2;
            TestRequest request;
            ASSERT_TRUE(start(*world_, 0, 1, what, request).ok());
            ASSERT_TRUE(world_->run({&request}));
            EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        }
        exchange(*world_, 100, 3);
    }
    EXPECT_EQ(memory[1], 9u) << "a put of 7, and 2 added";
    EXPECT_EQ(memory[32 + 1], 5u) << "the neighbor's";
    EXPECT_EQ(refusals_reported(), 0u);
    EXPECT_EQ(world_->core(0).protocol().one_sided().under_way(), 0u);
}

TEST_P(Refused, WhatIsUnderWayBesideItArrives) {
    Random random(static_cast<std::uint64_t>(std::get<0>(GetParam())));
    for (int round = 0; round < 20; ++round) {
        std::vector<std::byte> memory(8 * kBytes);
        const Window window(*world_, 1, memory.data(), memory.size());
        std::deque<PatternMessage> messages;
        std::deque<std::vector<std::byte>> sent;
        std::vector<std::byte> wrong_data(1 + random.below(kBytes));
        TestRequest wrong;
        std::deque<TestRequest> puts;
        std::vector<TestRequest*> all{&wrong};
        const std::size_t when = random.below(8);
        for (std::size_t i = 0; i < 8; ++i) {
            if (i == when) {
                start_wrong(OPAL_COMMON_ADAPTIB_PUT, wrong, wrong_data);
            }
            const std::size_t bytes = 1 + random.below(kBytes);
            sent.push_back(pattern(bytes, i));
            ASSERT_TRUE(start(*world_, 0, 1,
                              operation(OPAL_COMMON_ADAPTIB_PUT, sent.back().data(), window,
                                        i * kBytes, bytes),
                              puts.emplace_back())
                            .ok());
            all.push_back(&puts.back());
            const std::size_t from = random.below(2);
            PatternMessage& message = messages.emplace_back(from, random.below(20000), i);
            ASSERT_TRUE(world_
                            ->receive(1 - from, static_cast<std::int32_t>(from), 3,
                                      contiguous(message.got), message.receive)
                            .ok());
            ASSERT_TRUE(
                world_->send(from, 1 - from, 3, contiguous(message.sent), message.send).ok());
            all.push_back(&message.send);
            all.push_back(&message.receive);
        }
        ASSERT_TRUE(world_->run(all));
        for (TestRequest* request : all) {
            EXPECT_EQ(request->user.status, request == &wrong ? OPAL_COMMON_ADAPTIB_BAD_PARAM
                                                              : OPAL_COMMON_ADAPTIB_SUCCESS);
        }
        for (const PatternMessage& message : messages) {
            ASSERT_EQ(message.got, message.sent);
        }
        for (std::size_t i = 0; i < sent.size(); ++i) {
            ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), &memory[i * kBytes]));
        }
        ASSERT_EQ(gone_, std::vector<std::byte>(kBytes)) << "memory that is no window was written";
    }
}

// An atomic that the target executes itself (target-assisted).
TEST(RefusedAtomic, OfATargetThatIsAskedEndsAloneToo) {
    Options options;
    char target[] = "target";
    options.parameters.atomics = target;
    Cores world(2, options);
    exchange(world, 100, 20);
    alignas(8) std::uint64_t word = 3;
    std::uint64_t old = 0;
    Window gone(world, 1, &word, sizeof word);
    auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old, gone, 0, sizeof word);
    add.operand = 1;
    gone.open.reset();
    TestRequest request;
    ASSERT_TRUE(start(world, 0, 1, add, request).ok());
    ASSERT_TRUE(world.run({&request}));
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(world.messages(0).size(), 1u);
    EXPECT_EQ(word, 3u);
    exchange(world, 100, 3);
}

} // namespace
} // namespace adaptib::test
