// SPDX-License-Identifier: BSD-3-Clause
// The text of what a process uses: rails by kind of fabric, in order, and both policies.
#include "core/setup_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

struct Described {
    LinkLayer link;
    std::vector<std::string> names; // of its rails
};

class NamedFabric final : public Fabric {
public:
    explicit NamedFabric(const Described& described) {
        for (const std::string& name : described.names) {
            RailInfo info;
            info.name = name;
            info.link_layer = described.link;
            rails_.push_back(std::make_unique<DescribedRail>(info));
        }
    }

private:
    bool poll_event_impl(Event&) override { return false; }
};

std::string text_of(const std::vector<Described>& described, const Parameters& parameters) {
    Counters counters;
    CoreEnvironment environment;
    environment.counters = &counters;
    environment.message = [](Severity, const std::string&) {};
    std::vector<std::unique_ptr<Fabric>> fabrics;
    for (const Described& each : described) {
        fabrics.push_back(std::make_unique<NamedFabric>(each));
    }
    AttachedFabrics attached(environment);
    std::string trouble;
    EXPECT_TRUE(attached.attach(parameters, std::move(fabrics), trouble).ok()) << trouble;
    return setup_text(attached, parameters);
}

TEST(SetupText, NamesTheRailsWithinTheHostAndBetweenHosts) {
    using enum LinkLayer;
    struct Row {
        std::vector<Described> fabrics;
        std::string rails;
    };
    const std::vector<Row> rows{
        {{{memory, {"shm0"}}}, "within the host: shm0; between hosts: nothing"},
        {{{memory, {"shm0", "shm1"}}}, "within the host: shm0, shm1; between hosts: nothing"},
        {{{infiniband, {"mlx5_0:1"}}}, "within the host and between hosts: mlx5_0:1"},
        {{{ethernet, {"rxe0:1", "rxe1:1"}}}, "within the host and between hosts: rxe0:1, rxe1:1"},
        {{{memory, {"shm0"}}, {infiniband, {"mlx5_0:1", "mlx5_1:2"}}},
         "within the host: shm0; between hosts: mlx5_0:1, mlx5_1:2"},
        {{{infiniband, {"mlx5_0:1"}}, {memory, {"shm0"}}, {ethernet, {"rxe0:1"}}},
         "within the host: shm0; between hosts: mlx5_0:1, rxe0:1"},
    };
    const std::string policies = "; multiplexing binding, striping auto";
    for (const Row& row : rows) {
        EXPECT_EQ(text_of(row.fabrics, default_parameters()), row.rails + policies);
    }
}

TEST(SetupText, NamesThePoliciesThatTheUserChose) {
    struct Row {
        const char* multiplexing;
        const char* striping;
        std::string policies;
    };
    for (const Row& row :
         {Row{"round_robin", "none", "; multiplexing round_robin, striping none"},
          Row{"binding", "weighted", "; multiplexing binding, striping weighted"},
          Row{"window_round_robin", "epc", "; multiplexing window_round_robin, striping epc"}}) {
        Parameters parameters = default_parameters();
        parameters.multiplexing_policy = const_cast<char*>(row.multiplexing);
        parameters.striping_policy = const_cast<char*>(row.striping);
        EXPECT_EQ(text_of({{LinkLayer::memory, {"shm0"}}}, parameters),
                  "within the host: shm0; between hosts: nothing" + row.policies);
    }
}

TEST(SetupText, LeavesOutRailsThatDoNotFit) {
    Described devices{LinkLayer::infiniband, {}};
    for (std::uint32_t i = 0; i < kMaxRails + 1; ++i) {
        devices.names.push_back("d" + std::to_string(i));
    }
    const std::string text =
        text_of({devices, {LinkLayer::memory, {"shm0", "shm1"}}}, default_parameters());
    EXPECT_TRUE(text.starts_with("within the host: shm0; between hosts: d0, d1, ")) << text;
    EXPECT_NE(text.find(", d" + std::to_string(kMaxRails - 2) + "; multiplexing"),
              std::string::npos)
        << text;
}

} // namespace
} // namespace adaptib::test
