// SPDX-License-Identifier: BSD-3-Clause
// Live counters: the counters of a running process, for programs of the same user (adaptib_top).
//
// Purpose: the counters of all endpoints lie in pages of an anonymous file, which others find and
// map through /proc/PID/fd. So a job can be watched at any time, and the process does nothing for
// it. A forked child has the same pages, whose header names the parent.
// Shape: a page with a LiveHeader, then a page for each endpoint that may exist.
// Threads: share_counters(): before others use counters.
// May touch: stats/counters.h, the system.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/process_name.h"
#include "stats/counters.h"

namespace adaptib {

constexpr const char* kLiveCountersFile = "adaptib-counters"; // name of the anonymous file
constexpr std::size_t kLivePage = 4096;
constexpr std::uint64_t kLiveMagic = 0x61435031'00000001; // the last digits: version of the layout

struct LiveHeader {
    std::uint64_t magic = 0; // kLiveMagic, once the rest is there
    std::uint64_t table = 0; // live_table_key() of the process
    std::uint64_t name = 0;  // of the process (base/process_name.h)
    std::uint32_t pid = 0;
};

// Fills the header in, while others may look at it.
inline void publish(LiveHeader& header, std::uint64_t table, std::uint64_t name,
                    std::uint32_t pid) {
    header.table = table;
    header.name = name;
    header.pid = pid;
    __atomic_store_n(&header.magic, kLiveMagic, __ATOMIC_RELEASE);
}
// Returns true if the caller may read the rest of the header.
inline bool is_published(const LiveHeader& header) {
    return __atomic_load_n(&header.magic, __ATOMIC_ACQUIRE) == kLiveMagic;
}

constexpr std::size_t live_counters_offset(std::uint32_t endpoint) {
    return kLivePage * (1 + endpoint);
}
constexpr std::size_t kLiveBytes = live_counters_offset(kMaxEndpoints);

// Tells tables of counters apart: a reader needs the same one.
std::uint64_t live_table_key();

// Returns the value of a row for a whole process: the sum over its endpoints, or of a VALUE the
// largest one. `pages`: the file, mapped.
std::uint64_t live_value(const std::byte* pages, std::size_t row);

// Moves the counters of this process into the file, once. Returns false if there is none, since the
// system has no such files, pages are longer, or no file descriptor is left; nobody can watch then.
bool share_counters(std::uint64_t name);

} // namespace adaptib
