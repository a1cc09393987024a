// SPDX-License-Identifier: BSD-3-Clause
#include "core/derived_options.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "fabric/shm/node_memory.h"

namespace adaptib {

std::uint32_t completion_depth(RailList rails) {
    std::uint32_t depth = kCompletionDepth;
    for (const Rail* rail : rails) {
        depth = std::min(depth, rail->info().max_cq_depth);
    }
    return depth;
}

bool connects_dynamically(const RailInfo& rail) {
    return rail.has(Capability::dc) && !rail.has(Capability::cm_connects);
}

Nanoseconds answer_time(std::uint8_t code) { return Nanoseconds{std::int64_t{4096} << code}; }

std::uint8_t answer_code(Nanoseconds time) {
    constexpr std::uint8_t kMost = 31;
    std::uint8_t code = 1;
    while (code < kMost && answer_time(code) < time) {
        ++code;
    }
    return code;
}

std::uint8_t first_of_adapter(RailList rails, std::uint32_t rail) {
    const std::string& adapter = rails[rail]->info().adapter;
    std::uint32_t first = 0;
    while (first < rail && (adapter.empty() || rails[first]->info().adapter != adapter)) {
        ++first;
    }
    return static_cast<std::uint8_t>(first);
}

bool has_several_adapters(RailList rails, const RailRange& fabric) {
    for (std::uint32_t i = fabric.first; i < fabric.end(); ++i) {
        if (!rails[i]->info().adapter.empty() && first_of_adapter(rails, i) != fabric.first) {
            return true;
        }
    }
    return false;
}

bool has_several_adapters(RailList rails, std::span<const RailRange> fabrics) {
    return std::any_of(fabrics.begin(), fabrics.end(), [rails](const RailRange& fabric) {
        return has_several_adapters(rails, fabric);
    });
}

bool serves_atomics(const Parameters& parameters, RailList rails,
                    std::span<const RailRange> fabrics, bool tolerant) {
    const std::string_view atomics = parameters.atomics;
    if (atomics != "auto") {
        return atomics == "target";
    }
    return std::any_of(fabrics.begin(), fabrics.end(), [&](const RailRange& fabric) {
        const RailList own = rails.subspan(fabric.first, fabric.count);
        const bool able = std::all_of(own.begin(), own.end(), [](const Rail* rail) {
            return rail->info().has(Capability::atomic64);
        });
        return !able || has_several_adapters(rails, fabric) || (tolerant && fabric.count > 1);
    });
}

ChannelBounds channel_bounds(RailList rails) {
    ChannelBounds bounds;
    for (const Rail* rail : rails) {
        bounds.dynamically_connected =
            bounds.dynamically_connected || connects_dynamically(rail->info());
        const std::uint64_t most = rail->info().max_queue_pairs;
        if (most != 0 && (bounds.queue_pairs == 0 || most < bounds.queue_pairs)) {
            bounds.queue_pairs = most;
        }
    }
    return bounds;
}

ChannelCosts model_costs(const Parameters& parameters, RailList rails) {
    constexpr Nanoseconds kConnectIb{254};
    Nanoseconds most{0};
    for (const Rail* rail : rails) {
        const RailInfo& info = rail->info();
        if (connects_dynamically(info)) {
            most = std::max(most, info.target_change.count() > 0 ? info.target_change : kConnectIb);
        }
    }
    ChannelCosts costs;
    costs.change = static_cast<double>(most.count());
    costs.initiators = static_cast<std::size_t>(parameters.dc_initiators);
    return costs;
}

SchedulerOptions scheduler_options(const Parameters& parameters, std::uint32_t local_rank) {
    SchedulerOptions options;
    options.multiplexing = parameters.multiplexing_policy;
    options.striping = parameters.striping_policy;
    options.position = local_rank;
    options.striping_threshold = parameters.striping_threshold;
    options.min_stripe = parameters.min_stripe;
    options.window = static_cast<std::uint32_t>(parameters.window);
    options.alpha = parameters.adaptive_alpha;
    options.bss_paths = static_cast<std::uint32_t>(parameters.bss_paths);
    options.bss_batch = static_cast<std::uint32_t>(parameters.bss_batch);
    return options;
}

Bytes unexpected_memory(const Parameters& parameters, std::uint32_t local_processes) {
    constexpr Bytes kLeast = 16 * kMiB;
    constexpr Bytes kMost = kGiB;
    return parameters.unexpected_memory != 0
               ? parameters.unexpected_memory
               : std::clamp(shm::default_memory(local_processes), kLeast, kMost);
}

bool wants_registration_cache(const Parameters& parameters, RailList rails) {
    const bool all = std::all_of(rails.begin(), rails.end(), [](const Rail* rail) {
        return rail->info().has(Capability::whole_memory);
    });
    return !all && parameters.registration.cache > 0;
}

FrequentBuffersOptions frequent_options(const Parameters& parameters) {
    using Mode = FrequentBuffersOptions::Mode;
    const std::string_view mode = parameters.frequent_buffers;
    FrequentBuffersOptions options;
    options.mode = mode == "off" ? Mode::off : mode == "always" ? Mode::always : Mode::automatic;
    options.most = static_cast<std::uint32_t>(parameters.frequent_buffers_max);
    return options;
}

Parameters part_of_limits(const Parameters& process, std::uint32_t endpoints) {
    Parameters part = process;
    const auto divide = [endpoints](auto& limit) {
        if (limit > 0) { // else unlimited, or chosen by the core
            using Limit = std::remove_reference_t<decltype(limit)>;
            limit = std::max<Limit>(limit / static_cast<Limit>(endpoints), 1);
        }
    };
    divide(part.connect_max);
    divide(part.connect_pool);
    divide(part.ring_max);
    divide(part.dc_initiators);
    divide(part.registration.cache);
    divide(part.unexpected_memory);
    divide(part.shm_memory);
    return part;
}

Startup::Mode startup_mode(const Parameters& parameters) {
    const std::string_view mode = parameters.connect;
    return mode == "partial"  ? Startup::Mode::partial
           : mode == "static" ? Startup::Mode::all
                              : Startup::Mode::on_demand;
}

} // namespace adaptib
