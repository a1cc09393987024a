// SPDX-License-Identifier: BSD-3-Clause
// Times of stripes that are known badly, since a waiting process polls now and then: a whole core
// over two rails whose completions come as late as the test says.
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class LateLooks : public testing::Test {
protected:
    // Time from one stripe to the next, by rail. A measured time counts if it is
    // known to an eighth.
    static constexpr Nanoseconds kStripe[] = {100us, 150us};
    static constexpr Nanoseconds kBetweenLooks = 30us;

    LateLooks() {
        plan_.lacks =
            static_cast<std::uint32_t>(Capability::whole_memory); // all transfers are requests
        Options options;
        options.parameters.shm_rails = 2;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return node == 1 ? fault::with_faults(std::move(fabric), plan_, clock, log_)
                             : std::move(fabric);
        };
        world_ = std::make_unique<Cores>(2, options);
        exchange(*world_, 100'000, 1);
    }
    // Node 1 asks for all messages at once and reads them: one stripe of each over each rail.
    void read(std::size_t messages, std::size_t bytes) {
        for (const std::uint32_t rail : {0u, 1u}) {
            for (std::size_t stripe = 1; stripe <= messages; ++stripe) {
                plan_.faults.push_back({.fault = fault::Fault::completion_delayed,
                                        .nth = stripe,
                                        .rail = rail,
                                        .delay = {.time = stripe * kStripe[rail]}});
            }
        }
        std::deque<PatternMessage> all;
        std::vector<TestRequest*> requests;
        for (std::size_t i = 0; i < messages; ++i) {
            PatternMessage& message = all.emplace_back(0, bytes, all.size());
            ASSERT_TRUE(world_->send(0, 1, 1, contiguous(message.sent), message.send).ok());
            ASSERT_TRUE(world_->receive(1, 0, 1, contiguous(message.got), message.receive).ok());
            requests.insert(requests.end(), {&message.send, &message.receive});
        }
        EXPECT_TRUE(world_->run([&] {
            world_->clock.advance(kBetweenLooks);
            return std::all_of(requests.begin(), requests.end(),
                               [](const TestRequest* request) { return request->done; });
        }));
    }
    const Scheduler& learnt() { return *world_->peer(1, 0)->lanes.scheduler; }

    fault::FaultPlan plan_;
    fault::FaultLog log_;
    std::unique_ptr<Cores> world_;
};

TEST_F(LateLooks, SayNothingOfOneTransfer) {
    const std::uint64_t before = learnt().lessons();
    for (int i = 0; i < 10; ++i) {
        read(1, 500'000);
    }
    EXPECT_EQ(learnt().lessons(), before);
}

// The times of a whole queue of stripes on both rails are known well.
TEST_F(LateLooks, DoOfAQueue) {
    const std::uint64_t before = learnt().lessons();
    read(8, 500'000);
    EXPECT_GT(learnt().lessons(), before + 4);
    EXPECT_NEAR(learnt().weight(Mix::reads, 0), 0.6, 0.05);
}

} // namespace
} // namespace adaptib::test
