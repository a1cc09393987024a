// SPDX-License-Identifier: BSD-3-Clause
// Adapter: state that the queue pairs of a simulated adapter share.
//
// Purpose: holds their numbers, the send engines of each port, the ports' wires, and the cache of
// queue-pair contexts: a queue pair outside the cache waits until its context is fetched.
// An engine takes work requests one after another. Packets also wait for the wires of the port that
// they leave and of the one that they reach; wire time is reserved in the order of departure. Long
// messages share wires and engines as flows instead.
// Ownership: the World's.  Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "simulator/network/network.h"

namespace adaptib::sim {

class SimQueuePair;

struct Engine {
    Nanoseconds free_at{0};
    // Busy time with work that the adapter starts by itself (DC: the next target after an
    // acknowledgement). Such work does not wait behind requests whose doorbell has been rung but
    // not yet heard; those requests wait for it.
    Nanoseconds inside_until{0};
    LinkIndex link = kNoIndex; // the link that its flows share; kNoIndex: no limit of its own
};

// One direction of a port.
struct Wire {
    Nanoseconds free_at{0};
    Nanoseconds handled_at{0}; // inbound: the adapter has handled all that arrived until then
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
    // Marks the context of a queue pair as used now. Returns the time to fetch it: 0 on a hit, or
    // if no queue pair has the number.
    Nanoseconds use(std::uint32_t number);

    std::vector<SimQueuePair*> queue_pairs() const;

    // Returns the time at which the adapter has loaded or taken over an alternate path. It does so
    // for one queue pair after another.
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
