// SPDX-License-Identifier: BSD-3-Clause
// The parameter table and its checks (base/parameters.h).
#include "base/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/units.h"

namespace adaptib {

namespace {

Parameters g_parameters;
bool g_defaults_set = false;

constexpr opal_common_adaptib_type_t kBool = OPAL_COMMON_ADAPTIB_TYPE_BOOL;
constexpr opal_common_adaptib_type_t kInt = OPAL_COMMON_ADAPTIB_TYPE_INT;
constexpr opal_common_adaptib_type_t kSize = OPAL_COMMON_ADAPTIB_TYPE_SIZE;
constexpr opal_common_adaptib_type_t kDouble = OPAL_COMMON_ADAPTIB_TYPE_DOUBLE;
constexpr opal_common_adaptib_type_t kString = OPAL_COMMON_ADAPTIB_TYPE_STRING;

constexpr std::array kTable{
    opal_common_adaptib_parameter_t{
        "eager_limit", kInt, &g_parameters.eager_limit, "-1", "bytes", "-1..1048576", 3,
        "Messages up to this size are pushed without a handshake; larger ones are moved straight "
        "between the user's buffers once the receive is posted. Negative: 4096 to begin with, and as soon as copies "
        "were timed what is fastest here, from 4096 to 65536, but no more than a quarter of ring_bytes."},
    opal_common_adaptib_parameter_t{
        "verbs_eager_limit", kSize, &g_parameters.verbs_eager_limit, "8192", "bytes", "0..1048576",
        3,
        "The same for peers that are reached over RDMA devices, where a handshake costs more than copying. "
        "What does not fit half of a ring is larger in any case."},
    opal_common_adaptib_parameter_t{
        "rendezvous", kString, &g_parameters.rendezvous, "get", "", "get|put", 5,
        "How a large message moves: the receiver reads it (get) or the sender writes it (put)."},
    opal_common_adaptib_parameter_t{
        "small_one_sided", kString, &g_parameters.small_one_sided, "auto", "", "auto|direct", 5,
        "How atomics, and puts and gets of up to 64 KiB, are done in a local peer's private memory: by this process, "
        "which takes calls of the system (direct), or by the peer, which is asked by a message, as long as "
        "that is faster; if it does not take the message up soon, it is done here after all (auto)."},
    opal_common_adaptib_parameter_t{
        "long_copies", kString, &g_parameters.long_copies, "auto", "", "auto|alone|together|staged",
        5,
        "Who copies long data between this process and a local peer, messages, puts and gets from 64 KiB on: "
        "one of them, by the kernel (alone); both at the same time, a part each, by the kernel (together); both, "
        "all of it, through shared memory (staged); or the one of these that was fastest for that size (auto). If "
        "the peer is not in a call of MPI this process copies all of it."},
    opal_common_adaptib_parameter_t{
        "atomics", kString, &g_parameters.atomics, "auto", "", "auto|adapter|target", 4,
        "Who carries atomics on this process's memory out: the adapters, which need no help of its processor, but "
        "leave in doubt what a failing path has interrupted: it ends with an error (adapter); or the process, asked "
        "by messages, exactly once whatever fails, while it is in calls of MPI (target). The latter where "
        "fault_tolerance is on and there are several rails of a kind, where rails are of several adapters, whose "
        "atomics are not atomic with each other's, or where adapters have none (auto)."},
    opal_common_adaptib_parameter_t{
        "multiplexing_policy", kString, &g_parameters.multiplexing_policy, "binding", "",
        "binding|round_robin|weighted_round_robin|window_round_robin", 4,
        "Which rail carries a message above eager_limit that is not striped: always the same one of each "
        "process (binding), the next one (round_robin), each as often as its rate is of all "
        "(weighted_round_robin), or the next one after `window` messages (window_round_robin)."},
    opal_common_adaptib_parameter_t{
        "striping_policy", kString, &g_parameters.striping_policy, "auto", "",
        "none|auto|even|weighted|adaptive|load_balanced|bss|epc", 4,
        "How messages from striping_threshold on are cut: not (none), over ports in proportion to learnt "
        "rates and over several paths of one port only where the first is slow and that helps (auto), in "
        "equal parts (even), in proportion to nominal rates (weighted) or to learnt ones (adaptive), the "
        "least loaded rails first (load_balanced), over the few that proved fastest (bss), or adaptive if "
        "the sender waits and whole if not (epc)."},
    opal_common_adaptib_parameter_t{
        "striping_threshold", kSize, &g_parameters.striping_threshold, "16384", "bytes",
        "1024..1073741824", 5,
        "Messages from this size on are cut by striping_policy; multiplexing_policy chooses one rail for "
        "each shorter one."},
    opal_common_adaptib_parameter_t{
        "min_stripe", kSize, &g_parameters.min_stripe, "0", "bytes", "0..1073741824", 6,
        "No rail gets a smaller part of a message; 0: what it carries in a microsecond, which is about what "
        "a further part costs. The policy even does not ask."},
    opal_common_adaptib_parameter_t{
        "interleave", kInt, &g_parameters.interleave, "100", "us", "0..1000000", 5,
        "Once puts and gets to a process were wanted at the same time, no more bytes of either are under way "
        "than its rails carry in about this time; further ones wait for these, so that both directions are "
        "busy. 0: all go out as they are asked for."},
    opal_common_adaptib_parameter_t{
        "adaptive_alpha", kDouble, &g_parameters.adaptive_alpha, "0.5", "", "0..1", 6,
        "How much the times of the last message count in the weights that striping learns (auto, "
        "adaptive, bss, epc)."},
    opal_common_adaptib_parameter_t{
        "window", kInt, &g_parameters.window, "8", "messages", "1..1000000", 6,
        "Messages over one rail before the next one's turn (window_round_robin)."},
    opal_common_adaptib_parameter_t{
        "bss_paths", kInt, &g_parameters.bss_paths, "0", "paths", "0..256", 6,
        "Paths to a peer that take part in batch-based striping and sorting (bss); 0: all."},
    opal_common_adaptib_parameter_t{
        "bss_batch", kInt, &g_parameters.bss_batch, "0", "paths", "0..256", 6,
        "Paths that carry one message (bss): those of bss_paths that proved fastest; 0: half of them."},
    opal_common_adaptib_parameter_t{
        "paths_per_port", kInt, &g_parameters.paths_per_port, "0", "paths", "0..16", 4,
        "Paths that are used between two ports, where there are several: the LIDs of a port on InfiniBand "
        "(2^LMC), flow labels on RoCE. A further path is a queue pair more for each connection, and pays "
        "where routes of one path collide; the default policy uses it only then. To one peer there are at "
        "most 16 over all ports. 0: the LIDs that there are, but no more than 8; one label."},
    opal_common_adaptib_parameter_t{
        "connect", kString, &g_parameters.connect, "on_demand", "", "on_demand|partial|static", 4,
        "Which processes are connected at the start of the job: none (on_demand), those whose ranks "
        "are a power of two apart (partial), or all (static). Others follow on demand."},
    opal_common_adaptib_parameter_t{
        "connect_method", kString, &g_parameters.connect_method, "datagrams", "",
        "datagrams|rdma_cm", 4,
        "How the queue pairs of two connected processes find each other over RDMA devices: by what the two "
        "tell each other in datagrams (datagrams), or through rdma_cm (rdma_cm), which has the subnet or IP "
        "resolve the path; then each device needs an IP address, and all processes the same choice."},
    opal_common_adaptib_parameter_t{
        "connect_threshold", kInt, &g_parameters.connect_threshold, "16", "messages",
        "0..1000000000", 4,
        "A peer gets a connection and a ring of its own after this many messages to it, or at once "
        "for a message above what one datagram carries; until then messages share one queue."},
    opal_common_adaptib_parameter_t{
        "connect_max", kInt, &g_parameters.connect_max, "0", "connections", "0..65536", 4,
        "At most this many peers are connected at the same time; 0: as many as the device takes. For "
        "another one the connection that was idle longest is closed; while none is idle, messages of "
        "all sizes go through the shared queue."},
    opal_common_adaptib_parameter_t{
        "connect_pool", kInt, &g_parameters.connect_pool, "128", "connections", "0..65536", 5,
        "Queue pairs and rings of so many closed connections are kept, and used when the same peer is "
        "connected again, instead of making new ones; 0: of none, and where connect_max moves connections from "
        "peer to peer each is made anew. What there is no room for is given up, the longest closed first."},
    opal_common_adaptib_parameter_t{
        "dc_initiators", kInt, &g_parameters.dc_initiators, "8", "initiators", "1..64", 5,
        "So many dynamically connected queue pairs of each port carry what goes to all peers that have no "
        "queue pair of their own (channel_policy), and as many receive from these. More of them connect "
        "and disconnect less often and wait less for each other, fewer stay in the adapter's cache."},
    opal_common_adaptib_parameter_t{
        "channel_policy", kString, &g_parameters.channel_policy, "aqps", "",
        "aqps|rc_on_demand|dc_on_demand|ud|fixed:shared_sendrecv|fixed:shared_ring|fixed:rc_ring",
        4,
        "Who is connected when there is no room for all (connect_max, the device): the busiest, looked "
        "for every channel_period (aqps), or who came first and is not idle (rc_on_demand). With ud or "
        "fixed:shared_sendrecv small messages use the shared queue always, and only large ones and "
        "one-sided operations connect; with fixed:rc_ring the first message connects. dc_on_demand and "
        "fixed:shared_ring are the same as rc_on_demand and fixed:rc_ring over dynamically connected queue "
        "pairs, which a process needs few of (dc_initiators); where there are none small messages use the "
        "shared queue, and a message says so. aqps uses them for peers that connect_max has no room for."},
    opal_common_adaptib_parameter_t{"channel_period", kInt, &g_parameters.channel_period, "1000",
                                    "milliseconds", "1..3600000", 5,
                                    "How often the busiest peers are looked for (aqps)."},
    opal_common_adaptib_parameter_t{
        "channel_costs", kString, &g_parameters.channel_costs, "measured", "",
        "measured|connect-ib", 5,
        "By which costs aqps chooses: those of this machine, timed now and then while messages arrive "
        "(measured), or those that were published for Connect-IB adapters (connect-ib), which also stand "
        "for what was not timed yet."},
    opal_common_adaptib_parameter_t{
        "ring_bytes", kSize, &g_parameters.ring_bytes, "262144", "bytes", "4096..16777216", 4,
        "A ring's size: the messages of one connected peer that are under way. Within a host it has "
        "memory as far as it is used. A multiple of 64, and at least twice eager_limit plus 256."},
    opal_common_adaptib_parameter_t{
        "verbs_ring_bytes", kSize, &g_parameters.verbs_ring_bytes, "131072", "bytes",
        "4096..16777216", 4,
        "The same for peers that are reached over RDMA devices, where this memory is locked. A multiple of 64."},
    opal_common_adaptib_parameter_t{
        "ring_max", kInt, &g_parameters.ring_max, "256", "rings", "0..65536", 5,
        "At most this many peers write into rings of their own; further peers share the queue, "
        "which costs no memory per peer. 0: all do, as with channel_policy ud."},
    opal_common_adaptib_parameter_t{
        "idle_looks", kInt, &g_parameters.idle_looks, "16", "looks", "0..100000", 5,
        "A call for progress that finds nothing looks into the rings so often again before it returns, all of them "
        "together, since a message that comes meanwhile is there sooner. 0: not again, as in a process that gives its "
        "processor up then (mpi_yield_when_idle) or whose threads call MPI at the same time."},
    opal_common_adaptib_parameter_t{
        "block_bytes", kSize, &g_parameters.block_bytes, "65536", "bytes", "1024..16777216", 5,
        "Non-contiguous data is packed and unpacked in a pipeline of blocks of this size."},
    opal_common_adaptib_parameter_t{
        "block_depth", kInt, &g_parameters.block_depth, "4", "blocks", "1..64", 6,
        "Blocks of one message that are packed or under way at the same time."},
    opal_common_adaptib_parameter_t{
        "registration_cache", kSize, &g_parameters.registration_cache, "1073741824", "bytes",
        "0..1099511627776", 4,
        "Buffers stay registered with RDMA devices after use, up to this many bytes, where Open MPI can "
        "tell of memory that is unmapped; 0: each transfer registers anew. Counts as locked memory."},
    opal_common_adaptib_parameter_t{
        "fabric", kString, &g_parameters.fabric, "auto", "", "auto|both|shm|verbs", 2,
        "What carries the traffic: shared memory within a host and RDMA devices between hosts (both), "
        "the same but without devices where none can be used or all processes of the job run on one "
        "host (auto), shared memory alone (shm), or devices alone, within a host as well (verbs)."},
    opal_common_adaptib_parameter_t{
        "if_include", kString, &g_parameters.if_include, "all", "", "all|device[:port],...", 3,
        "The RDMA devices or ports to use, a list like mlx_a,mlx_b:1, in the order in which rails are "
        "numbered; all takes every active port of InfiniBand or RoCE, the nearest to the process "
        "first. device[:port],... may name what differs from host to host."},
    opal_common_adaptib_parameter_t{
        "if_exclude", kString, &g_parameters.if_exclude, "none", "", "none|device[:port],...", 3,
        "The RDMA devices or ports not to use, as in if_include: device[:port],... or none. One of "
        "the two lists can be given."},
    opal_common_adaptib_parameter_t{
        "gid_index", kInt, &g_parameters.gid_index, "-1", "index", "-1..255", 4,
        "RoCE: which entry of a port's GID table it speaks with; negative takes an IPv4 address over "
        "a global and that over a link-local one, of those with routable RoCE."},
    opal_common_adaptib_parameter_t{
        "partition", kInt, &g_parameters.partition, "0", "P_Key", "0..65535", 4,
        "InfiniBand: the partition that ports speak in, for example 0x8001 (0: the first of a port's "
        "table)."},
    opal_common_adaptib_parameter_t{
        "service_level", kInt, &g_parameters.service_level, "0", "level", "0..15", 5,
        "The service level (InfiniBand) or priority of what RDMA devices send."},
    opal_common_adaptib_parameter_t{
        "traffic_class", kInt, &g_parameters.traffic_class, "0", "class", "0..255", 5,
        "The traffic class that RDMA devices write into the global header of what they send; for RoCE "
        "that is DSCP and ECN of IP."},
    opal_common_adaptib_parameter_t{
        "shm_single_copy", kString, &g_parameters.shm_single_copy, "auto", "", "auto|cma|none", 3,
        "How large messages cross between processes of one host: cma copies once, by the kernel's "
        "cross-memory attach, and fails where that is forbidden; none copies through shared memory; "
        "auto uses cma where the kernel allows it."},
    opal_common_adaptib_parameter_t{
        "shm_rails", kInt, &g_parameters.shm_rails, "1", "rails", "1..8", 6,
        "Virtual rails over shared memory, each of which adaptib_rails can take down, slow down or "
        "bring back while a job runs."},
    opal_common_adaptib_parameter_t{
        "shm_queue_bytes", kSize, &g_parameters.shm_queue_bytes, "262144", "bytes",
        "65536..67108864", 5,
        "Memory of the one queue of a process that all its unconnected local peers share. A power "
        "of two."},
    opal_common_adaptib_parameter_t{
        "shm_segment_max", kSize, &g_parameters.shm_segment_max, "268435456", "bytes",
        "16777216..17179869184", 5,
        "A process's shared-memory segment grows with its traffic up to this size."},
    opal_common_adaptib_parameter_t{
        "unexpected_memory", kSize, &g_parameters.unexpected_memory, "0", "bytes",
        "0..1099511627776", 4,
        "Memory for messages that no receive was posted for yet, in each process, with the MTL. A "
        "peer whose messages take half of it, or that has any where all is taken, announces its "
        "messages or holds them back until enough is received. 0: one sixteenth of the node's "
        "memory, or of what a control group allows, divided by the job's processes on the node, "
        "within bounds that suit most."},
    opal_common_adaptib_parameter_t{
        "shm_memory", kSize, &g_parameters.shm_memory, "0", "bytes", "0..17179869184", 4,
        "Memory that a process's shared-memory segment may have before its rings stop growing and "
        "further peers share the queue. 0: one sixteenth of the node's memory, or of what a control "
        "group allows, divided by the job's processes on the node. Raise it where memory is to "
        "spare and the counter send_stalls is high."},
    opal_common_adaptib_parameter_t{
        "apm", kString, &g_parameters.apm, "auto", "", "auto|on|off", 5,
        "Automatic path migration: queue pairs go over to an alternate path by themselves when theirs "
        "fails, to the other port of their adapters or another LID of the same. Where devices have it "
        "(auto), the same and a message where none has (on), or not (off)."},
    opal_common_adaptib_parameter_t{
        "fault_tolerance", kString, &g_parameters.fault_tolerance, "on", "", "on|off", 3,
        "Whether a connection is made anew when a path of it fails, over the others and over the failed "
        "one when it is back, and what was in doubt is sent again (on); or requests to that peer end "
        "with an error (off). Paths that have failed are asked in the background whether they are back."},
    opal_common_adaptib_parameter_t{
        "failure_timeout", kInt, &g_parameters.failure_timeout, "1000", "milliseconds",
        "20..3600000", 4,
        "A path is taken for failed when its queue pair completes nothing of what was posted for so long, and the "
        "peer answers over other paths, but not over this one; and when a device does not even say for so long "
        "that a datagram has been sent. A path that answers may be slow: it is given eight times as long, "
        "and more for what is long. Who is told of a failure by the device does not wait."},
    opal_common_adaptib_parameter_t{
        "answer_timeout", kInt, &g_parameters.answer_timeout, "1000", "milliseconds", "1..1000000",
        5,
        "How long an RDMA device waits for an answer before it sends again, rounded up to what devices "
        "know, each step of which is twice the one before. Over soft-RoCE a host with more processes "
        "than processors may not answer for longer than a tenth of a second."},
    opal_common_adaptib_parameter_t{
        "answer_retries", kInt, &g_parameters.answer_retries, "6", "retries", "0..7", 5,
        "How often an RDMA device sends again what is not answered, before it gives the path up. Some "
        "devices (soft-RoCE) take the most for without end; failure_timeout does not wait for that."},
    opal_common_adaptib_parameter_t{
        "partition_timeout", kInt, &g_parameters.partition_timeout, "300", "s", "0..2147483", 3,
        "A peer of another host for which something waits, and of which nothing has been "
        "heard for so long, is given up: its requests end with an error. A process that "
        "computes answers nothing itself; the responder that it has beside (a thread, where "
        "there are RDMA devices) answers for it, so that it is waited for as long as it "
        "lives. A process of the same host is given up once it has ended, and not before. 0: "
        "never."},
    opal_common_adaptib_parameter_t{
        "source_map", kString, &g_parameters.source_map, "none", "", "none|path...", 4,
        "Where each process writes, at its end, how many messages came from each other one over time: to the "
        "file path..., a dot and its rank (none: nowhere). test/study/sources draws it."},
    opal_common_adaptib_parameter_t{
        "report", kBool, &g_parameters.report, "false", "", "true|false", 2,
        "At the end of the job each process writes what carried how many messages and bytes."},
};

void set_default(const opal_common_adaptib_parameter_t& row, void* storage) {
    const std::string_view text = row.default_text;
    switch (row.type) {
    case kBool: *static_cast<bool*>(storage) = text == "true"; break;
    case kInt: std::from_chars(text.begin(), text.end(), *static_cast<int*>(storage)); break;
    case kSize:
        std::from_chars(text.begin(), text.end(), *static_cast<std::size_t*>(storage));
        break;
    case kDouble: *static_cast<double*>(storage) = std::strtod(row.default_text, nullptr); break;
    case kString: *static_cast<char**>(storage) = const_cast<char*>(row.default_text); break;
    }
}

// The value of `row` inside `values`, which has the layout of the process's own.
const void* value_of(const opal_common_adaptib_parameter_t& row, const Parameters& values) {
    const auto offset =
        static_cast<const char*>(row.storage) - reinterpret_cast<const char*>(&g_parameters);
    return reinterpret_cast<const char*>(&values) + offset;
}

std::string value_text(const opal_common_adaptib_parameter_t& row, const void* value) {
    switch (row.type) {
    case kBool: return *static_cast<const bool*>(value) ? "true" : "false";
    case kInt: return std::to_string(*static_cast<const int*>(value));
    case kSize: return std::to_string(*static_cast<const std::size_t*>(value));
    case kDouble: return std::to_string(*static_cast<const double*>(value));
    case kString: {
        const char* text = *static_cast<char* const*>(value);
        return text == nullptr ? "" : text;
    }
    }
    return "";
}

// A choice that ends with "..." shows the form of a list; whoever uses it checks it.
bool one_of(std::string_view choices, std::string_view word) {
    while (!choices.empty()) {
        const std::size_t end = std::min(choices.find('|'), choices.size());
        const std::string_view choice = choices.substr(0, end);
        if (choice == word || (choice.ends_with("...") && !word.empty())) {
            return true;
        }
        choices.remove_prefix(std::min(end + 1, choices.size()));
    }
    return false;
}

// Numbers as long double hold every int and every size_t exactly on x86-64 and well enough elsewhere.
bool in_range(const opal_common_adaptib_parameter_t& row, const void* value) {
    const std::string text = value_text(row, value);
    const std::string_view range = row.range;
    if (row.type == kString || row.type == kBool) {
        return one_of(range, text);
    }
    const std::size_t dots = range.find("..");
    const long double number = std::strtold(text.c_str(), nullptr);
    const long double low = std::strtold(row.range, nullptr);
    const long double high = std::strtold(row.range + dots + 2, nullptr);
    return low <= number && number <= high;
}

std::string refusal(const std::string& name, const std::string& value, const std::string& why) {
    return "The parameter opal_common_adaptib_" + name + " has the value \"" + value +
           "\", which " + why;
}

bool check_pairs(const Parameters& values, std::string& text) {
    for (const auto& [name, bytes] : {std::pair{"ring_bytes", values.ring_bytes},
                                      std::pair{"verbs_ring_bytes", values.verbs_ring_bytes}}) {
        if (bytes % kCacheLine != 0) {
            text = refusal(name, std::to_string(bytes),
                           "is not a multiple of 64. Choose one that is, for example 131072.");
            return false;
        }
    }
    const Bytes eager_limit = first_eager_limit(values);
    if (values.ring_bytes < 2 * (eager_limit + 2 * kCacheLine)) {
        text = refusal("ring_bytes", std::to_string(values.ring_bytes),
                       "is less than twice opal_common_adaptib_eager_limit (" +
                           std::to_string(eager_limit) +
                           ") plus 256 bytes. Enlarge ring_bytes or lower eager_limit.");
        return false;
    }
    if ((values.shm_queue_bytes & (values.shm_queue_bytes - 1)) != 0) {
        text = refusal("shm_queue_bytes", std::to_string(values.shm_queue_bytes),
                       "is not a power of two. Choose one that is, for example 262144.");
        return false;
    }
    if (values.bss_paths > 0 && values.bss_batch > values.bss_paths) {
        text = refusal("bss_batch", std::to_string(values.bss_batch),
                       "is more than opal_common_adaptib_bss_paths (" +
                           std::to_string(values.bss_paths) +
                           "). Lower bss_batch or raise bss_paths.");
        return false;
    }
    constexpr Bytes kFixedPart = 8 * kMiB; // of a segment: tables and bounce memory
    if (values.shm_segment_max < kFixedPart + 2 * (values.shm_queue_bytes + values.ring_bytes)) {
        text = refusal(
            "shm_segment_max", std::to_string(values.shm_segment_max),
            "has no room for 8388608 bytes of tables, and the shared queue "
            "(shm_queue_bytes) and a ring (ring_bytes) twice over. Enlarge shm_segment_max, or lower the others.");
        return false;
    }
    return true;
}

} // namespace

std::size_t first_eager_limit(const Parameters& values) {
    constexpr Bytes kFirst = 4096;
    return values.eager_limit >= 0
               ? static_cast<Bytes>(values.eager_limit)
               : std::min<Bytes>(kFirst, values.ring_bytes / 2 - 2 * kCacheLine);
}

Parameters default_parameters() {
    Parameters values{};
    for (const auto& row : kTable) {
        set_default(row, const_cast<void*>(value_of(row, values)));
    }
    return values;
}

Parameters& process_parameters() {
    if (!g_defaults_set) {
        g_defaults_set = true;
        g_parameters = default_parameters();
        for (const auto& row : kTable) {
            if (row.type == kString) {
                *static_cast<char**>(row.storage) = strdup(row.default_text);
            }
        }
    }
    return g_parameters;
}

std::span<const opal_common_adaptib_parameter_t> parameter_table() {
    process_parameters();
    return kTable;
}

bool check_parameters(const Parameters& values, std::string& text) {
    for (const auto& row : kTable) {
        const void* value = value_of(row, values);
        if (!in_range(row, value)) {
            const std::string unit = row.unit[0] == '\0' ? "" : std::string(" ") + row.unit;
            text =
                refusal(row.name, value_text(row, value),
                        "is not allowed. Allowed: " + std::string(row.range) + unit +
                            "; default: " + row.default_text + ". Correct it where it is set " +
                            "(mpirun --mca, OMPI_MCA_* in the environment, or mca-params.conf).");
            return false;
        }
    }
    return check_pairs(values, text);
}

} // namespace adaptib
