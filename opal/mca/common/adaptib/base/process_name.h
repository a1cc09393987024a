// SPDX-License-Identifier: BSD-3-Clause
// Names of processes and of their endpoints.
//
// Purpose: a process has one core, or several, its endpoints, each of which peers take for a
// process of its own. A name has the job in its upper half; below it the endpoint's number in the
// upper four bits, and the process's rank in the job.
// May touch: nothing.
#pragma once

#include <cstdint>
#include <string>

namespace adaptib {

constexpr unsigned kRankBits = 28;
constexpr std::uint32_t kMaxEndpoints = 16; // of a process; 32 - kRankBits bits
constexpr std::uint64_t kMaxRanks = std::uint64_t{1} << kRankBits;

constexpr std::uint64_t job_of(std::uint64_t name) { return name >> 32; }
constexpr std::uint32_t rank_of(std::uint64_t name) {
    return static_cast<std::uint32_t>(name & (kMaxRanks - 1));
}
constexpr std::uint32_t endpoint_of(std::uint64_t name) {
    return static_cast<std::uint32_t>(name >> kRankBits) % kMaxEndpoints;
}
// Returns the name of the process, which is that of its first endpoint.
constexpr std::uint64_t process_of(std::uint64_t name) {
    return name & ~(std::uint64_t{kMaxEndpoints - 1} << kRankBits);
}
constexpr std::uint64_t endpoint_name(std::uint64_t process, std::uint32_t endpoint) {
    return process_of(process) | std::uint64_t{endpoint} << kRankBits;
}

// Returns the number of a spawned job. Its ranks begin with 0 again, so what ranks name has to have
// the job's number, too. 0: the first job.
constexpr std::uint64_t spawned_job_of(std::uint64_t name) {
    constexpr std::uint64_t kFirstJob = 1;
    const std::uint64_t job = job_of(name) & 0xffff;
    return job > kFirstJob ? job : 0;
}

// Returns the rank, for people: "12", or "12 (endpoint 3)" for another endpoint than the first.
inline std::string rank_text(std::uint64_t name) {
    const std::uint32_t endpoint = endpoint_of(name);
    return std::to_string(rank_of(name)) +
           (endpoint > 0 ? " (endpoint " + std::to_string(endpoint) + ")" : "");
}

// Same with its kind, and with the job if that was spawned: "rank 12", "job 2 rank 12".
inline std::string rank_name(std::uint64_t name) {
    const std::uint64_t job = spawned_job_of(name);
    return (job > 0 ? "job " + std::to_string(job) + " " : "") + "rank " + rank_text(name);
}

} // namespace adaptib
