// SPDX-License-Identifier: BSD-3-Clause
// The migration agent: keeps an alternate path loaded on every queue pair that can have one.
//
// Purpose: the part of network fault tolerance that the adapters do by themselves
// (recovery/apm/README.md). The agent gives each new queue pair its alternate path while that is
// connected, receives the events of path migration, and loads the next path after each migration. A
// queue pair is always in one of five states:
//
//     none --connected--> loading, or waiting if the port that it needs is down
//     loading --event armed--> armed --event migrated--> due --loaded--> loading
//     due --the port that it needs is down--> waiting --port active, loaded--> loading
//     armed --its own port is active again--> migrates until it is there
//     any --path_migration_error, or the call is refused--> none
//
// In the state `none`, or if the path is not armed in time, a fault causes an error completion of
// the queue pair, and software repairs it as it does any.
// Many queue pairs, as when a port fails, are loaded and migrated kBatch at a time.
// Ownership: the state belongs to the Subchannel.  Threads: one at a time (the core's lock).
// Source: Vishnu, chapter 9.
// May touch: base/, fabric/, peer/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "peer/peer.h"
#include "recovery/apm/alternate_path.h"
#include "stats/counters.h"

namespace adaptib {

class MigrationAgent {
public:
    static constexpr std::size_t kBatch = 64;

    // `adapters`: of each rail, as published.
    MigrationAgent(RailList rails, std::vector<std::uint8_t> adapters, Counters& counters)
        : rails_(rails), adapters_(std::move(adapters)), counters_(counters) {}

    // Called when the queue pair of peer.subchannels[index] goes from RTR to RTS: adds the
    // alternate path to `attributes`, if there is one; returns what to add to the mask. From then
    // on the agent handles the queue pair's events.
    std::uint32_t specify(Peer& peer, std::size_t index, QpAttributes& attributes);
    // Called when the queue pair ends, or is not worth keeping.
    void forget(Subchannel& subchannel);

    // Handles an event of a queue pair. Calls `moved` for one that has migrated to another way.
    void on_event(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
                  const std::function<void(Peer&, std::size_t index)>& moved);
    // Called when a local port fails or is restored. Armed queue pairs on a failed port migrate at
    // once: maybe no work is under way that would notice the failure. Those of a restored port
    // migrate back to it, way by way.
    void rail_failed(std::uint32_t rail);
    void rail_restored(std::uint32_t rail);

    // Returns true if the queue pair survives without that rail: it does not use it now, or is
    // armed to leave it.
    bool rides_out(const Peer& peer, std::size_t index, std::uint32_t rail) const;
    // Migrates armed queue pairs to one peer on request, for balancing load; returns how many were
    // asked.
    std::size_t migrate(Peer& peer);

    bool due() const { return !due_.empty(); }
    void run(); // a batch

private:
    struct Place {
        Peer* peer;
        std::uint32_t rail;
        std::uint32_t qp_number;
    };
    static std::uint64_t key(std::uint32_t rail, std::uint32_t qp_number) {
        return std::uint64_t{rail} << 32 | qp_number;
    }
    // Returns null if the queue pair is gone.
    Subchannel* find(const Place& place, std::size_t& index) const;
    Ways ways(const Peer& peer, std::size_t index) const;
    void collect(const std::function<bool(Peer&, std::size_t index)>& wanted);
    void load_next(const Place& place);

    RailList rails_;
    std::vector<std::uint8_t> adapters_;
    Counters& counters_;
    std::unordered_map<std::uint64_t, Peer*> known_; // by rail and number of the queue pair
    std::deque<Place> due_;                          // to be loaded, or to be migrated
};

} // namespace adaptib
