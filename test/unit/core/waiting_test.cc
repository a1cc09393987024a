// SPDX-License-Identifier: BSD-3-Clause
// Many one-sided operations and messages of one epoch, more than queues take: the cost of each does
// not depend on how many wait, one rail does not hold up another, and all of them end once,
// whatever happens meanwhile.
//
// The tests count offers that a queue pair refused (the fault injector's log), the times that a
// transfer had to wait (transfer_stalls), and calls of a packer.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "cores.h"
#include "simulator/faults/fault.h"
#include "window.h"

namespace adaptib::test {
namespace {

using fault::Fault;

constexpr Nanoseconds kLong{1'000'000'000};

// Node 0 puts into, and gets from, memory of the other nodes, which is one pattern; each operation
// has bytes of its own.
class Epoch {
public:
    explicit Epoch(int rails, std::size_t nodes = 2, const char* policy = "round_robin") {
        Options options;
        options.parameters.shm_rails = rails;
        options.parameters.connect_threshold = 0;
        options.parameters.striping_policy = const_cast<char*>("none");
        options.parameters.multiplexing_policy = const_cast<char*>(policy);
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return node == 0 ? fault::with_faults(std::move(fabric), plan_, clock, log_)
                             : std::move(fabric);
        };
        world = std::make_unique<Cores>(nodes, options);
        memory_.resize(nodes);
        for (std::size_t to = 1; to < nodes; ++to) {
            memory_[to] = pattern(kMemory, to);
            windows_.push_back(
                std::make_unique<Window>(*world, to, memory_[to].data(), memory_[to].size()));
        }
    }
    ~Epoch() {
        windows_.clear();
        world.reset(); // before the buffers that it may still write to
    }

    void start(std::size_t to, opal_common_adaptib_operation_t kind, std::size_t bytes) {
        prepare(to, kind, bytes);
        launch(operations_.back());
    }
    void prepare(std::size_t to, opal_common_adaptib_operation_t kind, std::size_t bytes) {
        Operation& operation = operations_.emplace_back();
        operation.to = to;
        operation.kind = kind;
        operation.offset = used_;
        used_ = used_ + 2 * bytes > kMemory ? 0 : used_ + bytes;
        const std::byte* const there = memory_[to].data() + operation.offset;
        operation.local.assign(there, there + bytes); // puts change nothing: any order is right
        if (kind == OPAL_COMMON_ADAPTIB_GET) {
            std::fill(operation.local.begin(), operation.local.end(), std::byte{0});
        }
    }
    // Launches prepared operations from the `first` on, until the core takes no more. Returns the
    // number of the next one.
    std::size_t launch_some(std::size_t first) {
        while (first < operations_.size() && try_launch(operations_[first]).ok()) {
            ++first;
        }
        return first;
    }
    void launch_all(std::size_t first) {
        for (; first < operations_.size(); ++first) {
            launch(operations_[first]);
        }
    }
    void connect(std::size_t to) {
        start(to, OPAL_COMMON_ADAPTIB_PUT, 8);
        ASSERT_TRUE(end());
        operations_.clear();
    }
    // Lets the rail refuse everything from now on.
    void block(std::uint32_t rail) {
        plan_.faults.push_back({.fault = Fault::send_refused,
                                .rate = 1,
                                .from = world->clock.now(),
                                .until = world->clock.now() + kLong,
                                .rail = rail});
    }
    void unblock() { world->clock.advance(2 * kLong); }
    std::size_t refusals() const { return log_.count(Fault::send_refused); }
    void pass(int times) {
        for (int i = 0; i < times; ++i) {
            world->progress();
        }
    }
    bool end() {
        return world->run([this] { return done() == operations_.size(); });
    }
    std::size_t done() const {
        return static_cast<std::size_t>(
            std::count_if(operations_.begin(), operations_.end(),
                          [](const Operation& each) { return each.request.done; }));
    }
    std::size_t done(std::size_t to) const {
        return static_cast<std::size_t>(
            std::count_if(operations_.begin(), operations_.end(), [to](const Operation& each) {
                return each.request.done && each.to == to;
            }));
    }
    std::size_t succeeded() const {
        return static_cast<std::size_t>(
            std::count_if(operations_.begin(), operations_.end(), [](const Operation& each) {
                return each.request.done && !each.refused &&
                       each.request.user.status == OPAL_COMMON_ADAPTIB_SUCCESS;
            }));
    }
    // True if the finished operations are the first ones.
    bool in_order() const {
        bool before = true;
        for (const Operation& each : operations_) {
            if (each.request.done && !before) {
                return false;
            }
            before = each.request.done;
        }
        return true;
    }
    void expect_all_moved() {
        EXPECT_EQ(succeeded(), operations_.size());
        for (const Operation& each : operations_) {
            const std::byte* const there = memory_[each.to].data() + each.offset;
            ASSERT_TRUE(std::equal(each.local.begin(), each.local.end(), there));
        }
        for (std::size_t to = 1; to < memory_.size(); ++to) {
            EXPECT_EQ(memory_[to], pattern(kMemory, to));
        }
        expect_nothing_left();
    }
    void expect_nothing_left() {
        EXPECT_EQ(done(), operations_.size());
        EXPECT_EQ(world->core(0).protocol().one_sided().under_way(), 0u);
        EXPECT_FALSE(world->core(0).protocol().has_work());
        for (std::size_t to = 1; to < memory_.size(); ++to) {
            EXPECT_EQ(peer(to)->transfers.users, 0u);
            EXPECT_EQ(peer(to)->transfers.stripes, 0u);
            EXPECT_TRUE(peer(to)->transfers.posted.empty());
        }
    }
    Peer* peer(std::size_t to) { return world->peer(0, to); }
    std::uint64_t stalls() { return world->counters(0).transfer_stalls; }
    std::size_t started() const { return operations_.size(); }

    std::unique_ptr<Cores> world;

private:
    static constexpr std::size_t kMemory = 1 << 16;
    struct Operation {
        std::size_t to = 0;
        opal_common_adaptib_operation_t kind = OPAL_COMMON_ADAPTIB_PUT;
        bool refused = false;
        std::size_t offset = 0;
        std::vector<std::byte> local;
        TestRequest request;
    };

    Status try_launch(Operation& operation) {
        const auto what =
            test::operation(operation.kind, operation.local.data(), *windows_[operation.to - 1],
                            operation.offset, operation.local.size());
        return test::start(*world, 0, operation.to, what, operation.request);
    }
    // Tries again while there are too many under way, as a user does.
    void launch(Operation& operation) {
        Status status = try_launch(operation);
        while (status.reason() == Reason::no_memory) {
            pass(1);
            status = try_launch(operation);
        }
        if (!status.ok()) {
            operation.refused = operation.request.done = true;
        }
    }

    fault::FaultPlan plan_;
    fault::FaultLog log_;
    std::vector<std::vector<std::byte>> memory_; // of each node
    std::vector<std::unique_ptr<Window>> windows_;
    std::deque<Operation> operations_;
    std::size_t used_ = 0;
};

// -------------------------------------------------------------------------------------------------
// Cost of waiting

class Waiting : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rails, Waiting, testing::Values(1, 2, 4));

// While no rail takes anything, a pass tries each rail once.
TEST_P(Waiting, APassOffersOneTransferPerRail) {
    constexpr int kPasses = 100;
    for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET}) {
        for (const std::size_t bytes : {std::size_t{4}, std::size_t{100}}) {
            for (const std::size_t count : {std::size_t{200}, std::size_t{2000}}) {
                Epoch epoch(GetParam());
                ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
                epoch.block(fault::kAnyRail);
                for (std::size_t i = 0; i < count; ++i) {
                    epoch.start(1, kind, bytes);
                }
                const auto rails = static_cast<std::size_t>(GetParam());
                EXPECT_LE(epoch.refusals(), rails) << "of transfers that were just started";
                epoch.pass(kPasses);
                EXPECT_GT(epoch.refusals(), 10u);
                EXPECT_LE(epoch.refusals(), rails * (kPasses + 1) + 20) << "with datagrams";
                EXPECT_EQ(epoch.done(), 0u);
                epoch.unblock();
                ASSERT_TRUE(epoch.end());
                epoch.expect_all_moved();
            }
        }
    }
}

// Full queues take one request when another one is done.
TEST_P(Waiting, EachTransferWaitsAFewTimesHoweverManyThereAre) {
    for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET}) {
        for (const std::size_t bytes : {std::size_t{4}, std::size_t{100}}) {
            for (const std::size_t count : {std::size_t{3000}, std::size_t{30000}}) {
                Epoch epoch(GetParam());
                ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
                const std::uint64_t before = epoch.stalls();
                for (std::size_t i = 0; i < count; ++i) {
                    epoch.start(1, kind, bytes);
                }
                EXPECT_LE(epoch.stalls() - before, count);
                ASSERT_TRUE(epoch.end());
                EXPECT_GT(epoch.stalls() - before, count / 4);
                EXPECT_LE(epoch.stalls() - before, 3 * count);
                epoch.expect_all_moved();
            }
        }
    }
}

TEST_P(Waiting, PutsAndGetsInTurnsAreNotPassedAround) {
    for (const std::size_t count : {std::size_t{2000}, std::size_t{20000}}) {
        Epoch epoch(GetParam());
        ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
        const std::uint64_t before = epoch.stalls();
        for (std::size_t i = 0; i < count; ++i) {
            epoch.start(1, i / 500 % 2 == 0 ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET,
                        3000);
        }
        ASSERT_TRUE(epoch.end());
        EXPECT_LE(epoch.stalls() - before, 4 * count);
        epoch.expect_all_moved();
    }
}

// All operations start before the peer is connected.
TEST_P(Waiting, ForAConnection) {
    for (const std::size_t count : {std::size_t{1000}, std::size_t{10000}}) {
        Epoch epoch(GetParam());
        for (std::size_t i = 0; i < count; ++i) {
            epoch.start(1, OPAL_COMMON_ADAPTIB_PUT, 64);
        }
        ASSERT_TRUE(epoch.end());
        EXPECT_LE(epoch.stalls(), 3 * count);
        epoch.expect_all_moved();
    }
}

std::size_t heap_in_use() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// However many there are, operations take a bounded amount of memory.
TEST_P(Waiting, TakesBoundedMemory) {
    constexpr std::size_t kCount = 40000;
    constexpr std::size_t kMost = OneSidedOperations::kMostUnderWay * 600;
    Epoch epoch(GetParam());
    ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
    for (std::size_t i = 0; i < kCount; ++i) {
        epoch.prepare(1, i % 2 == 0 ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET, 4);
    }
    epoch.block(0);
    const std::size_t before = heap_in_use();
    const std::size_t launched = epoch.launch_some(0);
    EXPECT_GE(launched, OneSidedOperations::kMostUnderWay);
    EXPECT_LE(heap_in_use(), before + kMost);
    epoch.pass(200);
    EXPECT_LE(heap_in_use(), before + kMost);
    epoch.unblock();
    epoch.launch_all(launched);
    ASSERT_TRUE(epoch.end());
    EXPECT_LE(heap_in_use(), before + kMost);
    epoch.expect_all_moved();
}

// A core that ends while operations wait has none of their memory in use any more.
TEST_P(Waiting, EndsWithTheCore) {
    Epoch epoch(GetParam());
    ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
    for (std::size_t i = 0; i < 3000; ++i) {
        epoch.start(1, OPAL_COMMON_ADAPTIB_PUT, i % 3 == 0 ? 30000 : 100);
    }
    epoch.pass(1);
    EXPECT_LT(epoch.done(), epoch.started());
    epoch.world->end(0);
}

// -------------------------------------------------------------------------------------------------
// Order of waiting

TEST(WaitingOrder, OverOneRailIsThatOfTheStarts) {
    Epoch epoch(1);
    ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
    for (std::size_t i = 0; i < 3000; ++i) {
        epoch.start(1, OPAL_COMMON_ADAPTIB_PUT, 8);
        if (i % 100 == 0) {
            epoch.pass(1);
            ASSERT_TRUE(epoch.in_order());
        }
    }
    while (epoch.done() < epoch.started()) {
        epoch.pass(1);
        ASSERT_TRUE(epoch.in_order());
    }
}

TEST(BlockedRail, DoesNotHoldUpTheOther) {
    for (const std::uint32_t rail : {0u, 1u}) {
        Epoch epoch(2);
        ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
        epoch.block(rail);
        const auto start_some = [&epoch] {
            for (std::size_t i = 0; i < 1000; ++i) {
                epoch.start(1, i % 3 == 0 ? OPAL_COMMON_ADAPTIB_GET : OPAL_COMMON_ADAPTIB_PUT, 100);
            }
        };
        start_some();
        epoch.pass(100);
        EXPECT_EQ(epoch.done(), 500u) << "in turns";
        start_some(); // while 500 wait for the blocked rail
        epoch.pass(100);
        EXPECT_EQ(epoch.done(), 1000u);
        epoch.unblock();
        ASSERT_TRUE(epoch.end());
        epoch.expect_all_moved();
    }
}

// All peers' stripes are as many as their completion queue takes: then one peer's do not all come
// before another's.
TEST(BoundOfAll, IsSharedByPeers) {
    constexpr std::size_t kEach = 8000;
    constexpr std::size_t kPeers = 2;
    Epoch epoch(4, 1 + kPeers);
    for (std::size_t to = 1; to <= kPeers; ++to) {
        ASSERT_NO_FATAL_FAILURE(epoch.connect(to));
    }
    for (std::size_t to = 1; to <= kPeers; ++to) {
        for (std::size_t i = 0; i < kEach; ++i) {
            epoch.start(to, OPAL_COMMON_ADAPTIB_PUT, 100);
        }
    }
    while (epoch.done(1) < kEach / 2) {
        epoch.pass(1);
    }
    for (std::size_t to = 2; to <= kPeers; ++to) {
        EXPECT_GT(epoch.done(to), kEach / 5) << to;
        EXPECT_LT(epoch.done(to), kEach) << to;
    }
    ASSERT_TRUE(epoch.end());
    epoch.expect_all_moved();
}

// -------------------------------------------------------------------------------------------------
// Events while operations wait

void kill_queue_pair(Peer& peer, std::size_t which) {
    Subchannel& subchannel = peer.lanes.subchannels[which % peer.lanes.subchannels.size()];
    if (subchannel.qp != nullptr) {
        QpAttributes attributes;
        attributes.state = QpState::error;
        ASSERT_TRUE(subchannel.qp->modify(attributes, kQpState).ok());
    }
}

TEST_P(Waiting, SurvivesRepairs) {
    for (const int passes : {0, 1, 3, 10}) {
        Epoch epoch(GetParam());
        ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
        if (!epoch.peer(1)->session.repairable) {
            GTEST_SKIP() << "with one rail nothing is repaired";
        }
        for (std::size_t round = 0; round < 4; ++round) {
            for (std::size_t i = 0; i < 1500; ++i) {
                epoch.start(1, i % 2 == 0 ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET,
                            i % 5 == 0 ? 8 : 200);
            }
            epoch.pass(passes);
            ASSERT_NO_FATAL_FAILURE(kill_queue_pair(*epoch.peer(1), round));
        }
        for (int i = 0; i < 200000 && epoch.done() < epoch.started(); ++i) {
            epoch.pass(1);
            epoch.world->clock.advance(Nanoseconds{10'000});
        }
        EXPECT_GT(epoch.world->counters(0).repairs, 0u);
        epoch.expect_all_moved();
    }
}

TEST_P(Waiting, EndsOnceWhenThePeerDies) {
    for (const int passes : {0, 1, 5}) {
        Epoch epoch(GetParam());
        ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
        epoch.block(0);
        for (std::size_t i = 0; i < 3000; ++i) {
            epoch.start(1, i % 2 == 0 ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET, 100);
        }
        epoch.pass(passes);
        epoch.world->core(0).lost().lose(*epoch.peer(1), "a test says so");
        for (std::size_t i = 0; i < 10; ++i) {
            epoch.start(1, OPAL_COMMON_ADAPTIB_PUT, 100);
        }
        for (int i = 0; i < 1000 && epoch.done() < epoch.started(); ++i) {
            epoch.world->progress(0);
        }
        EXPECT_LT(epoch.succeeded(), epoch.started());
        epoch.expect_nothing_left();
    }
}

// One peer's operations are not touched for another peer's sake, and live on.
TEST_P(Waiting, OfOnePeerDoesNotEndWithAnother) {
    Epoch epoch(GetParam(), 3);
    ASSERT_NO_FATAL_FAILURE(epoch.connect(1));
    ASSERT_NO_FATAL_FAILURE(epoch.connect(2));
    for (std::size_t i = 0; i < 6000; ++i) {
        epoch.start(1 + i % 2, OPAL_COMMON_ADAPTIB_PUT, 100);
    }
    epoch.pass(1);
    epoch.world->core(0).lost().lose(*epoch.peer(1), "a test says so");
    for (int i = 0; i < 1000 && epoch.done() < epoch.started(); ++i) {
        epoch.pass(1);
    }
    EXPECT_GE(epoch.succeeded(), 3000u);
    EXPECT_LT(epoch.succeeded(), 6000u);
    epoch.expect_nothing_left();
}

// -------------------------------------------------------------------------------------------------
// Messages

// Data that counts how often it was packed.
struct Counted {
    std::vector<std::byte> bytes;
    std::size_t calls = 0;

    Data data() { return {nullptr, bytes.size(), &Counted::pack, nullptr, this}; }
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length) {
        auto& self = *static_cast<Counted*>(context);
        ++self.calls;
        *length = std::min(*length, self.bytes.size() - offset);
        std::copy_n(self.bytes.begin() + static_cast<std::ptrdiff_t>(offset), *length,
                    static_cast<std::byte*>(to));
        return 0;
    }
};

// Active messages that the ring takes whole, others that go in parts, and sends.
TEST(WaitingMessages, ArePackedWhenThereIsRoom) {
    for (const bool active : {true, false}) {
        for (const std::size_t bytes : {std::size_t{100}, std::size_t{40000}}) {
            for (const std::size_t count : {std::size_t{100}, std::size_t{1000}}) {
                if (!active && bytes > 1000) {
                    continue; // announced
                }
                Options options;
                options.parameters.connect_threshold = 0;
                options.parameters.ring_bytes = 65536;
                Cores world(2, options);
                exchange(world, 100, 20);
                std::size_t heard = 0;
                world.core(1).protocol().active().listen(
                    [](void* context, Peer&, std::uint8_t, const std::byte*, Bytes) {
                        ++*static_cast<std::size_t*>(context);
                    },
                    &heard);
                Counted data{pattern(bytes, 1)};
                std::vector<TestRequest> requests(count);
                for (TestRequest& each : requests) {
                    bool complete = false;
                    if (active) {
                        ASSERT_TRUE(
                            world.core(0)
                                .protocol()
                                .active()
                                .send(*world.peer(0, 1), 5, data.data(), each.user, complete)
                                .ok());
                        each.done = complete;
                    } else {
                        ASSERT_TRUE(world.send(0, 1, 1, data.data(), each).ok());
                    }
                }
                for (int pass = 0; pass < 100; ++pass) {
                    world.progress(0); // nobody makes room
                }
                EXPECT_LE(data.calls, count + 1);
                const std::size_t before = data.calls;
                for (int pass = 0; pass < 100; ++pass) {
                    world.progress(0);
                }
                EXPECT_EQ(data.calls, before);
                ASSERT_TRUE(world.run([&] { return requests.back().done; }));
                EXPECT_LE(data.calls, 4 * count);
                if (active) {
                    ASSERT_TRUE(world.run([&] { return heard == count; }));
                }
            }
        }
    }
}

} // namespace
} // namespace adaptib::test
