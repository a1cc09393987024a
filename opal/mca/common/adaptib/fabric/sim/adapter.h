// SPDX-License-Identifier: BSD-3-Clause
// Adapter: what the queue pairs of a simulated adapter share.
//
// Purpose: their numbers, the send engines of each port, the ports' wires, and the cache of queue-pair
// contexts: who is not in it waits for its context to be fetched.
// An engine takes work requests one after another; packets also wait for the wire of the port that they
// leave and of the one that they reach, reserved in the order of departure. Long messages share wires
// and engines as flows instead.
// Ownership: the World's.  Threads: one.
// May touch: base/, fabric/, fabric/sim/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "fabric/sim/network.h"

namespace adaptib::sim {

class SimQueuePair;

struct Engine {
    Nanoseconds free_at{0};
    // The same of what the adapter begins by itself (DC: the next target after an answer). It does not wait behind
    // requests whose doorbell has been rung, but not heard; they wait for it.
    Nanoseconds inside_until{0};
    LinkIndex link = kNoIndex; // what its flows share; kNoIndex: no limit of its own
};

// One direction of a port.
struct Wire {
    Nanoseconds free_at{0};
    Nanoseconds handled_at{0}; // inwards: the adapter is through with what has arrived
};

class Adapter {
public:
    explicit Adapter(const MachineModel& machine) : machine_(machine) {}

    // Errors: no_memory when all numbers are taken.
    Status add(SimQueuePair* qp, std::uint32_t& number);
    void remove(SimQueuePair* qp, std::uint32_t number);
    // Null: no queue pair has that number.
    SimQueuePair* find(std::uint32_t number) const {
        const std::uint32_t slot = number & (kSlots - 1);
        return slot < slots_.size() && slots_[slot].number == number ? slots_[slot].qp : nullptr;
    }
    // Its context is needed now: how long it takes until it is there. Of a number that nobody has: no time.
    Nanoseconds use(std::uint32_t number);

    std::vector<SimQueuePair*> queue_pairs() const;

    // Loading or taking an alternate path, of one queue pair after another: when the adapter is through with it.
    Nanoseconds migration_done(Nanoseconds now, Nanoseconds cost) {
        migration_free_at_ = std::max(now, migration_free_at_) + cost;
        return migration_free_at_;
    }

private:
    static constexpr std::uint32_t kSlotBits = 18;
    static constexpr std::uint32_t kSlots = 1u << kSlotBits;
    static constexpr std::uint32_t kNobody = ~0u;

    struct Slot {
        SimQueuePair* qp = nullptr;
        std::uint32_t number = 0; // generation and slot
        bool cached = false;
        std::uint32_t newer = kNobody; // slots, in the order of their last use
        std::uint32_t older = kNobody;
    };
    void leave_cache(std::uint32_t slot);
    void enter_cache(std::uint32_t slot);

    const MachineModel& machine_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::uint32_t newest_ = kNobody;
    std::uint32_t oldest_ = kNobody;
    std::uint32_t cached_ = 0;
    Nanoseconds migration_free_at_{0};
};

} // namespace adaptib::sim
