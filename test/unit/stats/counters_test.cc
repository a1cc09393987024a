// SPDX-License-Identifier: BSD-3-Clause
// Counters: one row for each, which points at the process's own values; the report shows the
// numbers.
#include "stats/counters.h"

#include "base/process_name.h"
#include "stats/live_counters.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

namespace adaptib {
namespace {

using Row = opal_common_adaptib_counter_t;

constexpr std::size_t kCount = offsetof(Counters, trace) / sizeof(std::uint64_t);

TEST(Counters, EveryCounterHasARowOverItsLiveValue) {
    const auto* base = reinterpret_cast<const std::uint64_t*>(&process_counters());
    ASSERT_EQ(counter_table().size(), kCount);
    std::set<const std::uint64_t*> values;
    for (const Row& row : counter_table()) {
        EXPECT_TRUE(base <= row.value && row.value < base + kCount) << row.name;
        EXPECT_TRUE(values.insert(row.value).second) << row.name;
    }
    const Counters before = process_counters();
    process_counters().rdma_read_bytes += 12345;
    bool found = false;
    for (const Row& row : counter_table()) {
        if (std::strcmp(row.name, "rdma_read_bytes") == 0) {
            found = true;
            EXPECT_EQ(*row.value, before.rdma_read_bytes + 12345);
        }
    }
    EXPECT_TRUE(found);
    process_counters() = before;
}

TEST(Counters, OfAProcessAreThoseOfItsEndpoints) {
    const auto row_of = [](const std::string& name) {
        for (const Row& row : counter_table()) {
            if (name == row.name) {
                return &row;
            }
        }
        return static_cast<const Row*>(nullptr);
    };
    ASSERT_NE(row_of("ring_sent"), nullptr);
    ASSERT_NE(row_of("eager_limit_bytes"), nullptr);
    const Counters first = endpoint_counters(0);
    const Counters last = endpoint_counters(kMaxEndpoints - 1);
    endpoint_counters(0).ring_sent = 3;
    endpoint_counters(kMaxEndpoints - 1).ring_sent = 40;
    endpoint_counters(0).eager_limit_bytes = 4096;
    endpoint_counters(kMaxEndpoints - 1).eager_limit_bytes = 8192;
    EXPECT_EQ(process_value(*row_of("ring_sent")), 43u);
    EXPECT_EQ(process_value(*row_of("eager_limit_bytes")), 8192u);
    endpoint_counters(0) = first;
    endpoint_counters(kMaxEndpoints - 1) = last;
}

TEST(Counters, NamesAndHelpTextsAreUniqueAndComplete) {
    std::set<std::string> names;
    std::set<std::string> helps;
    for (const Row& row : counter_table()) {
        SCOPED_TRACE(row.name);
        const std::string name = row.name;
        const std::string help = row.help;
        EXPECT_TRUE(names.insert(name).second);
        EXPECT_TRUE(helps.insert(help).second) << help;
        EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"),
                  std::string::npos);
        ASSERT_GT(help.size(), 10u);
        EXPECT_TRUE(help.front() >= 'A' && help.front() <= 'Z') << help;
        EXPECT_EQ(help.back(), '.') << help;
        EXPECT_NE(help.find(". "), std::string::npos) << help; // when to look at it
        EXPECT_STRNE(row.unit, "");
        EXPECT_GE(row.level, 1);
        EXPECT_LE(row.level, 9);
    }
}

TEST(Counters, ByteCountersAreInBytesAndCountTheirOwnEvents) {
    std::set<std::string> names;
    for (const Row& row : counter_table()) {
        names.insert(row.name);
    }
    for (const Row& row : counter_table()) {
        const std::string name = row.name;
        if (name.rfind("rail_bytes_", 0) == 0) { // by rail, of events that are counted elsewhere
            EXPECT_STREQ(row.unit, "bytes");
            continue;
        }
        const bool bytes = name.size() > 6 && name.substr(name.size() - 6) == "_bytes";
        EXPECT_EQ(std::string(row.unit) == "bytes", bytes) << name;
        if (bytes && row.kind == OPAL_COMMON_ADAPTIB_COUNTER) {
            EXPECT_EQ(names.count(name.substr(0, name.size() - 6)), 1u) << name;
        }
    }
}

// The rows of a family follow one another: MPI_T shows them as an array.
template <std::size_t kSize>
void expect_family(const std::string& name,
                   const std::array<std::uint64_t Counters::*, kSize>& members) {
    const Row* first = nullptr;
    for (const Row& row : counter_table()) {
        first = row.name == name + "0" ? &row : first;
    }
    ASSERT_NE(first, nullptr);
    for (std::size_t i = 0; i < kSize; ++i) {
        EXPECT_EQ(first[i].name, name + std::to_string(i));
        EXPECT_EQ(first[i].value, &(process_counters().*members[i]));
    }
}

TEST(Counters, FamiliesAreFoundByNumber) {
    expect_family("path_weight_", kPathWeights);
    expect_family("rail_bytes_", kRailBytes);
}

TEST(Counters, LevelsAreTheOnesThatGoUpAndDown) {
    std::set<std::string> levels;
    for (const Row& row : counter_table()) {
        if (row.kind != OPAL_COMMON_ADAPTIB_COUNTER) {
            levels.insert(row.name);
        }
    }
    for (std::size_t i = 0; i < kPathWeights.size(); ++i) {
        EXPECT_EQ(levels.erase("path_weight_" + std::to_string(i)), 1u);
    }
    EXPECT_EQ(levels, (std::set<std::string>{"unexpected_now",
                                             "unexpected_bytes",
                                             "posted_now",
                                             "connections_open",
                                             "connections_most",
                                             "connections_kept",
                                             "connect_nanoseconds_most",
                                             "queue_pairs",
                                             "queue_pairs_most",
                                             "queue_pairs_bytes",
                                             "paths_most",
                                             "buffers",
                                             "buffers_bytes",
                                             "rings_open",
                                             "peers",
                                             "registered_bytes",
                                             "frequent_known",
                                             "frequent_now",
                                             "selection_bytes",
                                             "cost_ring_saves",
                                             "cost_shared_ring_saves",
                                             "cost_poll",
                                             "cost_credit",
                                             "eager_limit_bytes",
                                             "connections_shared",
                                             "initiators"}));
}

TEST(Counters, StartAtZero) {
    const Counters fresh;
    std::uint64_t words[kCount];
    std::memcpy(words, &fresh, sizeof words);
    for (const std::uint64_t word : words) {
        EXPECT_EQ(word, 0u);
    }
}

// Returns the words of the report's line that starts with `what`.
std::string line_of(const std::string& report, const std::string& what) {
    const std::size_t begin = report.find("  " + what + " ");
    EXPECT_NE(begin, std::string::npos) << what << " in\n" << report;
    if (begin == std::string::npos) {
        return "";
    }
    const std::size_t end = report.find('\n', begin);
    std::string words;
    for (const char c : report.substr(begin, end - begin)) {
        if (c != ' ' || (!words.empty() && words.back() != ' ')) {
            words += c;
        }
    }
    return words;
}

TEST(Counters, TheReportSaysWhoAndEveryNumberInItsPlace) {
    Counters counters;
    std::uint64_t words[kCount];
    for (std::size_t i = 0; i < kCount; ++i) {
        words[i] = 1000000007 + 1000003 * i; // each one is recognizable
    }
    std::memcpy(static_cast<void*>(&counters), words, sizeof words);
    counters.rdma_write_bytes = UINT64_MAX;
    const std::string report = traffic_report(counters, "process 3 on node-17");
    EXPECT_EQ(report.find("adaptib report of process 3 on node-17\n"), 0u) << report;
    EXPECT_EQ(report.back(), '\n');
    const auto pair = [](std::uint64_t a, std::uint64_t b) {
        return " " + std::to_string(a) + " " + std::to_string(b);
    };
    const Counters& c = counters;
    EXPECT_EQ(line_of(report, "shared queue, sent"),
              "shared queue, sent" + pair(c.datagram_sent, c.datagram_sent_bytes));
    EXPECT_EQ(line_of(report, "rings, sent"), "rings, sent" + pair(c.ring_sent, c.ring_sent_bytes));
    EXPECT_EQ(line_of(report, "RDMA reads"), "RDMA reads" + pair(c.rdma_read, c.rdma_read_bytes));
    EXPECT_EQ(line_of(report, "RDMA writes"), "RDMA writes" + pair(c.rdma_write, UINT64_MAX));
    EXPECT_EQ(line_of(report, "remote atomics"),
              "remote atomics" + pair(c.rdma_atomic, 8 * c.rdma_atomic));
    EXPECT_EQ(line_of(report, "to itself"), "to itself" + pair(c.self_sent, c.self_sent_bytes));
    const auto named = [](const char* what, std::uint64_t value) {
        return std::string(what) + " " + std::to_string(value);
    };
    EXPECT_EQ(line_of(report, "made"),
              "made" + pair(c.connections_requested, c.connections_accepted));
    EXPECT_EQ(line_of(report, "open"), "open" + pair(c.connections_open, c.connections_most));
    EXPECT_EQ(line_of(report, "their queue pairs"),
              "their queue pairs" + pair(c.queue_pairs, c.queue_pairs_most));
    EXPECT_EQ(line_of(report, "queue pairs"),
              "queue pairs" + pair(c.queue_pairs, c.queue_pairs_bytes));
    EXPECT_EQ(line_of(report, "buffers"), "buffers" + pair(c.buffers, c.buffers_bytes));
    EXPECT_EQ(line_of(report, "ns to connect"),
              "ns to connect" +
                  pair(c.connect_nanoseconds / c.connections_timed, c.connect_nanoseconds_most));
    for (const std::string& part : {named("peers", c.peers),
                                    named("refused", c.connections_refused),
                                    named("requested again", c.connections_retried),
                                    named("fragments", c.fragments_sent),
                                    named("closed for room", c.connections_closed),
                                    named("yielded in use", c.connections_yielded),
                                    named("told to hold messages back", c.peers_restrained),
                                    named("messages held back here", c.sends_queued),
                                    named("broken", c.connections_failed),
                                    named("kept for reuse", c.connections_kept),
                                    named("reused", c.connections_reused),
                                    named("unexpected messages", c.unexpected),
                                    named("stalled sends", c.send_stalls),
                                    named("bad packets", c.bad_packets),
                                    named("at most:", c.paths_most),
                                    named("paths armed", c.alternate_paths_armed),
                                    named("migrations", c.path_migrations),
                                    named("failed migrations", c.path_migrations_failed),
                                    named("searches for the busiest", c.selections),
                                    named("changed", c.selections_changed)}) {
        EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
    }
}

TEST(Counters, TheLargestNumbersFitIntoTheReport) {
    Counters counters;
    std::uint64_t words[kCount];
    std::memset(words, 0xff, sizeof words);
    std::memcpy(static_cast<void*>(&counters), words, sizeof words);
    const std::string report = traffic_report(counters, "process 4294967295 on a host");
    std::size_t found = 0;
    for (std::size_t at = 0; (at = report.find("18446744073709551615", at)) != std::string::npos;
         ++at) {
        ++found;
    }
    EXPECT_EQ(found, 46u) << report;
    EXPECT_EQ(report.back(), '\n') << report;
}

// -------------------------------------------------------------------------------------------------
// The file that others watch; each test shares the counters of a process of its own

// Returns the number that the next file gets.
int next_file() {
    const int file = dup(STDERR_FILENO);
    close(file);
    return file;
}

// The watching process maps the file, and a read beyond its end would kill it.
TEST(LiveCounters, NobodyChangesTheSizeOfTheirFile) {
    const auto shared = [] {
        const int file = next_file();
        return share_counters(7) && ftruncate(file, 0) != 0 &&
               ftruncate(file, 2 * static_cast<off_t>(kLiveBytes)) != 0 &&
               fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0;
    };
    EXPECT_EXIT(std::_Exit(shared() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// The system kills who makes a file longer than its limit.
TEST(LiveCounters, WithoutRoomForTheirFileNobodyCanWatch) {
    const auto refused = [] {
        const rlimit limit{kLiveBytes - 1, kLiveBytes - 1};
        return setrlimit(RLIMIT_FSIZE, &limit) == 0 && !share_counters(7);
    };
    EXPECT_EXIT(std::_Exit(refused() ? 0 : 1), testing::ExitedWithCode(0), "");
}

// Without standard input, the file is the first.
TEST(LiveCounters, AFileThatCannotBeMappedIsClosed) {
    const auto closed = [] {
        close(STDIN_FILENO);
        const rlimit limit{4096, 4096};
        return setrlimit(RLIMIT_AS, &limit) == 0 && !share_counters(7) &&
               fcntl(STDIN_FILENO, F_GETFD) == -1;
    };
    EXPECT_EXIT(std::_Exit(closed() ? 0 : 1), testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace adaptib
