// SPDX-License-Identifier: BSD-3-Clause
// Advice on the studies' patterns and OpenSM's routes: it is the best of the fixed choices, within
// 3 %, when the pattern itself is simulated, whose order the advisor did not know.
#include "simulator/advise/advisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "simulator/advise/advice_text.h"
#include "simulator/network/opensm_routes.h"
#include "simulator/network/topology_file.h"
#include "simulator/studies/multipath.h"
#include "simulator/torture/stored_routes.h"

namespace adaptib::advise {
namespace {

constexpr std::uint32_t kRanks = 16;
constexpr Bytes kBytes = 256 * kKiB;

TrafficMatrix matrix_of(const study::Pattern& pattern) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, PairTraffic> pairs;
    for (std::uint32_t rank = 0; rank < pattern.size(); ++rank) {
        for (const study::Step& step : pattern.ranks[rank]) {
            for (const study::Message& send : step.sends) {
                PairTraffic& pair = pairs[{rank, send.peer}];
                pair = {rank, send.peer, pair.messages + 1, pair.bytes + send.bytes};
            }
        }
    }
    TrafficMatrix matrix;
    matrix.ranks = static_cast<std::uint32_t>(pattern.size());
    for (const auto& [ends, pair] : pairs) {
        matrix.pairs.push_back(pair);
    }
    return matrix;
}

JobNetwork network_of(const std::string& routes, std::vector<std::uint32_t> hosts) {
    JobNetwork network;
    network.machine = *sim::machine("infinihost-iii");
    std::string error;
    const std::string name = "fat_tree_12x12x12";
    EXPECT_TRUE(sim::parse_topology(sim::stored_routes_file(name + ".topology"), name,
                                    sim::links_of(network.machine), 0, network.topology, error))
        << error;
    EXPECT_TRUE(sim::parse_opensm_routes(sim::stored_routes_file(name + "_" + routes + ".lfts"),
                                         routes, network.topology, network.routes, error))
        << error;
    network.hosts = std::move(hosts);
    return network;
}

Advice advice_on(const JobNetwork& network, const study::Pattern& pattern) {
    Advice advice;
    std::string error;
    EXPECT_TRUE(Advisor(network, matrix_of(pattern)).advise(advice, error)) << error;
    return advice;
}

// A fat tree with two ports a host, one in each of two adapters, and four LIDs a port.
JobNetwork network_of_two_ports(std::vector<std::uint32_t> hosts) {
    JobNetwork network;
    network.machine = *sim::machine("connect-ib");
    network.topology = sim::fat_tree(12, 6, 12, {.adapters = 2}, sim::links_of(network.machine), 2);
    std::string error;
    EXPECT_TRUE(sim::Routes::compute(network.topology, network.routes, error)) << error;
    network.hosts = std::move(hosts);
    return network;
}

constexpr std::string_view kTwoPorts = "two_ports";

struct Case {
    const char* pattern;
    const char* routes; // stored ones, or kTwoPorts
    bool at_random;     // hosts
    std::uint32_t ranks = kRanks;
    Bytes bytes = kBytes;
};

JobNetwork network_of(const Case& of) {
    std::vector<std::uint32_t> hosts =
        of.at_random ? study::at_random(of.ranks, 1) : study::in_order(of.ranks);
    return of.routes == kTwoPorts ? network_of_two_ports(std::move(hosts))
                                  : network_of(of.routes, std::move(hosts));
}

class AdvisorStudies : public testing::TestWithParam<Case> {};

TEST_P(AdvisorStudies, AdvisesTheBestFixedChoiceWithin3Percent) {
    const JobNetwork network = network_of(GetParam());
    const study::Pattern pattern =
        study::make_pattern(GetParam().pattern, GetParam().ranks, GetParam().bytes, 1);
    ASSERT_EQ(study::problem_of(pattern), "");
    const Advice advice = advice_on(network, pattern);
    double best = 0;
    double advised = 0;
    std::string times;
    for (const Timed& each : advice.choices) {
        double seconds = 0;
        std::string error;
        ASSERT_TRUE(time_of(network, pattern, each.choice, seconds, error)) << error;
        best = best == 0 ? seconds : std::min(best, seconds);
        advised = each.choice == advice.chosen().choice ? seconds : advised;
        times += each.choice.text() + ": " + std::to_string(1e3 * seconds) + " ms\n";
    }
    EXPECT_LE(advised, 1.03 * best) << advice.chosen().choice.text() << "\n"
                                    << times << advice_text(advice, matrix_of(pattern), network);
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
    const Case& of = info.param;
    return std::string(of.pattern) + "_" + of.routes + (of.at_random ? "_at_random" : "_in_order") +
           "_" + std::to_string(of.ranks) + "_" + std::to_string(of.bytes / kKiB) + "KiB";
}

INSTANTIATE_TEST_SUITE_P(Patterns, AdvisorStudies,
                         testing::Values(Case{"displaced_ring", "lmc2_random", false},
                                         Case{"displaced_ring", "lmc2_compact", false},
                                         Case{"displaced_ring", "lmc2_compact_dfsssp", true},
                                         Case{"alltoall", "lmc2_random", true},
                                         Case{"allgather", "lmc2_random", true},
                                         Case{"allreduce", "lmc2_random", true}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OneRank, AdvisorStudies,
                         testing::Values(Case{"onetoall", "lmc2_random", true},
                                         Case{"alltoone", "lmc2_random", true},
                                         Case{"repeat", "lmc2_random", false}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Sizes, AdvisorStudies,
                         testing::Values(Case{"displaced_ring", "lmc2_random", true, 16, 64 * kKiB},
                                         Case{"alltoall", "lmc2_random", true, 16, 64 * kKiB}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Ports, AdvisorStudies,
                         testing::Values(Case{"displaced_ring", kTwoPorts.data(), false, 16},
                                         Case{"allgather", kTwoPorts.data(), true, 16}),
                         name_of);

// These take minutes: --gtest_also_run_disabled_tests.
INSTANTIATE_TEST_SUITE_P(DISABLED_Large, AdvisorStudies,
                         testing::Values(Case{"displaced_ring", "lmc2_random", true, 16, kMiB},
                                         Case{"onetoall", "lmc2_random", true, 64},
                                         Case{"alltoone", "lmc2_random", true, 64},
                                         Case{"allgather", "lmc2_random", true, 64},
                                         Case{"allreduce", "lmc2_random", true, 48},
                                         Case{"displaced_ring", "lmc2_random", false, 48},
                                         Case{"alltoall", "lmc2_random", true, 64},
                                         Case{"alltoall", "lmc3_random", true, 16},
                                         Case{"alltoall", kTwoPorts.data(), true, 16},
                                         Case{"onetoall", kTwoPorts.data(), true, 16}),
                         name_of);

TEST(Advisor, KnowsTheChoicesOfANetwork) {
    const auto texts = [](std::uint32_t ports, std::uint32_t lmc) {
        std::string all;
        for (const Choice& choice :
             choices_for(sim::crossbar(2, {.adapters = ports}, {}, lmc), ports)) {
            all += choice.text() + "; ";
        }
        return all;
    };
    EXPECT_EQ(texts(1, 0), "no striping, 1 path; auto, 1 path; ");
    EXPECT_EQ(texts(1, 1),
              "no striping, 1 path; even, 2 paths; adaptive, 2 paths; auto, 2 paths; ");
    EXPECT_EQ(texts(2, 0), "even, 1 path; adaptive, 1 path; auto, 1 path; ");
    const std::string many = texts(1, 4);
    EXPECT_NE(many.find("bss, 16 paths"), std::string::npos) << many;
    EXPECT_EQ(many.substr(many.size() - 15), "auto, 8 paths; ") << "the default of paths_per_port";
    EXPECT_EQ(texts(8, 4).find("4 paths"), std::string::npos) << "16 over all ports at most";
    const Choice bss{"bss", 12, 3};
    EXPECT_EQ(bss.arguments(), "--mca opal_common_adaptib_striping_policy bss "
                               "--mca opal_common_adaptib_paths_per_port 12 "
                               "--mca opal_common_adaptib_bss_batch 3");
}

// Two ports a host: striping over both is simulated, and advised or kept as the default.
TEST(Advisor, AdvisesHostsWithTwoPorts) {
    JobNetwork network;
    network.machine = *sim::machine("connect-ib");
    network.topology = sim::fat_tree(2, 2, 4, {.adapters = 2}, sim::links_of(network.machine), 1);
    std::string error;
    ASSERT_TRUE(sim::Routes::compute(network.topology, network.routes, error)) << error;
    network.hosts = {0, 1, 4, 5};
    const study::Pattern pattern = study::make_pattern("alltoall", 4, kMiB, 1);
    const Advice advice = advice_on(network, pattern);
    EXPECT_LE(advice.relative(advice.chosen().seconds), 1.011);
    EXPECT_LE(advice.relative(advice.ideal.seconds), 1.01);
}

// With one LID a port there is nothing to choose, but the advice says what several would gain.
TEST(Advisor, SaysWhenThereIsOnePathOnly) {
    const JobNetwork network = network_of("lmc0_random", study::at_random(kRanks, 1));
    const study::Pattern pattern = study::make_pattern("displaced_ring", kRanks, kBytes, 1);
    const Advice advice = advice_on(network, pattern);
    EXPECT_EQ(advice.chosen().choice, advice.usual().choice);
    const std::string text = advice_text(advice, matrix_of(pattern), network);
    EXPECT_NE(text.find("Policy: keep the defaults."), std::string::npos) << text;
    EXPECT_NE(text.find("Routes: each port has one LID"), std::string::npos) << text;
    EXPECT_NE(text.find("Assumptions\n  - "), std::string::npos) << text;
}

// Groups of four ranks that lie on different leaves, whose routes collide, are brought together.
TEST(Advisor, AdvisesAPlacementThatGathersPartners) {
    constexpr std::uint32_t kAll = 144;
    const JobNetwork network = network_of("lmc0_random", study::at_random(kAll, 1));
    study::Pattern pattern;
    pattern.ranks.assign(kAll, std::vector<study::Step>(1));
    for (std::uint32_t rank = 0; rank < kAll; ++rank) {
        for (std::uint32_t k = 1; k < 4; ++k) {
            pattern.ranks[rank][0].sends.push_back({(rank + k * kAll / 4) % kAll, kMiB});
        }
    }
    const Advice advice = advice_on(network, pattern);
    ASSERT_EQ(advice.hosts.size(), kAll);
    EXPECT_LT(advice.relative(advice.placed), 0.97 * advice.relative(advice.chosen().seconds));
    const std::string text = advice_text(advice, matrix_of(pattern), network);
    EXPECT_NE(text.find("rank 143=H"), std::string::npos) << text;
    EXPECT_NE(advice_json(advice, network).find("\"placement\": [\n    \"H"), std::string::npos)
        << advice_json(advice, network);
}

TEST(Advisor, SaysWhenAllTrafficIsWithinHosts) {
    const JobNetwork network = network_of("lmc0_random", {3, 3});
    Advice advice;
    std::string error;
    TrafficMatrix matrix;
    matrix.ranks = 2;
    matrix.pairs = {{0, 1, 1, kMiB}};
    EXPECT_FALSE(Advisor(network, matrix).advise(advice, error));
    EXPECT_EQ(error, "all traffic is within hosts, so no policy matters");
}

} // namespace
} // namespace adaptib::advise
