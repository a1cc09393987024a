// SPDX-License-Identifier: BSD-3-Clause
// Atomics over a simulated network whose ports fail and come back. Those that the target executes
// (target-assisted) are executed exactly once, and all succeed; those of adapters at most once, and
// some end with an error.
#include <algorithm>
#include <deque>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRanks = 4;
constexpr std::uint32_t kPorts = 2;

RanksOptions networks(std::uint64_t seed, const char* atomics, const HostModel& rails) {
    RanksOptions options;
    options.ranks = kRanks;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.machine.offers.reliable_ud = false;
    options.world.datagram_loss = seed % 2 == 0 ? 0 : 0.05;
    options.world.topology = crossbar(kRanks, rails, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.atomics = const_cast<char*>(atomics);
    options.parameters.connect_threshold = static_cast<int>(seed % 3);
    options.parameters.apm = const_cast<char*>("off");
    options.parameters.partition_timeout = 20;
    return options;
}

RanksOptions tolerant(RanksOptions options, const char* tolerance) {
    options.parameters.fault_tolerance = const_cast<char*>(tolerance);
    return options;
}

// A counter on each rank, and additions to the counters.
class Counting {
public:
    Counting(std::uint64_t seed, const char* atomics, const HostModel& rails = {.ports = kPorts},
             const char* tolerance = "on")
        : random(seed), ranks(make(tolerant(networks(seed, atomics, rails), tolerance))),
          words_(kRanks), windows_(kRanks), remotes_(kRanks) {
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            Protocol& protocol = ranks->core(rank).protocol();
            EXPECT_TRUE(protocol.memory()
                            .open_window(windows_[rank], &words_[rank], sizeof(std::uint64_t),
                                         kLocalWrite | kRemoteAtomic)
                            .ok());
            opal_common_adaptib_remote_t& remote = remotes_[rank];
            remote.base = reinterpret_cast<std::uintptr_t>(&words_[rank]);
            remote.bytes = sizeof(std::uint64_t);
            remote.access =
                protocol.one_sided().advertised_access(OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC);
            remote.key_count = windows_[rank].memory().key_count();
            windows_[rank].memory().copy_remote_keys(remote.keys);
        }
    }

    bool emulated(std::size_t rank) const {
        return (remotes_[rank].access & OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED) != 0;
    }
    void add(std::size_t from, std::size_t to) {
        Addition& addition = additions_.emplace_back();
        addition.target = to;
        const opal_common_adaptib_one_sided_t what{OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                                   &addition.old,
                                                   nullptr,
                                                   remotes_[to].base,
                                                   &remotes_[to],
                                                   sizeof(std::uint64_t),
                                                   1,
                                                   0};
        bool complete = false;
        const Status status = ranks->core(from).protocol().one_sided().start(
            *ranks->peer(from, to), what, nullptr, addition.request.user, complete);
        if (!status.ok()) { // the peer was given up
            addition.request.user.status = OPAL_COMMON_ADAPTIB_UNREACHABLE;
        }
        addition.request.done = addition.request.done || complete || !status.ok();
        ranks->wake(from);
    }
    bool done() const {
        return std::all_of(additions_.begin(), additions_.end(),
                           [](const Addition& each) { return each.request.done; });
    }
    void set_port(std::size_t rank, std::size_t port, bool up) {
        ranks->world().set_port(ranks->world().topology().hosts[rank].ports[port], up);
    }
    // Adds from and to all ranks while ports fail and come back; in the end all ports are up.
    void run() {
        for (int round = 0; round < 60; ++round) {
            for (std::uint64_t count = random.below(40); count > 0; --count) {
                const std::size_t from = random.below(kRanks);
                add(from, (from + 1 + random.below(kRanks - 1)) % kRanks);
            }
            set_port(random.below(kRanks), random.below(kPorts), random.below(2) == 0);
            rest(*ranks, Nanoseconds{static_cast<std::int64_t>(random.below(300'000))});
        }
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            for (std::size_t port = 0; port < kPorts; ++port) {
                set_port(rank, port, true);
            }
        }
        EXPECT_TRUE(ranks->run_until([&] { return done(); }, 60s));
    }
    // Returns how many additions ended with an error. Checks that each success got a value of its
    // own, and that no addition was counted twice.
    std::size_t failed() const {
        std::size_t all_failed = 0;
        for (std::size_t to = 0; to < kRanks; ++to) {
            std::vector<std::uint64_t> seen;
            std::size_t failed = 0;
            for (const Addition& each : additions_) {
                if (each.target == to) {
                    const bool well = each.request.user.status == OPAL_COMMON_ADAPTIB_SUCCESS;
                    failed += well ? 0 : 1;
                    if (well) {
                        seen.push_back(each.old);
                    }
                }
            }
            std::sort(seen.begin(), seen.end());
            EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
            EXPECT_GE(words_[to], seen.size());
            EXPECT_LE(words_[to], seen.size() + failed);
            all_failed += failed;
        }
        return all_failed;
    }
    std::uint64_t repairs() {
        std::uint64_t all = 0;
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            all += ranks->counters(rank).repairs;
        }
        return all;
    }
    std::uint64_t word(std::size_t rank) const { return words_[rank]; }
    opal_common_adaptib_remote_t& remote(std::size_t rank) { return remotes_[rank]; }
    void close_window(std::size_t rank) { windows_[rank].reset(); }
    int last_status() const { return additions_.back().request.user.status; }

    Random random;
    std::unique_ptr<Ranks> ranks;

private:
    struct Addition {
        test::TestRequest request;
        std::uint64_t old = 0;
        std::size_t target = 0;
    };
    std::vector<std::uint64_t> words_;
    std::vector<OpenWindow> windows_;
    std::vector<opal_common_adaptib_remote_t> remotes_;
    std::deque<Addition> additions_;
};

TEST(Atomics, TheTargetsAreCarriedOutOnceWhateverFails) {
    std::uint64_t repairs = 0;
    std::uint64_t repeated = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Counting counting(seed, "target");
        counting.run();
        EXPECT_EQ(counting.failed(), 0u);
        repairs += counting.repairs();
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            EXPECT_EQ(counting.ranks->counters(rank).bad_packets, 0u);
            repeated += counting.ranks->counters(rank).duplicates;
        }
    }
    EXPECT_GT(repairs, 10u);
    EXPECT_GT(repeated, 0u);
}

TEST(Atomics, AnAdaptersInDoubtEndWithAnErrorAndAreNotRepeated) {
    std::size_t failed = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Counting counting(seed, "adapter");
        counting.run();
        failed += counting.failed();
    }
    EXPECT_GT(failed, 0u);
}

TEST(Atomics, AreTheTargetsByDefaultWhereAPathCanFailOverToAnother) {
    Counting several(1, "auto");
    EXPECT_TRUE(several.emulated(0));
    Counting one(1, "auto", {.ports = 1});
    EXPECT_FALSE(one.emulated(0));
}

// One adapter's atomics are not atomic with another's, and each initiator chooses its own adapter.
TEST(Atomics, AreTheTargetsByDefaultWhereItHasSeveralAdapters) {
    Counting adapters(1, "auto", {.adapters = 2}, "off");
    EXPECT_TRUE(adapters.emulated(0));
    Counting ports(1, "auto", {.ports = 2}, "off");
    EXPECT_FALSE(ports.emulated(0));
}

// The target's own atomics on a word, and those of its peers, are atomic with each other.
TEST(Atomics, TheTargetsOwnGoTheSameWay) {
    Counting counting(3, "target");
    constexpr std::size_t kEach = 50;
    for (std::size_t i = 0; i < kEach; ++i) {
        for (std::size_t from = 1; from < kRanks; ++from) {
            counting.add(from, 0);
        }
        std::uint64_t old = 0;
        const opal_common_adaptib_one_sided_t what{OPAL_COMMON_ADAPTIB_FETCH_ADD,
                                                   &old,
                                                   nullptr,
                                                   counting.remote(0).base,
                                                   &counting.remote(0),
                                                   sizeof(std::uint64_t),
                                                   1,
                                                   0};
        Peer* self = nullptr;
        ASSERT_TRUE(counting.ranks->core(0).peers().get_loopback(self).ok());
        ASSERT_TRUE(counting.ranks->core(0).protocol().one_sided().try_rma(*self, what, nullptr));
        rest(*counting.ranks, 1us);
    }
    ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 10s));
    EXPECT_EQ(counting.word(0), kEach * kRanks);
}

TEST(Atomics, OnAWindowThatIsGoneEndWithAnError) {
    Counting counting(3, "target");
    counting.add(1, 0);
    ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 10s));
    EXPECT_EQ(counting.last_status(), OPAL_COMMON_ADAPTIB_SUCCESS);
    counting.close_window(0);
    counting.add(1, 0);
    ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 10s));
    EXPECT_EQ(counting.last_status(), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(counting.word(0), 1u);
    EXPECT_EQ(counting.ranks->core(1).protocol().one_sided().under_way(), 0u);
    EXPECT_FALSE(counting.ranks->messages(1).empty());
}

// The target may have received the message before it dies, or not.
TEST(Atomics, EndWhenTheirTargetDies) {
    std::size_t failed = 0;
    for (std::int64_t delay = 0; delay < 4000; delay += 20) {
        SCOPED_TRACE(delay);
        Counting counting(2, "target");
        for (int i = 0; i < 10; ++i) {
            counting.add(0, 1);
            ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 1s));
        }
        counting.add(0, 1);
        rest(*counting.ranks, Nanoseconds{delay});
        counting.ranks->kill(1);
        ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 100s));
        failed += counting.failed();
    }
    EXPECT_GT(failed, 20u);
}

TEST(Atomics, WaitForTheEndOfADisconnect) {
    Counting counting(4, "target");
    for (int i = 0; i < 30; ++i) {
        counting.add(0, 1);
        rest(*counting.ranks, Nanoseconds{static_cast<std::int64_t>(counting.random.below(5000))});
        counting.ranks->core(0).protocol().disconnects().release(*counting.ranks->peer(0, 1));
        counting.ranks->core(1).protocol().disconnects().release(*counting.ranks->peer(1, 0));
        counting.ranks->wake(1);
        rest(*counting.ranks, Nanoseconds{static_cast<std::int64_t>(counting.random.below(5000))});
        counting.add(0, 1); // ranks->peer() asks for the peer again
    }
    ASSERT_TRUE(counting.ranks->run_until([&] { return counting.done(); }, 10s));
    EXPECT_EQ(counting.failed(), 0u);
    EXPECT_EQ(counting.word(1), 60u);
}

} // namespace
} // namespace adaptib::sim
