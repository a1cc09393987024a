// SPDX-License-Identifier: BSD-3-Clause
// Memory model: can what gets and atomics brought back, and what memory holds at the end, be?
//
// Purpose: as sim/model.h, for one-sided operations, which are not ordered: of operations that overlap in
// time either may come first, one that had completed when another started comes before it.
//   * A byte that a get brings, or that is there at the end, is that of a put that had started, or the
//     first content; but of none that a later put, complete before the get started, has replaced.
//   * The atomics of a word form one chain: each saw what the one before it left, and no two are in
//     another order than they were seen to be in.
// Words of atomics are not put to or got from.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/model.h"

namespace adaptib::torture {

// One put or get of `bytes` bytes from `offset` of the memory of `target`.
struct MovedData {
    std::uint32_t id = 0;
    std::uint32_t target = 0;
    Bytes offset = 0;
    Bytes bytes = 0;
    std::uint64_t payload = 0;       // put: what was written
    const std::byte* data = nullptr; // get: what was read
    Time started = 0;
    Time completed = kNever;
    int status = 0;
};

struct AtomicUpdate {
    std::uint32_t id = 0;
    std::uint32_t target = 0;
    std::uint32_t word = 0;
    bool swap = false; // compare and swap; else fetch and add
    std::uint64_t operand = 0;
    std::uint64_t compare = 0;
    std::uint64_t old = 0;
    Time started = 0;
    Time completed = kNever;
    int status = 0;
};

// The memory of one rank that the others reach.
struct ExposedMemory {
    std::uint64_t payload = 0;       // its first content
    const std::byte* data = nullptr; // its last
    Bytes bytes = 0;
    std::vector<std::uint64_t> words; // the last values; the first are 0
};

struct MemoryHistory {
    std::vector<MovedData> puts;
    std::vector<MovedData> gets;
    std::vector<AtomicUpdate> atomics; // in the order of starting
    std::vector<ExposedMemory> memory; // by rank
};

std::vector<std::string> check(const MemoryHistory& history);

} // namespace adaptib::torture
