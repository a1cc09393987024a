// SPDX-License-Identifier: BSD-3-Clause
// The counter table and the readable report (observe/counters.h).
#include "observe/counters.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace adaptib {

namespace {

Counters g_counters;

constexpr std::array kTable{
#define ADAPTIB_ROW(name, unit, kind, level, help)                                                 \
    opal_common_adaptib_counter_t{#name,           unit, help, OPAL_COMMON_ADAPTIB_##kind, level,  \
                                  &g_counters.name},
    ADAPTIB_COUNTERS(ADAPTIB_ROW)
#undef ADAPTIB_ROW
};

std::string line(const char* what, std::uint64_t messages, std::uint64_t bytes) {
    char text[128];
    std::snprintf(text, sizeof text, "  %-28s %12" PRIu64 " %16" PRIu64 "\n", what, messages,
                  bytes);
    return text;
}

} // namespace

Counters& process_counters() { return g_counters; }

std::span<const opal_common_adaptib_counter_t> counter_table() { return kTable; }

std::string traffic_report(const Counters& c, const std::string& who) {
    char text[256];
    std::snprintf(text, sizeof text, "adaptib report of %s\n  %-28s %12s %16s\n", who.c_str(),
                  "carried by", "messages", "bytes");
    std::string report = text;
    report += line("shared queue, sent", c.datagram_sent, c.datagram_sent_bytes);
    report += line("rings, sent", c.ring_sent, c.ring_sent_bytes);
    report += line("RDMA reads", c.rdma_read, c.rdma_read_bytes);
    report += line("RDMA writes", c.rdma_write, c.rdma_write_bytes);
    report += line("remote atomics", c.rdma_atomic, 8 * c.rdma_atomic);
    report += line("to itself", c.self_sent, c.self_sent_bytes);
    std::snprintf(text, sizeof text,
                  "  peers %" PRIu64 ", connections opened %" PRIu64 " + accepted %" PRIu64
                  ", unexpected messages %" PRIu64 ", stalled sends %" PRIu64
                  ", bad packets %" PRIu64 "\n",
                  c.peers, c.connections_requested, c.connections_accepted, c.unexpected,
                  c.send_stalls, c.bad_packets);
    return report + text;
}

} // namespace adaptib
