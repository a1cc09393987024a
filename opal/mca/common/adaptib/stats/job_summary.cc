// SPDX-License-Identifier: BSD-3-Clause
#include "stats/job_summary.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include "base/process_name.h"
#include "stats/counters.h"

namespace adaptib {

namespace {

constexpr int kTrouble = 3; // counters of this level and below point to trouble

// Returns the number of the row; that of no row if there is none of that name.
std::size_t row_of(std::string_view name) {
    const auto table = counter_table();
    const auto found = std::find_if(table.begin(), table.end(),
                                    [name](const auto& row) { return name == row.name; });
    return static_cast<std::size_t>(found - table.begin());
}

std::uint64_t value_of(const ProcessReport& report, std::size_t row) {
    return row < report.values.size() ? report.values[row] : 0;
}

std::uint64_t sum_of(std::span<const ProcessReport> reports, std::size_t row) {
    std::uint64_t sum = 0;
    for (const ProcessReport& report : reports) {
        sum += value_of(report, row);
    }
    return sum;
}

std::string process_text(const ProcessReport& report) {
    return "process " + rank_text(report.name) + " on " + report.host;
}

std::string plural(std::uint64_t count, const char* one, const char* several) {
    return std::to_string(count) + " " + (count == 1 ? one : several);
}

std::string first_line(std::span<const ProcessReport> reports, std::uint32_t processes) {
    std::set<std::string> hosts;
    for (const ProcessReport& report : reports) {
        hosts.insert(report.host);
    }
    const auto known = static_cast<std::uint32_t>(reports.size());
    std::string text = "adaptib summary of the job: " + plural(known, "process", "processes") +
                       " on " + plural(hosts.size(), "host", "hosts");
    if (processes > known) {
        text += "; no report came from " + plural(processes - known, "process", "processes");
    }
    return text + "\n";
}

struct Carrier {
    const char* title;
    const char* messages; // counters
    const char* bytes;
};
constexpr std::array kCarriers{
    Carrier{"shared queues", "datagram_sent", "datagram_sent_bytes"},
    Carrier{"rings", "ring_sent", "ring_sent_bytes"},
    Carrier{"RDMA reads", "rdma_read", "rdma_read_bytes"},
    Carrier{"RDMA writes", "rdma_write", "rdma_write_bytes"},
    Carrier{"remote atomics", "rdma_atomic", ""},
    Carrier{"to themselves", "self_sent", "self_sent_bytes"},
};

std::string carriers_text(std::span<const ProcessReport> reports) {
    constexpr std::uint64_t kAtomicBytes = 8;
    char line[128];
    std::array<std::uint64_t, kCarriers.size()> messages{};
    std::array<std::uint64_t, kCarriers.size()> bytes{};
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < kCarriers.size(); ++i) {
        messages[i] = sum_of(reports, row_of(kCarriers[i].messages));
        bytes[i] = kCarriers[i].bytes[0] == '\0' ? kAtomicBytes * messages[i]
                                                 : sum_of(reports, row_of(kCarriers[i].bytes));
        all += bytes[i];
    }
    std::snprintf(line, sizeof line, "  %-28s %14s %18s %8s\n", "carried by", "messages", "bytes",
                  "share");
    std::string text = line;
    for (std::size_t i = 0; i < kCarriers.size(); ++i) {
        const double share =
            all == 0 ? 0 : 100 * static_cast<double>(bytes[i]) / static_cast<double>(all);
        std::snprintf(line, sizeof line, "  %-28s %14" PRIu64 " %18" PRIu64 " %6.1f %%\n",
                      kCarriers[i].title, messages[i], bytes[i], share);
        text += line;
    }
    return text;
}

struct Spread {
    const char* title;
    std::array<const char*, 2> counters; // summed
};
constexpr std::array kSpreads{
    Spread{"messages sent", {"datagram_sent", "ring_sent"}},
    Spread{"bytes sent in messages", {"datagram_sent_bytes", "ring_sent_bytes"}},
    Spread{"bytes read and written", {"rdma_read_bytes", "rdma_write_bytes"}},
    Spread{"unexpected messages", {"unexpected", ""}},
    Spread{"connections, at most", {"connections_most", ""}},
};

std::string spreads_text(std::span<const ProcessReport> reports) {
    char line[160];
    std::snprintf(line, sizeof line, "  %-28s %14s %18s %18s\n", "per process", "least", "median",
                  "most");
    std::string text = line;
    for (const Spread& spread : kSpreads) {
        const std::size_t first = row_of(spread.counters[0]);
        const std::size_t second = row_of(spread.counters[1]);
        std::vector<std::pair<std::uint64_t, const ProcessReport*>> values;
        for (const ProcessReport& report : reports) {
            values.emplace_back(value_of(report, first) + value_of(report, second), &report);
        }
        std::sort(values.begin(), values.end());
        std::snprintf(line, sizeof line, "  %-28s %14" PRIu64 " %18" PRIu64 " %18" PRIu64,
                      spread.title, values.front().first, values[values.size() / 2].first,
                      values.back().first);
        text += line;
        text += values.front().first < values.back().first
                    ? " (" + process_text(*values.back().second) + ")\n"
                    : "\n";
    }
    return text;
}

std::string troubles_text(std::span<const ProcessReport> reports) {
    std::string text;
    const auto table = counter_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto& row = table[i];
        const std::uint64_t sum = sum_of(reports, i);
        if (row.level > kTrouble || row.kind != OPAL_COMMON_ADAPTIB_COUNTER || sum == 0) {
            continue;
        }
        const auto most =
            std::max_element(reports.begin(), reports.end(), [&](const auto& a, const auto& b) {
                return value_of(a, i) < value_of(b, i);
            });
        text += "    " + std::string(row.name) + ": " + std::to_string(sum) + " " + row.unit +
                ", most in " + process_text(*most) + " (" + std::to_string(value_of(*most, i)) +
                "). " + row.help + "\n";
    }
    return text.empty() ? "  no failures\n" : "  worth a look\n" + text;
}

} // namespace

std::string job_summary(std::span<const ProcessReport> reports, std::uint32_t processes) {
    std::string text = first_line(reports, processes);
    return reports.empty()
               ? text
               : text + carriers_text(reports) + spreads_text(reports) + troubles_text(reports);
}

} // namespace adaptib
