// SPDX-License-Identifier: BSD-3-Clause
// The counter table, its pages and the readable report (stats/counters.h, stats/live_counters.h).
#include "stats/counters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdio>

#include "base/file_limit.h"
#include "base/process_name.h"
#include "stats/live_counters.h"

namespace adaptib {

namespace {

// On pages of their own, which endpoints that do not exist never touch.
struct alignas(kLivePage) OfEndpoint {
    Counters counters;
};
struct alignas(kLivePage) Pages {
    LiveHeader header;
    std::array<OfEndpoint, kMaxEndpoints> endpoints;
};
static_assert(sizeof(OfEndpoint) == kLivePage && sizeof(Pages) == kLiveBytes);
Pages g_pages;
constexpr std::array<OfEndpoint, kMaxEndpoints>& g_counters = g_pages.endpoints;

constexpr std::array kTable{
#define ADAPTIB_ROW(name, unit, kind, level, help)                                                 \
    opal_common_adaptib_counter_t{                                                                 \
        #name, unit, help, OPAL_COMMON_ADAPTIB_##kind, level, &g_counters[0].counters.name},
    ADAPTIB_COUNTERS(ADAPTIB_ROW)
#undef ADAPTIB_ROW
};

std::string line(const char* what, std::uint64_t first, std::uint64_t second) {
    char text[128];
    std::snprintf(text, sizeof text, "  %-28s %12" PRIu64 " %16" PRIu64 "\n", what, first, second);
    return text;
}

std::string head(const char* what, const char* first, const char* second) {
    char text[128];
    std::snprintf(text, sizeof text, "  %-28s %12s %16s\n", what, first, second);
    return text;
}

double nanoseconds(std::uint64_t picoseconds) { return static_cast<double>(picoseconds) / 1000; }

std::string connections_report(const Counters& c) {
    const std::uint64_t timed = std::max<std::uint64_t>(c.connections_timed, 1);
    std::string report = head("connections", "requested", "accepted");
    report += line("made", c.connections_requested, c.connections_accepted);
    char text[320];
    std::snprintf(text, sizeof text,
                  "  refused %" PRIu64 ", requested again %" PRIu64 ", closed for room %" PRIu64
                  ", yielded in use %" PRIu64 ", broken %" PRIu64 "\n"
                  "  kept for reuse %" PRIu64 ", reused %" PRIu64 "\n"
                  "  searches for the busiest %" PRIu64 ", changed %" PRIu64 "\n",
                  c.connections_refused, c.connections_retried, c.connections_closed,
                  c.connections_yielded, c.connections_failed, c.connections_kept,
                  c.connections_reused, c.selections, c.selections_changed);
    report += text;
    std::snprintf(
        text, sizeof text,
        "  ns, %s: a ring saves %.1f per message, an empty poll costs %.1f, a credit return %.1f\n",
        c.cost_samples > 0 ? "measured" : "from the model connect-ib",
        nanoseconds(c.cost_ring_saves), nanoseconds(c.cost_poll), nanoseconds(c.cost_credit));
    report += c.cost_poll + c.cost_credit > 0 ? text : "";
    report += head("", "at the end", "most");
    report += line("open", c.connections_open, c.connections_most);
    report += line("their queue pairs", c.queue_pairs, c.queue_pairs_most);
    std::snprintf(text, sizeof text,
                  "  over initiators that peers share: %" PRIu64 "; initiators %" PRIu64
                  ", replaced %" PRIu64 "\n",
                  c.connections_shared, c.initiators, c.initiators_replaced);
    report += c.initiators > 0 ? text : "";
    std::snprintf(text, sizeof text, "  paths of one connection, at most: %" PRIu64 "\n",
                  c.paths_most);
    report += text;
    std::snprintf(text, sizeof text,
                  "  alternate paths armed %" PRIu64 ", migrations %" PRIu64
                  ", failed migrations %" PRIu64 "\n",
                  c.alternate_paths_armed, c.path_migrations, c.path_migrations_failed);
    report += text;
    report += head("", "number", "bytes");
    report += line("queue pairs", c.queue_pairs, c.queue_pairs_bytes);
    report += line("buffers", c.buffers, c.buffers_bytes);
    report += head("", "mean", "longest");
    return report +
           line("ns to connect", c.connect_nanoseconds / timed, c.connect_nanoseconds_most);
}

} // namespace

Counters& endpoint_counters(std::uint32_t endpoint) { return g_counters[endpoint].counters; }

std::span<const opal_common_adaptib_counter_t> counter_table() { return kTable; }

std::uint64_t live_table_key() {
    std::uint64_t key = 0xcbf29ce484222325; // FNV-1a of all names
    for (const auto& row : kTable) {
        for (const char* c = row.name; *c != '\0'; ++c) {
            key = (key ^ static_cast<unsigned char>(*c)) * 0x100000001b3;
        }
        key = (key ^ ',') * 0x100000001b3;
    }
    return key;
}

bool share_counters(std::uint64_t name) {
    if (g_pages.header.magic != 0) {
        return true;
    }
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const bool whole_pages =
        reinterpret_cast<std::uintptr_t>(&g_pages) % page == 0 && kLiveBytes % page == 0;
    if (!whole_pages || kLiveBytes > file_limit()) {
        return false;
    }
    const int fd = memfd_create(kLiveCountersFile, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const auto head = static_cast<ssize_t>(live_counters_offset(1)); // others hold zeros so far
    const bool there = fd >= 0 && ftruncate(fd, static_cast<off_t>(kLiveBytes)) == 0 &&
                       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
                       pwrite(fd, &g_pages, static_cast<std::size_t>(head), 0) == head &&
                       mmap(&g_pages, kLiveBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            fd, 0) != MAP_FAILED;
    if (!there) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    publish(g_pages.header, live_table_key(), name, static_cast<std::uint32_t>(getpid()));
    return true; // the descriptor stays open: others find the file by it
}

std::uint64_t live_value(const std::byte* pages, std::size_t row) {
    std::uint64_t value = 0;
    for (std::uint32_t endpoint = 0; endpoint < kMaxEndpoints; ++endpoint) {
        const auto* values =
            reinterpret_cast<const std::uint64_t*>(pages + live_counters_offset(endpoint));
        const std::uint64_t its = __atomic_load_n(values + row, __ATOMIC_RELAXED);
        value = kTable[row].kind == OPAL_COMMON_ADAPTIB_VALUE ? std::max(value, its) : value + its;
    }
    return value;
}

std::uint64_t process_value(const opal_common_adaptib_counter_t& row) {
    const auto place = row.value - reinterpret_cast<const std::uint64_t*>(&g_counters[0]);
    return live_value(reinterpret_cast<const std::byte*>(&g_pages),
                      static_cast<std::size_t>(place));
}

std::string traffic_report(const Counters& c, const std::string& who) {
    std::string report =
        "adaptib report of " + who + "\n" + head("carried by", "messages", "bytes");
    report += line("shared queue, sent", c.datagram_sent, c.datagram_sent_bytes);
    report += line("rings, sent", c.ring_sent, c.ring_sent_bytes);
    report += line("RDMA reads", c.rdma_read, c.rdma_read_bytes);
    report += line("RDMA writes", c.rdma_write, c.rdma_write_bytes);
    report += line("remote atomics", c.rdma_atomic, 8 * c.rdma_atomic);
    report += line("to itself", c.self_sent, c.self_sent_bytes);
    char text[448];
    std::snprintf(text, sizeof text,
                  "  peers %" PRIu64 ", unexpected messages %" PRIu64 ", stalled sends %" PRIu64
                  ", fragments %" PRIu64 ", bad packets %" PRIu64 ", eager limit %" PRIu64 "\n"
                  "  peers told to hold messages back %" PRIu64 ", messages held back here %" PRIu64
                  "\n",
                  c.peers, c.unexpected, c.send_stalls, c.fragments_sent, c.bad_packets,
                  c.eager_limit_bytes, c.peers_restrained, c.sends_queued);
    return report + text + connections_report(c);
}

} // namespace adaptib
