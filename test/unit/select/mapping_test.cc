// SPDX-License-Identifier: BSD-3-Clause
// The search for the best mapping: equal to the published double loop on every input.
#include "select/mapping.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace adaptib {
namespace {

using Counts = std::vector<SourceCount>;

// Figure 6 as printed, except that m is at most l, and that rings beyond one for each initiator pay
// for changes of targets. `sorted`: descending.
double published_sum(const Counts& sorted, const ChannelCosts& costs, std::size_t l,
                     std::size_t m) {
    double x = 0;
    for (std::size_t i = 0; i < l; ++i) {
        x += sorted[i].count * (i < m ? costs.connected_ring : costs.shared_ring);
        x -= sorted[i].count * costs.credit / costs.ring_messages;
        x -= i >= m + costs.initiators ? sorted[i].count * costs.change : 0;
    }
    x -= sorted.empty() ? 0 : sorted[0].count * static_cast<double>(l) / 2 * costs.poll;
    x -= static_cast<double>(m) * costs.establish;
    x -= static_cast<double>(l - m) * costs.establish_shared;
    return x;
}

double published_best(Counts counts, const ChannelCosts& costs, const ChannelLimits& limits) {
    std::sort(counts.begin(), counts.end(),
              [](const SourceCount& a, const SourceCount& b) { return a.count > b.count; });
    double best = 0;
    for (std::size_t l = 0; l <= std::min(limits.rings, counts.size()); ++l) {
        for (std::size_t m = 0; m <= std::min(limits.connections, l); ++m) {
            if (limits.shared_rings || m == l) {
                best = std::max(best, published_sum(counts, costs, l, m));
            }
        }
    }
    return best;
}

Counts sorted_by_source(Counts counts) {
    std::sort(counts.begin(), counts.end(),
              [](const SourceCount& a, const SourceCount& b) { return a.source < b.source; });
    return counts;
}

double establishing(const Mapping& mapping, const ChannelCosts& costs) {
    return static_cast<double>(mapping.connected.size()) * costs.establish +
           static_cast<double>(mapping.shared.size()) * costs.establish_shared;
}

TEST(Mapping, FewMessagesAreNotWorthARing) {
    Counts counts{{1, 10}, {2, 70}, {3, 0}};
    const Choice choice = find_mapping(counts, {}, {});
    EXPECT_EQ(choice.mapping, Mapping{});
    EXPECT_EQ(choice.gain, 0);
}

TEST(Mapping, NobodyIsNoMapping) {
    Counts counts;
    EXPECT_EQ(find_mapping(counts, {}, {}).mapping, Mapping{});
    EXPECT_EQ(gain_of({}, counts, {}), 0);
}

// By hand: 1000 (150 - 18.75) - 1000/2 x 10 - 10000 = 116,250 for one ring, and so on.
TEST(Mapping, TheBusiestAreConnectedTheNextShareQueuePairs) {
    Counts counts{{7, 500}, {1, 1000}, {3, 800}, {9, 20}};
    ChannelLimits limits;
    limits.connections = 2;
    const Choice choice = find_mapping(counts, {}, limits);
    EXPECT_EQ(choice.mapping.connected, (std::vector<std::uint64_t>{1, 3}));
    EXPECT_EQ(choice.mapping.shared, (std::vector<std::uint64_t>{7}));
    EXPECT_DOUBLE_EQ(choice.gain, 1800 * 131.25 + 500 * 81.25 - 3 * 5000 - 3 * 10000);
}

TEST(Mapping, LimitsAreKept) {
    for (const std::size_t rings : {0, 1, 3}) {
        for (const std::size_t connections : {0, 1, 2, 5}) {
            Counts counts;
            for (std::uint64_t i = 0; i < 10; ++i) {
                counts.push_back({i, 1e6 + static_cast<double>(i)});
            }
            const Choice choice = find_mapping(counts, {}, {rings, connections, true});
            EXPECT_EQ(choice.mapping.rings(), rings);
            EXPECT_EQ(choice.mapping.connected.size(), std::min(rings, connections));
        }
    }
}

TEST(Mapping, WithoutSharedRingsThereAreAsManyAsConnections) {
    Counts counts{{1, 1e6}, {2, 1e6}, {3, 1e6}};
    const Choice choice = find_mapping(counts, {}, {256, 2, false});
    EXPECT_EQ(choice.mapping.connected.size(), 2u);
    EXPECT_TRUE(choice.mapping.shared.empty());
}

// Queue pairs that nobody gains by are not made.
TEST(Mapping, WhoGainsNothingByAConnectionSharesQueuePairs) {
    ChannelCosts costs;
    costs.connected_ring = costs.shared_ring;
    costs.establish = costs.establish_shared;
    Counts counts{{1, 1000}, {2, 800}};
    const Choice choice = find_mapping(counts, costs, {});
    EXPECT_TRUE(choice.mapping.connected.empty());
    EXPECT_EQ(choice.mapping.shared.size(), 2u);
}

TEST(Mapping, PollingBoundsTheRingsOfManyEqualSources) {
    Counts counts;
    for (std::uint64_t i = 0; i < 200; ++i) {
        counts.push_back({i, 10'000});
    }
    ChannelCosts costs;
    costs.poll = 300; // 150 per message and ring: more than a ring saves
    EXPECT_EQ(find_mapping(counts, costs, {}).mapping.rings(), 0u);
    costs.poll = 10;
    EXPECT_EQ(find_mapping(counts, costs, {}).mapping.rings(), 200u);
}

// A change of targets may cost more than the 81.25 ns that a shared ring saves.
TEST(Mapping, WhereChangingTargetsCostsMuchAsManyShareAsThereAreInitiators) {
    ChannelCosts costs;
    costs.initiators = 4;
    for (const double change : {0.0, 60.0, 81.5, 254.0}) {
        SCOPED_TRACE(change);
        costs.change = change;
        const bool all = change < 81.25;
        EXPECT_EQ(shared_most(costs), all ? ~std::size_t{0} : 4);
        Counts counts;
        for (std::uint64_t i = 0; i < 30; ++i) {
            counts.push_back({i, 10'000});
        }
        const Counts by_source = counts;
        const Choice choice = find_mapping(counts, costs, {256, 8, true});
        EXPECT_EQ(choice.mapping.connected.size(), 8u);
        EXPECT_EQ(choice.mapping.shared.size(), all ? 22u : 4u);
        EXPECT_NEAR(gain_of(choice.mapping, by_source, costs) - establishing(choice.mapping, costs),
                    choice.gain, 1e-3);
    }
}

// The busiest source has an initiator to itself; the others pay for the changes.
TEST(Mapping, TheLeastBusyPayForChanges) {
    ChannelCosts costs;
    costs.initiators = 1;
    costs.change = 50;
    const Mapping mapping{{}, {1, 2, 3}};
    const Counts counts{{1, 100}, {2, 4000}, {3, 200}};
    const double polls = 3 * 4000.0 / 2 * 10;
    EXPECT_DOUBLE_EQ(gain_of(mapping, counts, costs), 4300 * 81.25 - 300 * 50 - polls);
}

// Draws costs so widely that each term decides now and then; a connection may save less
// than a shared ring.
void compare_with_the_double_loop(bool changes) {
    int with_both = 0;
    int with_fewer = 0;
    for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const auto up_to = [&](double most) {
            return most * static_cast<double>(random.below(1000)) / 999;
        };
        ChannelCosts costs;
        costs.shared_ring = up_to(200);
        costs.connected_ring = up_to(200);
        costs.poll = up_to(20);
        costs.credit = up_to(600);
        costs.establish_shared = up_to(50'000);
        costs.establish = up_to(50'000);
        if (changes) {
            costs.change = up_to(300);
            costs.initiators = random.below(10);
        }
        const ChannelLimits limits{random.below(40), random.below(20), random.below(4) != 0};
        Counts counts;
        const std::uint64_t sources = random.below(50);
        for (std::uint64_t i = 0; i < sources; ++i) {
            const double most = random.below(2) == 0 ? 100 : 5000;
            counts.push_back({i * 3, static_cast<double>(static_cast<int>(up_to(most)))});
        }
        const double published = published_best(counts, costs, limits);
        const Counts by_source = sorted_by_source(counts);
        const Choice choice = find_mapping(counts, costs, limits);
        const double near = 1e-6 * (1 + published);
        EXPECT_NEAR(choice.gain, published, near);
        // The mapping that is returned has that gain.
        EXPECT_NEAR(gain_of(choice.mapping, by_source, costs) - establishing(choice.mapping, costs),
                    published, near);
        EXPECT_LE(choice.mapping.rings(), limits.rings);
        EXPECT_LE(choice.mapping.connected.size(), limits.connections);
        with_both += !choice.mapping.connected.empty() && !choice.mapping.shared.empty() ? 1 : 0;
        with_fewer +=
            choice.mapping.rings() > 0 && choice.mapping.rings() < std::min(limits.rings, sources)
                ? 1
                : 0;
    }
    EXPECT_GT(with_both, 100); // the inputs cover both cases
    EXPECT_GT(with_fewer, 100);
}

TEST(Mapping, EqualsTheDoubleLoop) { compare_with_the_double_loop(false); }
TEST(Mapping, EqualsTheDoubleLoopWhereChangesCostSomething) { compare_with_the_double_loop(true); }

TEST(Mapping, GainCountsPollingForTheBusiestOfAllSources) {
    const Counts counts{{1, 100}, {2, 4000}};
    const Mapping mapping{{1}, {}};
    EXPECT_DOUBLE_EQ(gain_of(mapping, counts, {}), 100 * 131.25 - 4000.0 / 2 * 10);
}

} // namespace
} // namespace adaptib
