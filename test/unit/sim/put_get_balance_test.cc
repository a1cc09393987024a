// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets to one peer at the same time (protocol/transfer_engine.cc): queued operations move
// every byte in the end, or end with an error, whatever happens to the connection meanwhile.
#include <cstring>
#include <deque>
#include <functional>
#include <span>

#include "memory/registration.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kOff[] = "off";
constexpr std::size_t kMost = 32; // operations at a time

// Two hosts, a network for each of their ports. Rank 0 puts into the first half of rank 1's memory,
// and gets from the second half, which nobody writes.
class MixedTraffic {
public:
    explicit MixedTraffic(std::uint32_t ports = 2, int interleave = 100,
                          const char* model = "infinihost-iii", bool fault_tolerance = true,
                          const std::function<void(RanksOptions&)>& change = {}) {
        RanksOptions options;
        options.world.machine = *machine(model);
        options.world.topology = crossbar(2, {.adapters = ports}, links_of(options.world.machine));
        std::string text;
        EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.parameters.interleave = interleave;
        options.parameters.apm = kOff;
        if (!fault_tolerance) {
            options.parameters.fault_tolerance = kOff;
        }
        if (change) {
            change(options);
        }
        ranks = make(std::move(options));
        Random random(7);
        for (std::byte& byte : target_) {
            byte = static_cast<std::byte>(random.next() >> 56);
        }
        EXPECT_TRUE(known_
                        .make(ranks->core(1).rails(), target_.data(), target_.size(),
                              kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic)
                        .ok());
        remote_.base = reinterpret_cast<std::uintptr_t>(target_.data());
        remote_.bytes = target_.size();
        remote_.access = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                         OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;
        remote_.key_count = known_.key_count();
        known_.copy_remote_keys(remote_.keys);
        EXPECT_TRUE(
            own_.make(ranks->core(0).rails(), local_.data(), local_.size(), kLocalWrite).ok());
        start(OPAL_COMMON_ADAPTIB_PUT, 8); // until the two are connected
        wait();
    }
    ~MixedTraffic() { end(); }
    void end() {
        known_.reset(); // before their rails
        own_.reset();
        ranks.reset();
    }

    void start(opal_common_adaptib_operation_t kind, std::size_t bytes) {
        Operation& operation = operations_.emplace_back();
        operation.kind = kind;
        std::uint64_t& at = kind == OPAL_COMMON_ADAPTIB_PUT ? put_at_ : get_at_;
        if (at + bytes > kHalf) {
            at = 0;
        }
        operation.offset = (kind == OPAL_COMMON_ADAPTIB_PUT ? 0 : kHalf) + at;
        at += (bytes + 7) / 8 * 8;
        operation.local = {local_.data() + operation.offset, bytes};
        if (kind == OPAL_COMMON_ADAPTIB_PUT) {
            Random random(bytes + operations_.size() + 1000 * ++puts_);
            for (std::byte& byte : operation.local) {
                byte = static_cast<std::byte>(random.next() >> 56);
            }
        }
        const opal_common_adaptib_one_sided_t what{kind,     operation.local.data(),
                                                   nullptr,  remote_.base + operation.offset,
                                                   &remote_, bytes,
                                                   1,        0};
        bool complete = false;
        ASSERT_TRUE(ranks->core(0)
                        .protocol()
                        .one_sided()
                        .start(*peer(), what, &own_, operation.request.user, complete)
                        .ok());
        operation.request.done = complete;
        ranks->wake(0);
    }
    void start_epoch(std::size_t bytes, bool puts_first = true) {
        for (std::size_t i = 0; i < kMost; ++i) {
            start((i < kMost / 2) == puts_first ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET,
                  bytes);
        }
    }
    bool over() const { return over(operations_.size()); }
    // True if the first `count` operations have ended.
    bool over(std::size_t count) const {
        return std::all_of(operations_.begin(),
                           operations_.begin() + static_cast<std::ptrdiff_t>(count),
                           [](const Operation& each) { return each.request.done; });
    }
    std::size_t started() const { return operations_.size(); }
    // Waits until all operations have ended, with success and every byte.
    void wait(Nanoseconds limit = 10s) {
        ASSERT_TRUE(ranks->run_until([this] { return over(); }, limit));
        EXPECT_EQ(outstanding(), 0u);
        for (const Operation& each : operations_) {
            EXPECT_EQ(each.request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            const bool moves =
                each.kind == OPAL_COMMON_ADAPTIB_PUT || each.kind == OPAL_COMMON_ADAPTIB_GET;
            EXPECT_TRUE(!moves || std::memcmp(each.local.data(), target_.data() + each.offset,
                                              each.local.size()) == 0)
                << each.kind << " of " << each.local.size();
        }
        operations_.clear();
        put_at_ = get_at_ = 0;
    }
    // Wants both directions at a time, which the core learns at the end of the puts.
    void learn() {
        start_epoch(kMiB);
        wait();
    }
    // Brings about a state in which some operations are queued and others in flight.
    void queue_some() {
        const std::uint64_t before = queued();
        start_epoch(kMiB);
        rest(*ranks, 1ms);
        ASSERT_GT(queued(), before);
        ASSERT_FALSE(over());
    }

    Peer* peer() { return ranks->peer(0, 1); }
    FlushEpochs& epochs() { return ranks->core(0).protocol().one_sided().flush_epochs(); }
    std::size_t outstanding() { return ranks->core(0).protocol().one_sided().under_way(); }
    std::uint64_t queued() { return ranks->counters(0).transfers_queued; }
    std::size_t failed() const {
        return static_cast<std::size_t>(
            std::count_if(operations_.begin(), operations_.end(), [](const Operation& each) {
                return each.request.user.status != OPAL_COMMON_ADAPTIB_SUCCESS;
            }));
    }
    void set_port(std::size_t rank, std::size_t port, bool up) {
        ranks->world().set_port(ranks->world().topology().hosts[rank].ports[port], up);
    }
    void forget_operations() { operations_.clear(); }

    std::unique_ptr<Ranks> ranks;

private:
    static constexpr std::size_t kHalf = 20 * kMiB;
    struct Operation {
        opal_common_adaptib_operation_t kind{};
        std::uint64_t offset = 0;
        std::span<std::byte> local;
        test::TestRequest request;
    };

    std::vector<std::byte> target_ = std::vector<std::byte>(2 * kHalf);
    std::vector<std::byte> local_ = std::vector<std::byte>(2 * kHalf); // at the target's offsets
    Registration known_;
    Registration own_;
    opal_common_adaptib_remote_t remote_{};
    std::deque<Operation> operations_;
    std::uint64_t put_at_ = 0;
    std::uint64_t get_at_ = 0;
    std::uint64_t puts_ = 0;
};

TEST(PutGetBalance, NothingIsQueuedBeforeBothDirectionsAreWanted) {
    MixedTraffic traffic;
    for (int i = 0; i < 40; ++i) {
        traffic.start(OPAL_COMMON_ADAPTIB_PUT, 400'000);
    }
    traffic.wait();
    for (int i = 0; i < 40; ++i) {
        traffic.start(OPAL_COMMON_ADAPTIB_GET, 400'000);
    }
    traffic.wait();
    EXPECT_EQ(traffic.queued(), 0u);
    traffic.learn();
    EXPECT_GT(traffic.queued(), 0u) << "gets behind puts";
    nothing_bad(*traffic.ranks);
}

TEST(PutGetBalance, ZeroQueuesNothing) {
    MixedTraffic traffic(2, 0);
    traffic.learn();
    traffic.start_epoch(kMiB);
    traffic.wait();
    EXPECT_EQ(traffic.queued(), 0u);
}

// Time of the third epoch: without interleaving one direction follows the other. Over two rails of
// connect-ib it would be 0.61 of that if reads got more turns than writes.
TEST(PutGetBalance, BothDirectionsAreBusyAtATime) {
    for (const auto& [model, puts_first] :
         {std::pair{"infinihost-iii", true}, std::pair{"infinihost-iii", false},
          std::pair{"connect-ib", true}}) {
        std::array<Nanoseconds, 2> took{};
        for (const int interleave : {0, 100}) {
            MixedTraffic traffic(2, interleave, model);
            traffic.learn();
            traffic.learn();
            const Nanoseconds began = traffic.ranks->now(0);
            traffic.start_epoch(kMiB, puts_first);
            traffic.wait();
            took[interleave > 0] = traffic.ranks->now(0) - began;
        }
        EXPECT_LT(took[1] * 100, took[0] * 60) << model << puts_first;
    }
}

// A flush asks for outstanding operations, and queued ones are outstanding.
TEST(PutGetBalance, WhatIsQueuedIsOutstanding) {
    MixedTraffic traffic;
    traffic.learn();
    const std::uint64_t before = traffic.queued();
    traffic.start_epoch(kMiB);
    EXPECT_GT(traffic.queued(), before);
    EXPECT_EQ(traffic.outstanding(), kMost);
    EXPECT_EQ(traffic.peer()->transfers.one_sided, kMost);
    traffic.wait();
    EXPECT_EQ(traffic.peer()->transfers.one_sided, 0u);
}

// Another caller goes on with gets, so that some are always in flight.
TEST(PutGetBalance, AFlushWaitsForWhatIsQueuedAndNoMore) {
    MixedTraffic traffic;
    traffic.learn();
    traffic.queue_some();
    const std::uint64_t mark = traffic.epochs().mark();
    while (!traffic.epochs().passed(mark)) {
        ASSERT_LT(traffic.started(), 20 * kMost);
        traffic.start(OPAL_COMMON_ADAPTIB_GET, 100'000);
        const std::size_t some = traffic.outstanding();
        ASSERT_TRUE(traffic.ranks->run_until([&] { return traffic.outstanding() < some; }, 1s));
    }
    EXPECT_TRUE(traffic.over(kMost));
    EXPECT_FALSE(traffic.over());
    EXPECT_GT(traffic.started(), kMost);
    traffic.wait();
}

TEST(PutGetBalance, AtomicsAreNotQueued) {
    MixedTraffic traffic;
    traffic.learn();
    traffic.start_epoch(kMiB);
    const std::uint64_t before = traffic.queued();
    traffic.start(OPAL_COMMON_ADAPTIB_FETCH_ADD, 8);
    EXPECT_EQ(traffic.queued(), before);
    traffic.wait();
}

// Puts alone are not queued forever afterwards.
TEST(PutGetBalance, IsForgotten) {
    MixedTraffic traffic;
    traffic.learn();
    std::uint64_t before = 0;
    for (int epoch = 0; epoch < 12; ++epoch) {
        before = traffic.queued();
        for (std::size_t i = 0; i < 16; ++i) {
            traffic.start(OPAL_COMMON_ADAPTIB_PUT, kMiB);
        }
        traffic.wait();
        EXPECT_EQ(traffic.queued() > before, epoch < 8) << epoch;
    }
    EXPECT_EQ(traffic.peer()->transfers.put_get_balance, nullptr);
    traffic.learn();
    EXPECT_GT(traffic.queued(), before) << "and learnt again";
}

// Any sizes in any order, windows that hold little, one to three rails, adapters that
// read few at a time.
TEST(PutGetBalance, AnyMixtureMovesEveryByte) {
    std::uint64_t queued = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        Random random(seed);
        const char* const models[] = {"infinihost", "infinihost-iii", "connect-ib"};
        constexpr int windows[] = {1, 10, 100};
        MixedTraffic traffic(static_cast<std::uint32_t>(1 + random.below(3)),
                             windows[random.below(3)], models[random.below(3)]);
        for (int epoch = 0; epoch < 4; ++epoch) {
            const std::uint64_t all = 1 + random.below(40);
            std::size_t put = 0;
            std::size_t got = 0;
            for (std::uint64_t i = 0; i < all; ++i) {
                const std::size_t bytes = 1 + random.below(random.below(3) == 0 ? kMiB : 20'000);
                const bool puts = random.below(8) < (i / 5 % 2 == 0 ? 7u : 1u);
                (puts ? put : got) += bytes + 8;
                if (std::max(put, got) > 19 * kMiB) {
                    break; // overlapping operations have no defined result
                }
                traffic.start(puts ? OPAL_COMMON_ADAPTIB_PUT : OPAL_COMMON_ADAPTIB_GET, bytes);
                if (random.below(6) == 0) {
                    rest(*traffic.ranks, Nanoseconds(random.below(100'000)));
                }
            }
            traffic.wait();
        }
        queued += traffic.queued();
        nothing_bad(*traffic.ranks);
    }
    EXPECT_GT(queued, 1000u);
}

// A port fails at any time of an epoch of which a part is queued, and comes back.
TEST(PutGetBalance, APortFailsWhileSomeAreQueued) {
    for (Nanoseconds at{0}; at < 5ms; at += 700us + 1ns) {
        for (const std::size_t rank : {0, 1}) {
            MixedTraffic traffic;
            traffic.learn();
            traffic.start_epoch(kMiB, at.count() % 2 == 0);
            rest(*traffic.ranks, at);
            traffic.set_port(rank, 1, false);
            rest(*traffic.ranks, 3ms);
            traffic.set_port(rank, 1, true);
            traffic.wait(100s);
            traffic.learn();
        }
    }
}

// All ports fail, and come back.
TEST(PutGetBalance, WithoutAPathWhatIsQueuedWaits) {
    for (Nanoseconds at = 1ms; at < 4ms; at += 1ms) {
        MixedTraffic traffic;
        traffic.learn();
        traffic.start_epoch(kMiB);
        rest(*traffic.ranks, at);
        for (const std::size_t port : {0, 1}) {
            traffic.set_port(1, port, false);
        }
        rest(*traffic.ranks, 50ms);
        EXPECT_FALSE(traffic.over());
        for (const std::size_t port : {0, 1}) {
            traffic.set_port(1, port, true);
        }
        traffic.wait(100s);
    }
}

// All operations end, the queued ones with an error.
TEST(PutGetBalance, ThePeerDiesWhileSomeAreQueued) {
    for (const bool fault_tolerance : {false, true}) {
        MixedTraffic traffic(2, 100, "infinihost-iii", fault_tolerance);
        traffic.learn();
        traffic.queue_some();
        traffic.ranks->kill(1);
        ASSERT_TRUE(traffic.ranks->run_until([&] { return traffic.over(); }, 1000s))
            << fault_tolerance;
        EXPECT_GT(traffic.failed(), kMost / 2);
        EXPECT_EQ(traffic.outstanding(), 0u);
        EXPECT_EQ(traffic.peer()->transfers.users, 0u);
        traffic.forget_operations();
    }
}

// The process ends: its operations are not touched any more.
TEST(PutGetBalance, TheProcessEndsWhileSomeAreQueued) {
    MixedTraffic traffic;
    traffic.learn();
    traffic.queue_some();
    traffic.end();
}

// Data from rank 1 is slow over one rail, data to it over the other.
TEST(Directions, AreLearntApart) {
    Ranks* polling = nullptr; // a waiting rank polls all the time, so that times are known well
    MixedTraffic traffic(2, 100, "connect-ib", true, [&polling](RanksOptions& options) {
        Topology& topology = options.world.topology;
        const auto& ports = topology.hosts[1].ports;
        Link& out = topology.links[topology.ports[ports[0]].link];
        Link& in = topology.links[topology.links[topology.ports[ports[1]].link].reverse];
        for (Link& link : topology.links) {
            link.rate.value /= 2; // slower than the adapters themselves
        }
        out.rate.value /= 4;
        in.rate.value /= 4;
        options.program = [&polling](std::size_t rank) {
            if (polling != nullptr) {
                polling->wake(rank, polling->now(rank) + 1us);
            }
        };
    });
    polling = traffic.ranks.get();
    for (int i = 0; i < 30; ++i) {
        traffic.start(OPAL_COMMON_ADAPTIB_PUT, kMiB);
        traffic.wait();
        traffic.start(OPAL_COMMON_ADAPTIB_GET, kMiB);
        traffic.wait();
    }
    const Scheduler& scheduler = *traffic.peer()->lanes.scheduler;
    const std::uint32_t first = traffic.peer()->lanes.subchannels[0].remote_rail == 0 ? 0 : 1;
    EXPECT_NEAR(scheduler.weight(Mix::reads, first), 0.2, 0.01);
    EXPECT_NEAR(scheduler.weight(Mix::writes, first), 0.8, 0.01);
    const std::string report = traffic.ranks->core(0).report();
    EXPECT_NE(report.find(" of reads, 0."), std::string::npos) << report;
    EXPECT_EQ(traffic.ranks->core(1).report().find("weight"), std::string::npos);
}

} // namespace
} // namespace adaptib::sim
