// SPDX-License-Identifier: BSD-3-Clause
// LifeAnswerer: computes the answers of a process's responder (fabric/answerer.h).
//
// Purpose: tells that the process is alive, whether it calls MPI meanwhile, and its rail's current
// address. It answers only an asker that knows the key that the process has published, and in its
// own name and key. Questions and answers are datagrams like others (base/wire.h), so that the
// answer goes to the asker's ordinary queue. "Calls MPI": beats() grows as long as the process
// does. The answer carries that number, so that a second question reveals calls since the first.
// Threads: answer() on any, at any time; the others one at a time (the core's lock). Uses only
// constants and atomics.
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/wire.h"
#include "fabric/answerer.h"

namespace adaptib {

class LifeAnswerer final : public Answerer {
public:
    // `first`: the number of the fabric's first rail among those that the process publishes.
    LifeAnswerer(std::uint64_t name, std::uint64_t key, std::uint32_t first)
        : name_(name), key_(key), first_(first) {}

    // Sets the current address of a rail of the fabric. REQUIRES: rail < kMaxRails.
    void set_address(std::uint32_t rail, const RailAddress& address);
    // Records that the process is in a call of MPI.
    void beat() {
        beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }

    Reply answer(std::uint32_t rail, std::span<const std::byte> question,
                 std::span<std::byte> reply) const noexcept override;

private:
    static constexpr std::size_t kWords = RailAddress::kMaxBytes / sizeof(std::uint64_t);
    // One writer; a reader must find the same even version before and after.
    struct Place {
        std::atomic<std::uint32_t> version{0};
        std::atomic<std::uint32_t> size{0}; // the upper half: RailAddress::changes
        std::array<std::atomic<std::uint64_t>, kWords> words{};
    };
    bool read(std::uint32_t rail, LifeBody& body) const noexcept;

    const std::uint64_t name_;
    const std::uint64_t key_;
    const std::uint32_t first_;
    std::array<Place, kMaxRails> places_;
    alignas(kCacheLine) std::atomic<std::uint64_t> beats_{0};
};

} // namespace adaptib
