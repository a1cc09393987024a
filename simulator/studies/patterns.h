// SPDX-License-Identifier: BSD-3-Clause
// Communication patterns as data: sources, destinations, sizes and steps of messages.
//
// Purpose: a pattern gives each rank the same number of steps. In a step a rank starts all its
// receives and sends, and it goes on when all have ended; ranks do not wait for each other
// otherwise. A message sent in a step is received in the same step.
// Ownership: values.  Threads: any.
// Source: Vishnu 3 (displaced ring), AQPS 4.3 (onetoall, alltoone, repeat), and the algorithms of
// MPI libraries for alltoall (pairwise exchange), allgather (ring) and allreduce (recursive
// doubling); OSU's latency and bandwidth tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace adaptib::study {

struct Message {
    std::uint32_t peer = 0;
    Bytes bytes = 0;
};

struct Step {
    std::vector<Message> sends;
    std::vector<Message> receives;
};

struct Pattern {
    std::string name;
    std::vector<std::vector<Step>> ranks; // by rank, then by step

    std::size_t size() const { return ranks.size(); }
    std::size_t steps() const { return ranks.empty() ? 0 : ranks[0].size(); }
    std::uint64_t messages() const;
    Bytes bytes() const; // sent, by all ranks

    // Appends the steps of `next`. REQUIRES: the same number of ranks.
    void append(const Pattern& next);
};

// All of the following REQUIRE at least two ranks.

// In step j = 1..steps, rank i sends to i + j and receives from i - j; `steps` 0: ranks - 1.
Pattern displaced_ring(std::uint32_t ranks, Bytes bytes, std::uint32_t steps = 0);
// Every rank has `bytes` for each other one. In step j rank i exchanges with rank i xor j if the
// number of ranks is a power of two; otherwise as displaced_ring.
Pattern alltoall_pairwise(std::uint32_t ranks, Bytes bytes);
// `bytes` of each rank go around to the right, to the next neighbor in each of ranks - 1 steps.
Pattern allgather_ring(std::uint32_t ranks, Bytes bytes);
// Exchanges `bytes` with i xor 1, i xor 2, i xor 4 ... A rank beyond the largest power of two gives
// its data to a partner before these steps and gets the result after them.
Pattern allreduce_doubling(std::uint32_t ranks, Bytes bytes);
// `rounds` times rank 0 sends to all others, or all others send to rank 0. A barrier follows when a
// rank has received more than 128 messages since the last one (AQPS 4.3).
Pattern onetoall(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds);
Pattern alltoone(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds);
// onetoall and alltoone, five times (AQPS 4.3).
Pattern repeat(std::uint32_t ranks, Bytes bytes, std::uint32_t rounds);
// Ranks 0 and 1: `rounds` times there and back.
Pattern ping_pong(Bytes bytes, std::uint32_t rounds);
// Ranks 0 and 1: `rounds` times a window of messages under way at the same time, and an answer of 4
// bytes; with `both_ways` in both directions at once.
Pattern stream(Bytes bytes, std::uint32_t window, std::uint32_t rounds, bool both_ways);
// Sends messages without bytes to i + 1, i + 2, i + 4 ...
Pattern dissemination_barrier(std::uint32_t ranks);

// Makes a pattern by name: "displaced_ring", "alltoall", "allgather", "allreduce", "onetoall",
// "alltoone", "repeat". Returns an empty pattern (no ranks) for another name. `rounds` is for the
// last three.
Pattern make_pattern(std::string_view name, std::uint32_t ranks, Bytes bytes, std::uint32_t rounds);
std::vector<std::string_view> pattern_names();

// Returns the error of a pattern, or an empty string. Errors: a rank out of range or itself, ranks
// with different numbers of steps, a send without a receive of the same step, place and size, or
// the other way around.
std::string problem_of(const Pattern& pattern);

} // namespace adaptib::study
