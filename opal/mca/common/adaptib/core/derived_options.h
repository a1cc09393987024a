// SPDX-License-Identifier: BSD-3-Clause
// Options of a core's parts that follow from the parameters and from the rails at hand.
//
// Threads: pure functions.
// May touch: base/, fabric/, memory/, schedule/, select/, core/startup.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/parameters.h"
#include "base/units.h"
#include "core/startup.h"
#include "fabric/rail.h"
#include "memory/frequent_buffers.h"
#include "schedule/scheduler.h"
#include "select/mapping.h"
#include "select/policy.h"

namespace adaptib {

// Depth of each rail's completion queue, where the rail allows it.
inline constexpr std::uint32_t kCompletionDepth = 4096;

// The smallest depth that all rails allow.
std::uint32_t completion_depth(RailList rails);

// Dynamically connected queue pairs cannot be connected through rdma_cm.
bool connects_dynamically(const RailInfo& rail);

// The code for an ACK timeout in verbs, 4.096 us x 2^code, of at least `time`.
std::uint8_t answer_code(Nanoseconds time);
Nanoseconds answer_time(std::uint8_t code); // that the code stands for

// Index of the first rail that is a port of this rail's adapter.
std::uint8_t first_of_adapter(RailList rails, std::uint32_t rail);
// An adapter's atomics are atomic only with each other, not with those of another adapter, through
// which other peers may come.
bool has_several_adapters(RailList rails, const RailRange& fabric);
bool has_several_adapters(RailList rails, std::span<const RailRange> fabrics);

// If a failure interrupts an adapter's atomic, nobody knows whether it was carried out. `tolerant`:
// paths that fail are replaced.
bool serves_atomics(const Parameters& parameters, RailList rails,
                    std::span<const RailRange> fabrics, bool tolerant);

// The device with the fewest queue pairs bounds all.
ChannelBounds channel_bounds(RailList rails);
// Adds what it costs to change DC targets, which the published costs leave out. A rail that does
// not report it counts as a Connect-IB adapter (simulator/network/machine.cc says where that number
// comes from).
ChannelCosts model_costs(const Parameters& parameters, RailList rails);

SchedulerOptions scheduler_options(const Parameters& parameters, std::uint32_t local_rank);

// Most memory for unexpected messages. `local_processes`: of the job, on this host.
Bytes unexpected_memory(const Parameters& parameters, std::uint32_t local_processes);

// True if registrations are worth caching: rails that reach all memory need none.
bool wants_registration_cache(const Parameters& parameters, RailList rails);

// Returns the options of frequent buffers that parameters set; costs are not among them.
FrequentBuffersOptions frequent_options(const Parameters& parameters);

// Returns the process's parameters with the part of its limits that one of `endpoints` has.
Parameters part_of_limits(const Parameters& process, std::uint32_t endpoints);

Startup::Mode startup_mode(const Parameters& parameters);

} // namespace adaptib
