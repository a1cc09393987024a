// SPDX-License-Identifier: BSD-3-Clause
// Options of a core's parts that follow from parameters and rails: each question by a table.
#include "core/derived_options.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class Rails {
public:
    explicit Rails(const std::vector<RailInfo>& infos) {
        for (const RailInfo& info : infos) {
            owned_.push_back(std::make_unique<DescribedRail>(info));
            rails_.push_back(owned_.back().get());
        }
    }
    operator RailList() const { return rails_; }

private:
    std::vector<std::unique_ptr<Rail>> owned_;
    std::vector<Rail*> rails_;
};

std::uint32_t bit(Capability capability) { return static_cast<std::uint32_t>(capability); }

RailInfo port_of(const std::string& adapter, std::uint32_t capabilities = 0) {
    RailInfo info;
    info.adapter = adapter;
    info.capabilities = capabilities;
    return info;
}

// Parameters with one text or another.
template <typename Set> Parameters with(Set&& set) {
    Parameters parameters = default_parameters();
    set(parameters);
    return parameters;
}
char* text(const char* literal) { return const_cast<char*>(literal); }

TEST(AnswerCode, IsTheFirstThatLastsLongEnough) {
    struct Row {
        Nanoseconds time;
        int code;
    };
    for (const Row& row : {Row{0ns, 1}, Row{8'192ns, 1}, Row{8'193ns, 2}, Row{16'384ns, 2},
                           Row{67ms, 14}, Row{68ms, 15}, Row{1s, 18}, Row{24h, 31}}) {
        EXPECT_EQ(answer_code(row.time), row.code) << row.time.count();
    }
}

TEST(CompletionDepth, IsThatOfTheLeastRail) {
    struct Row {
        std::vector<std::uint32_t> depths;
        std::uint32_t depth;
    };
    for (const Row& row : {Row{{65536}, kCompletionDepth}, Row{{65536, 100}, 100},
                           Row{{100, 65536}, 100}, Row{{kCompletionDepth}, kCompletionDepth}}) {
        std::vector<RailInfo> infos(row.depths.size());
        for (std::size_t i = 0; i < infos.size(); ++i) {
            infos[i].max_cq_depth = row.depths[i];
        }
        EXPECT_EQ(completion_depth(Rails(infos)), row.depth);
    }
}

TEST(Adapters, APortNamesTheFirstRailOfItsAdapter) {
    const Rails rails({port_of("a"), port_of("b"), port_of("a"), port_of(""), port_of("")});
    const std::vector<int> first{0, 1, 0, 3, 4};
    for (std::uint32_t rail = 0; rail < first.size(); ++rail) {
        EXPECT_EQ(first_of_adapter(rails, rail), first[rail]) << rail;
    }
}

TEST(Adapters, OnlyAdaptersOfOneFabricAreSeveral) {
    struct Row {
        std::vector<std::string> adapters;
        std::vector<RailRange> fabrics;
        bool several;
    };
    const std::vector<Row> rows{
        {{"a"}, {{0, 1}}, false},
        {{"a", "a"}, {{0, 2}}, false},
        {{"a", "b"}, {{0, 2}}, true},
        {{"a", "b"}, {{0, 1}, {1, 1}}, false},
        {{"", ""}, {{0, 2}}, false}, // rails that are no ports
        {{"", "a", "b"}, {{0, 1}, {1, 2}}, true},
        {{"", "a", "a"}, {{0, 1}, {1, 2}}, false},
    };
    for (const Row& row : rows) {
        std::vector<RailInfo> infos;
        for (const std::string& adapter : row.adapters) {
            infos.push_back(port_of(adapter));
        }
        EXPECT_EQ(has_several_adapters(Rails(infos), row.fabrics), row.several) << &row - &rows[0];
    }
}

TEST(ServesAtomics, WhereAdaptersCannot) {
    const std::uint32_t able = bit(Capability::atomic64);
    struct Row {
        const char* atomics;
        std::vector<RailInfo> rails;
        bool tolerant;
        bool serves;
    };
    const std::vector<Row> rows{
        {"target", {port_of("a", able)}, false, true},
        {"adapter", {port_of("a")}, true, false},
        {"adapter", {port_of("a", able), port_of("b", able)}, true, false},
        {"auto", {port_of("a", able)}, true, false},
        {"auto", {port_of("a")}, false, true},
        {"auto", {port_of("a", able), port_of("a")}, false, true},
        {"auto", {port_of("a", able), port_of("a", able)}, false, false},
        {"auto", {port_of("a", able), port_of("a", able)}, true, true},
        {"auto", {port_of("a", able), port_of("b", able)}, false, true},
    };
    for (const Row& row : rows) {
        const Parameters parameters = with([&](auto& all) { all.atomics = text(row.atomics); });
        const std::vector<RailRange> fabrics{{0, static_cast<std::uint32_t>(row.rails.size())}};
        EXPECT_EQ(serves_atomics(parameters, Rails(row.rails), fabrics, row.tolerant), row.serves)
            << &row - &rows[0];
    }
}

RailInfo device(std::uint32_t queue_pairs, std::uint32_t capabilities = 0,
                Nanoseconds target_change = 0ns) {
    RailInfo info;
    info.max_queue_pairs = queue_pairs;
    info.capabilities = capabilities;
    info.target_change = target_change;
    return info;
}

TEST(ChannelBoundsOf, TheDeviceWithTheFewestQueuePairsBoundsAll) {
    const std::uint32_t dc = bit(Capability::dc);
    struct Row {
        std::vector<RailInfo> rails;
        std::uint64_t queue_pairs;
        bool dynamically_connected;
    };
    const std::vector<Row> rows{
        {{device(0)}, 0, false},
        {{device(0), device(7)}, 7, false},
        {{device(9), device(7), device(0)}, 7, false},
        {{device(9), device(9, dc)}, 9, true},
        {{device(9, dc | bit(Capability::cm_connects))}, 9, false},
    };
    for (const Row& row : rows) {
        const ChannelBounds bounds = channel_bounds(Rails(row.rails));
        EXPECT_EQ(bounds.queue_pairs, row.queue_pairs) << &row - &rows[0];
        EXPECT_EQ(bounds.dynamically_connected, row.dynamically_connected) << &row - &rows[0];
    }
}

TEST(ModelCosts, TheSlowestChangeOfTargetsCounts) {
    const std::uint32_t dc = bit(Capability::dc);
    const Parameters parameters = with([](auto& all) { all.dc_initiators = 5; });
    struct Row {
        std::vector<RailInfo> rails;
        double change;
    };
    const std::vector<Row> rows{
        {{device(0, 0, 900ns)}, 0},
        {{device(0, dc)}, 254}, // a Connect-IB adapter does not tell
        {{device(0, dc, 100ns), device(0, dc, 300ns)}, 300},
    };
    for (const Row& row : rows) {
        const ChannelCosts costs = model_costs(parameters, Rails(row.rails));
        EXPECT_EQ(costs.change, row.change) << &row - &rows[0];
        EXPECT_EQ(costs.initiators, 5u);
    }
}

TEST(SchedulerOptionsOf, ComeFromTheParametersOfThoseNames) {
    const Parameters parameters = with([](Parameters& all) {
        all.multiplexing_policy = text("window_round_robin");
        all.striping_policy = text("even");
        all.striping_threshold = 1000;
        all.min_stripe = 100;
        all.window = 4;
        all.adaptive_alpha = 0.25;
        all.bss_paths = 6;
        all.bss_batch = 3;
    });
    const SchedulerOptions options = scheduler_options(parameters, 9);
    EXPECT_EQ(options.multiplexing, "window_round_robin");
    EXPECT_EQ(options.striping, "even");
    EXPECT_EQ(options.position, 9u);
    EXPECT_EQ(options.striping_threshold, 1000u);
    EXPECT_EQ(options.min_stripe, 100u);
    EXPECT_EQ(options.window, 4u);
    EXPECT_EQ(options.alpha, 0.25);
    EXPECT_EQ(options.bss_paths, 6u);
    EXPECT_EQ(options.bss_batch, 3u);
}

TEST(UnexpectedMemory, TheParameterDecidesElseAShareOfTheNodeWithinBounds) {
    const auto of = [](std::size_t bytes, std::uint32_t processes) {
        return unexpected_memory(with([&](auto& all) { all.unexpected_memory = bytes; }),
                                 processes);
    };
    EXPECT_EQ(of(12345, 1), 12345u);
    EXPECT_EQ(of(0, ~0u), 16 * kMiB) << "a share of nothing";
    EXPECT_LE(of(0, 1), kGiB);
    EXPECT_GE(of(0, 1), 16 * kMiB);
}

TEST(RegistrationCache, IsForRailsThatDoNotReachAllMemory) {
    const std::uint32_t whole = bit(Capability::whole_memory);
    struct Row {
        std::size_t bytes;
        std::vector<RailInfo> rails;
        bool wanted;
    };
    const std::vector<Row> rows{
        {4096, {device(0)}, true},
        {0, {device(0)}, false},
        {4096, {device(0, whole)}, false},
        {4096, {device(0, whole), device(0)}, true},
    };
    for (const Row& row : rows) {
        const Parameters parameters = with([&](auto& all) { all.registration.cache = row.bytes; });
        EXPECT_EQ(wants_registration_cache(parameters, Rails(row.rails)), row.wanted)
            << &row - &rows[0];
    }
}

TEST(StartupModeOf, EachTextOfConnect) {
    struct Row {
        const char* connect;
        Startup::Mode mode;
    };
    for (const Row& row :
         {Row{"on_demand", Startup::Mode::on_demand}, Row{"partial", Startup::Mode::partial},
          Row{"static", Startup::Mode::all}}) {
        EXPECT_EQ(startup_mode(with([&](auto& all) { all.connect = text(row.connect); })),
                  row.mode);
    }
}

// Limits of 0 are none, or chosen by the core.
TEST(PartOfLimits, IsForOneEndpointAndNeverNone) {
    Parameters process = default_parameters();
    process.connect_max = 10;
    process.connect_pool = 0;
    process.ring_max = 256;
    process.dc_initiators = 8;
    process.shm_memory = 0;
    process.unexpected_memory = 1000;
    process.registration.cache = 100;
    const Parameters one = part_of_limits(process, 1);
    EXPECT_EQ(one.connect_max, 10);
    EXPECT_EQ(one.dc_initiators, 8);
    const Parameters part = part_of_limits(process, 16);
    EXPECT_EQ(part.connect_max, 1) << "never none";
    EXPECT_EQ(part.connect_pool, 0);
    EXPECT_EQ(part.ring_max, 16);
    EXPECT_EQ(part.dc_initiators, 1);
    EXPECT_EQ(part.shm_memory, 0u);
    EXPECT_EQ(part.unexpected_memory, 62u);
    EXPECT_EQ(part.registration.cache, 6u);
    EXPECT_EQ(part.eager_limit, process.eager_limit);
}

} // namespace
} // namespace adaptib::test
