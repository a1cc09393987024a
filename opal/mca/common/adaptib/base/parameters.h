// SPDX-License-Identifier: BSD-3-Clause
// Parameters: every tunable of the core, in one table.
//
// Purpose: one row per parameter with name, type, default, unit, range, level and help. The C glue
// registers the rows with Open MPI, the core reads the values, and a test keeps help and default in
// agreement. A value is checked against its row's range text, which is therefore never out of date.
// Adding one: a field in Parameters and a row in parameters.cc.
// Threads: set before the core is made, constant afterwards.
// May touch: base/ and the table type of common_adaptib.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common_adaptib.h"

namespace adaptib {

struct TraceParameters {
    char* trace;
    int trace_events;
};
// How writes into rings over RDMA devices become visible.
struct PlacementParameters {
    char* ring_in_order;
    char* ring_check;
};

// Memory of messages, puts and gets that adapters reach.
struct RegistrationParameters {
    std::size_t cache;
    char* accelerator_memory;
    char* relaxed_ordering;
};

// RDMA devices and ports of the parameters if_include, if_exclude and if_standby.
struct DeviceLists {
    char* include;
    char* exclude;
    char* standby;
};

// Plain data; the process's strings live on the heap (Open MPI may replace and free them).
struct Parameters {
    int eager_limit;
    std::size_t verbs_eager_limit;
    char* rendezvous;
    char* small_one_sided;
    char* long_copies;
    char* atomics;
    char* multiplexing_policy;
    char* striping_policy;
    std::size_t striping_threshold;
    std::size_t min_stripe;
    int interleave;
    double adaptive_alpha;
    int window;
    int bss_paths;
    int bss_batch;
    int paths_per_port;
    char* connect;
    char* connect_method;
    int connect_threshold;
    int connect_max;
    int connect_pool;
    int dc_initiators;
    char* channel_policy;
    int channel_period;
    char* channel_costs;
    std::size_t ring_bytes;
    std::size_t verbs_ring_bytes;
    int ring_max;
    int idle_looks;
    int endpoints;
    std::size_t block_bytes;
    int block_depth;
    RegistrationParameters registration;
    char* frequent_buffers;
    int frequent_buffers_max;
    char* fabric;
    DeviceLists devices;
    int gid_index;
    int partition;
    int service_level;
    int traffic_class;
    int datagram_buffers;
    char* shm_single_copy;
    int shm_rails;
    std::size_t shm_queue_bytes;
    std::size_t shm_segment_max;
    std::size_t unexpected_memory;
    std::size_t shm_memory;
    char* apm;
    char* fault_tolerance;
    int failure_timeout;
    int answer_timeout;
    int answer_retries;
    int partition_timeout;
    char* source_map;
    char* report;
    TraceParameters trace;
    PlacementParameters placement;
    int verbose;
};

// Values of the parameter `report`: summary also by 1, yes or true, none also by 0, no or false.
enum class ReportKind : std::uint8_t { none, summary, ranks, directory };
ReportKind report_kind(std::string_view value);

// The eager limit to use for eager_limit = -1 until copies have been timed, or if they never are.
std::size_t first_eager_limit(const Parameters& values);

// The process's values. They hold the defaults until the caller registers or changes them.
Parameters& process_parameters();

// The defaults alone, for tests and simulations; strings are literals: do not free or write them.
Parameters default_parameters();

std::span<const opal_common_adaptib_parameter_t> parameter_table();

// Checks each row of `values`, then values that could contradict each other. On false, `text` says
// which value is wrong, where, and what to do.
bool check_parameters(const Parameters& values, std::string& text);

} // namespace adaptib
