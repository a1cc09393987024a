// SPDX-License-Identifier: BSD-3-Clause
// Answerer: replies for a process while the process does something else (Fabric::respond).
//
// Ownership: the caller of Fabric::respond owns the answerer, which outlives the fabric.
// Threads: answer() runs on any thread, at any time.
// May touch: base/, rail_address.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/units.h"
#include "fabric/rail_address.h"

namespace adaptib {

// Source of a process's replies to questions that arrive while the process does something else.
class Answerer {
public:
    struct Reply {
        std::size_t length = 0;       // 0: no reply
        std::uint64_t access_key = 0; // of the queue pair that asked
        RailAddress to;               // address of that queue pair's rail
        std::uint32_t path = 0;       // index of the path to it (Rail::path_to)
    };
    // Writes the reply to a question that has reached a rail of the fabric into `reply`, which has
    // kMostQuestion bytes. Runs on any thread, at any time: takes no lock, allocates nothing, calls
    // nothing of the fabric.
    virtual Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                         std::span<std::byte> reply) const noexcept = 0;

protected:
    ~Answerer() = default;
};
constexpr Bytes kMostQuestion = 256;

} // namespace adaptib
