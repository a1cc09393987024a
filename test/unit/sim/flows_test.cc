// SPDX-License-Identifier: BSD-3-Clause
// Flows: small cases with times derived in comments, exact results, and the cost of solving.
#include "simulator/network/flows.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "simulator/network/routes.h"

namespace adaptib::sim {
namespace {

constexpr Nanoseconds kNever{-1};

struct Timed final : Flow {
    explicit Timed(const Simulator& s) : simulator(s) {}
    void on_through() override {
        through = simulator.now();
        if (then) {
            then();
        }
    }

    const Simulator& simulator;
    Nanoseconds through = kNever;
    std::function<void()> then;
};

// Links without a network around them.
Topology links_of(std::initializer_list<std::uint64_t> rates) {
    Topology topology;
    for (const std::uint64_t rate : rates) {
        topology.links.push_back({.rate = {rate}});
    }
    return topology;
}

// Calls `what` at its time.
struct At final : Event {
    At(Simulator& simulator, Nanoseconds when, std::function<void()> w) : what(std::move(w)) {
        simulator.schedule(*this, when);
    }
    void happen() override { what(); }
    std::function<void()> what;
};

struct Small {
    explicit Small(std::initializer_list<std::uint64_t> rates)
        : topology(links_of(rates)), flows(simulator, topology) {}
    void run() {
        while (simulator.step()) {
        }
    }

    Simulator simulator;
    Topology topology;
    Flows flows;
    const std::vector<LinkIndex> first{0}, second{1}, both{0, 1};
    Timed a{simulator}, b{simulator}, c{simulator};
};

// 1000 bytes at 3 bytes/ns: 333.3 ns, so 334.
TEST(Flows, OneFlow) {
    Small w({3'000'000'000});
    w.flows.start(w.a, w.first, 1000, {});
    EXPECT_TRUE(w.a.active());
    EXPECT_EQ(w.flows.active(), 1u);
    EXPECT_EQ(w.flows.rate(w.a), BytesPerSecond{3'000'000'000});
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{334});
    EXPECT_FALSE(w.a.active());
    EXPECT_EQ(w.flows.active(), 0u);
}

// Both have 1 byte/ns until a is done with 100 bytes at 100; then b has 2 for the
// other 200: 100 + 100.
TEST(Flows, TwoShareALink) {
    Small w({2'000'000'000});
    w.flows.start(w.a, w.first, 100, {});
    w.flows.start(w.b, w.first, 300, {});
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{100});
    EXPECT_EQ(w.b.through, Nanoseconds{200});
}

// Links of 1 and 4 bytes/ns; a is on the first, b on both, c on the second. a and b share the
// first: 0.5 each; c has what b leaves of the second: 3.5.
TEST(Flows, ThreeOnTwoLinks) {
    Small w({1'000'000'000, 4'000'000'000});
    w.flows.start(w.a, w.first, 1000, {});
    w.flows.start(w.b, w.both, 1000, {});
    w.flows.start(w.c, w.second, 1000, {});
    EXPECT_EQ(w.flows.rate(w.a), BytesPerSecond{500'000'000});
    EXPECT_EQ(w.flows.rate(w.b), BytesPerSecond{500'000'000});
    EXPECT_EQ(w.flows.rate(w.c), BytesPerSecond{3'500'000'000});
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{2000});
    EXPECT_EQ(w.b.through, Nanoseconds{2000});
    EXPECT_EQ(w.c.through, Nanoseconds{286}); // 285.7
}

// 3 bytes/ns; a's engine gives 0.5. b has the other 2.5: 1000 bytes in 400 ns; alone,
// a gets no faster.
TEST(Flows, ALimit) {
    Small w({3'000'000'000});
    w.flows.start(w.a, w.first, 1000, {500'000'000});
    w.flows.start(w.b, w.first, 1000, {});
    EXPECT_EQ(w.flows.rate(w.b), BytesPerSecond{2'500'000'000});
    w.run();
    EXPECT_EQ(w.b.through, Nanoseconds{400});
    EXPECT_EQ(w.a.through, Nanoseconds{2000});
}

TEST(Flows, WithoutLinks) {
    Small w({1});
    w.flows.start(w.a, {}, 1000, {2'000'000'000});
    w.flows.start(w.b, {}, kGiB, {});
    EXPECT_EQ(w.b.through, kNever) << "not inside of start";
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{500});
    EXPECT_EQ(w.b.through, Nanoseconds{0});
}

// 1 byte/ns: 40 bytes until 40, nothing until 100, then 2 bytes/ns for the other 60: 130.
TEST(Flows, ALinkStopsAndGoesOn) {
    Small w({1'000'000'000});
    w.flows.start(w.a, w.first, 100, {});
    At down(w.simulator, Nanoseconds{40}, [&] { w.flows.set_rate(0, {0}); });
    At look(w.simulator, Nanoseconds{50}, [&] { EXPECT_EQ(w.flows.rate(w.a), BytesPerSecond{0}); });
    At up(w.simulator, Nanoseconds{100}, [&] { w.flows.set_rate(0, {2'000'000'000}); });
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{130});
}

TEST(Flows, ALinkThatStaysStoppedEndsNothing) {
    Small w({1'000'000'000});
    w.flows.start(w.a, w.first, 100, {});
    w.flows.set_rate(0, {0});
    w.run();
    EXPECT_TRUE(w.a.active());
    EXPECT_EQ(w.flows.stop(w.a), 100u);
}

// 0.3 bytes/ns: 3 bytes have left after 10 ns, 3.3 after 11: 96.7 are left, so 97.
TEST(Flows, StopTellsWhatIsLeft) {
    Small w({300'000'000});
    Bytes left = 0;
    w.flows.start(w.a, w.first, 100, {});
    w.flows.start(w.b, w.first, 100, {});
    EXPECT_EQ(w.flows.stop(w.b), 100u);
    At stop(w.simulator, Nanoseconds{11}, [&] { left = w.flows.stop(w.a); });
    w.run();
    EXPECT_EQ(left, 97u);
    EXPECT_FALSE(w.a.active());
    EXPECT_EQ(w.a.through, kNever);
    EXPECT_EQ(w.simulator.now(), Nanoseconds{11});
}

TEST(Flows, DestroyingAFlowStopsIt) {
    Small w({2'000'000'000});
    w.flows.start(w.a, w.first, 100, {});
    {
        Timed other(w.simulator);
        w.flows.start(other, w.first, 100, {});
        EXPECT_EQ(w.flows.rate(w.a), BytesPerSecond{1'000'000'000});
    }
    EXPECT_EQ(w.flows.rate(w.a), BytesPerSecond{2'000'000'000});
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{50});
}

// a is done at 100, starts again within on_through, and again shares with b: 1 byte/ns for
// both up to 300, where b has had its 300; a's second 200 bytes end there as well, its
// third 100 alone: 350.
TEST(Flows, StartedAgainWhenThrough) {
    Small w({2'000'000'000});
    int times = 1;
    w.a.then = [&] {
        if (++times <= 3) {
            w.flows.start(w.a, w.first, times == 2 ? 200 : 100, {});
        }
    };
    w.flows.start(w.a, w.first, 100, {});
    w.flows.start(w.b, w.first, 300, {});
    w.run();
    EXPECT_EQ(w.b.through, Nanoseconds{300});
    EXPECT_EQ(w.a.through, Nanoseconds{350});
}

TEST(Flows, DestroyedWhenThrough) {
    struct Once final : Flow {
        explicit Once(int& d) : done(d) {}
        void on_through() override {
            ++done;
            delete this;
        }
        int& done;
    };
    Small w({1'000'000'000});
    int done = 0;
    w.flows.start(*new Once(done), w.first, 100, {});
    w.flows.start(*new Once(done), w.first, 200, {});
    w.run();
    EXPECT_EQ(done, 2);
    EXPECT_EQ(w.simulator.now(), Nanoseconds{300});
}

// Flows that start at the same moment are solved once: each has its rate computed once.
TEST(Flows, ChangesOfAMomentAreSolvedTogether) {
    Small w({3'000'000'000});
    At one(w.simulator, Nanoseconds{5}, [&] { w.flows.start(w.a, w.first, 10, {}); });
    At two(w.simulator, Nanoseconds{5}, [&] { w.flows.start(w.b, w.first, 10, {}); });
    At three(w.simulator, Nanoseconds{5}, [&] { w.flows.start(w.c, w.first, 10, {}); });
    while (w.simulator.next() == Nanoseconds{5}) {
        w.simulator.step();
    }
    EXPECT_EQ(w.flows.computed(), 3u);
    w.run();
    EXPECT_EQ(w.a.through, Nanoseconds{15});
    EXPECT_EQ(w.c.through, Nanoseconds{15});
}

// Flow i is on the links i and i+1, whose rates are 2i+1 times 1000: it has its bottleneck at link
// i, where flow i-1 leaves it (i+1) * 1000. If link 0 becomes slower by 100, flow 0 loses that,
// flow 1 wins it, flow 2 loses it, and so on: more often than there are rounds of solving.
TEST(Flows, AChangeIsPassedOnFromLinkToLink) {
    Topology topology;
    for (std::uint64_t i = 0; i <= 40; ++i) {
        topology.links.push_back({.rate = {(2 * i + 1) * 1000}});
    }
    Simulator simulator;
    Flows flows(simulator, topology);
    std::vector<std::unique_ptr<Timed>> all;
    for (LinkIndex i = 0; i < 40; ++i) {
        all.push_back(std::make_unique<Timed>(simulator));
        flows.start(*all[i], std::vector{i, i + 1}, kMiB, {});
    }
    for (std::uint64_t i = 0; i < 40; ++i) {
        EXPECT_EQ(flows.rate(*all[i]), BytesPerSecond{(i + 1) * 1000});
    }
    flows.set_rate(0, {900});
    for (std::uint64_t i = 0; i < 40; ++i) {
        EXPECT_EQ(flows.rate(*all[i]), BytesPerSecond{(i + 1) * 1000 + (i % 2 == 0 ? -100 : 100)});
    }
}

// 1 GiB whose rate changes 20,000 times, to whole bytes/s: it ends in the very nanosecond in which
// the sum of rate * time reaches it.
TEST(Flows, ExactOverManyChanges) {
    __extension__ using Wide = unsigned __int128;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        Random random(seed);
        Small w({1'000'000'000});
        w.flows.start(w.a, w.first, kGiB, {});
        Wide left = Wide{kGiB} * 1'000'000'000;
        std::uint64_t rate = 1'000'000'000;
        for (int i = 0; i < 20'000; ++i) {
            const std::uint64_t time = random.below(50'000);
            At next(w.simulator, w.simulator.now() + Nanoseconds{static_cast<std::int64_t>(time)},
                    [] {});
            while (next.scheduled()) {
                w.simulator.step();
            }
            ASSERT_TRUE(w.a.active());
            left -= Wide{rate} * time;
            rate = random.below(2'000'000'000) + 1;
            w.flows.set_rate(0, {rate});
        }
        const auto rest = static_cast<std::int64_t>((left + rate - 1) / rate);
        const Nanoseconds expected = w.simulator.now() + Nanoseconds{rest};
        w.run();
        EXPECT_EQ(w.a.through, expected) << "seed " << seed;
    }
}

// Seven flows of 1 GiB on one link end together, when the link has moved all of it; and each of
// thousands of short ones that pass beside them takes no more than it moves.
TEST(Flows, SharesAddUp) {
    Small w({1'000'000'000});
    std::vector<std::unique_ptr<Timed>> all;
    for (int i = 0; i < 7; ++i) {
        all.push_back(std::make_unique<Timed>(w.simulator));
        w.flows.start(*all.back(), w.first, kGiB, {});
    }
    int passing = 0;
    w.a.then = [&] {
        if (++passing < 3000) {
            w.flows.start(w.a, w.first, 1000, {});
        }
    };
    w.flows.start(w.a, w.first, 1000, {});
    w.run();
    const std::int64_t exact = 7 * static_cast<std::int64_t>(kGiB) + 3000 * 1000;
    for (const auto& flow : all) {
        EXPECT_GE(flow->through.count(), exact);
        EXPECT_LE(flow->through.count(), exact + 3000);
    }
}

// 1,024 hosts, each of which sends to one other.
struct Tree {
    Tree() {
        std::string text;
        EXPECT_TRUE(Routes::compute(topology, routes, text)) << text;
        for (std::uint32_t i = 0; i < kHosts; ++i) {
            senders.push_back(std::make_unique<Timed>(simulator));
        }
        paths.resize(kHosts);
    }
    void start(std::uint32_t from, std::uint32_t to, Bytes bytes) {
        ASSERT_TRUE(routes.path(topology, from, topology.ports[to].lid, paths[from]));
        flows.start(*senders[from], paths[from], bytes, {});
    }

    static constexpr std::uint32_t kHosts = 1024;
    Simulator simulator;
    const Topology topology = fat_tree(32, 32, 32, {}, {});
    Routes routes;
    Flows flows{simulator, topology};
    std::vector<std::vector<LinkIndex>> paths;
    std::vector<std::unique_ptr<Timed>> senders;
};

double milliseconds_for(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
}

TEST(Flows, AThousandAtOnce) {
    Tree tree;
    Random random(1);
    std::vector<std::uint32_t> to(Tree::kHosts);
    std::iota(to.begin(), to.end(), 0u);
    for (std::size_t i = to.size() - 1; i > 0; --i) {
        std::swap(to[i], to[random.below(i + 1)]);
    }
    for (std::uint32_t i = 0; i < Tree::kHosts; ++i) {
        if (to[i] != i) {
            tree.start(i, to[i], kMiB);
        }
    }
    const std::size_t active = tree.flows.active();
    const double took = milliseconds_for([&] { (void)tree.flows.rate(*tree.senders[0]); });
    EXPECT_EQ(tree.flows.computed(), active) << "one round";
    RecordProperty("microseconds", static_cast<int>(took * 1000));
    std::uint64_t sum = 0;
    const double rest = milliseconds_for([&] {
        while (tree.simulator.step()) {
            ++sum;
        }
    });
    RecordProperty("microseconds_to_the_end", static_cast<int>(rest * 1000));
}

// Every host sends to random ones, one after another, so that flows start and end one by one while
// a thousand are in flight: each change looks at few of them.
TEST(Flows, FewAreLookedAtForOneChange) {
    Tree tree;
    Random random(2);
    std::uint32_t left = 20'000;
    const auto next = [&](std::uint32_t from) {
        if (left > 0) {
            --left;
            const auto to = static_cast<std::uint32_t>(random.below(Tree::kHosts - 1));
            tree.start(from, to >= from ? to + 1 : to, 1 + random.below(kMiB));
        }
    };
    for (std::uint32_t i = 0; i < Tree::kHosts; ++i) {
        tree.senders[i]->then = [&next, i] { next(i); };
        next(i);
    }
    const double took = milliseconds_for([&] {
        while (tree.simulator.step()) {
        }
    });
    RecordProperty("microseconds", static_cast<int>(took * 1000));
    EXPECT_LT(tree.flows.computed(), 20'000u * 200);
}

} // namespace
} // namespace adaptib::sim
