// SPDX-License-Identifier: BSD-3-Clause
// Subchannel: one connection to a peer over one path.
//
// Purpose: its queue pair, the rails at both ends, the bytes under way on it, and what path
// migration, rdma_cm and the silence watch keep for it.
// Ownership: a subchannel belongs to the Peer; the queue pair belongs to the subchannel.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib {

// Progress of automatic path migration (recovery/apm/migration_agent.h).
enum class MigrationStep : std::uint8_t { none, loading, armed, due, waiting };
struct SubchannelMigration {
    MigrationStep state = MigrationStep::none;
    std::uint8_t way = 0; // the path in use, an index into Ways
    bool returns = false; // its own port is back: it migrates until it is on its first way
};

// Progress of a queue pair that connects through rdma_cm (connect/cm_connects.h).
enum class CmConnectStep : std::uint8_t { none, under_way, connected, again };
struct SubchannelCmConnect {
    CmConnectStep step = CmConnectStep::none; // none also if rdma_cm is not needed
    std::uint32_t remote_qp = 0;
    std::uint32_t failures = 0;
    Nanoseconds again_at{0}; // when to try again, unless an event arrives before
    std::string why;         // why the last attempt failed
};

// Time without completions from a queue pair with work (recovery/silence_watch.h).
struct Silence {
    std::uint32_t seen = 0; // completions, at the last check
    bool missed = false;    // the peer long did not answer probes over the path
    Nanoseconds lasts{0};
    Nanoseconds until = Nanoseconds::max(); // time limit, whatever the path says
};

// Timed stripes under way, and since when the path carries them: since it completed the one before,
// or since the first was posted.
struct TimedStripes {
    Bytes bytes = 0;
    Nanoseconds since{};
    Nanoseconds late{}; // it may have been earlier by this much
};

// One connection to the peer over one path.
struct Subchannel {
    std::uint32_t local_rail = 0;
    std::uint32_t remote_rail = 0;
    std::uint32_t path = 0;              // of the paths between the two rails
    std::uint32_t remote_memory_key = 0; // of the peer's ring and credit
    bool standby = false;                // its local rail is one (RailInfo::standby)
    bool unordered = false; // the peer's device may place the packets of a write in any order
    BytesPerSecond rate{};  // of the slower rail of the two; 0: unknown
    std::unique_ptr<QueuePair> qp; // null: the connection does without this path
    SubchannelMigration migration;
    SubchannelCmConnect cm_connect;
    std::array<Bytes, 2> outstanding{};  // by Direction: bytes of stripes posted and not complete
    std::uint32_t reads = 0;             // reads and atomics among these stripes
    std::array<TimedStripes, 2> timed{}; // by Direction
    std::uint32_t completions = 0;       // successful ones, of work that the silence watch monitors
    bool refused = false; // the error of its queue pair was caused by a one-sided operation
    Silence silence;

    // Queue pairs of different rails may have the same number.
    bool has(std::uint32_t rail, std::uint32_t qp_number) const {
        return qp != nullptr && local_rail == rail && qp->number() == qp_number;
    }
};

constexpr std::uint32_t kNoControlLane = ~0u;

} // namespace adaptib
