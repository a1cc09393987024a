// SPDX-License-Identifier: BSD-3-Clause
// Memory model: checks the results of gets and atomics, and the final content of memory.
//
// Purpose: as simulator/torture/model.h, for one-sided operations. These are not ordered: of
// operations that overlap in time either may come first; an operation that had completed when
// another one started comes before it.
//   * A byte that a get returns, or that memory holds at the end, comes from a put that had
//     started, or from the first content; but not from a put that a later put, complete before the
//     get started, has replaced.
//   * The atomics of a word form one chain: each saw the value that the one before it left, and no
//     two are in another order than the observed one.
// Puts and gets do not touch the words of atomics.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/torture/model.h"

namespace adaptib::torture {

// One put or get of `bytes` bytes from `offset` of the memory of `target`.
struct MovedData {
    std::uint32_t id = 0;
    std::uint32_t target = 0;
    Bytes offset = 0;
    Bytes bytes = 0;
    std::uint64_t payload = 0;       // put: seed of the data written
    const std::byte* data = nullptr; // get: the data read
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

// The memory of one rank that other ranks can access.
struct ExposedMemory {
    std::uint64_t payload = 0;       // seed of the first content
    const std::byte* data = nullptr; // the last content
    Bytes bytes = 0;
    std::vector<std::uint64_t> words; // the last values; the first are 0
};

struct MemoryHistory {
    std::vector<MovedData> puts;
    std::vector<MovedData> gets;
    std::vector<AtomicUpdate> atomics; // in order of start
    std::vector<ExposedMemory> memory; // by rank
};

std::vector<std::string> check(const MemoryHistory& history);

} // namespace adaptib::torture
