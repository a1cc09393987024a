// SPDX-License-Identifier: BSD-3-Clause
// Timers: the work of a core that is due by time, or by news that no pass looks for.
//
// Purpose: run() gives each part of the core its turn, in one fixed order; deadline() tells when
// that has something to do.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/channel_selection.h"
#include "core/contacts.h"
#include "core/datagram_paths.h"
#include "core/departures.h"
#include "core/fabric_events.h"
#include "core/idle_rings.h"
#include "core/message_sources.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/startup.h"
#include "core/unconnected_paths.h"
#include "protocol/protocol.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"
#include "recovery/silence_watch.h"
#include "stats/counters.h"
#include "stats/run_history.h"

namespace adaptib {

class Timers {
public:
    struct Options {
        Nanoseconds failure_timeout{0};
        Nanoseconds answer_time{0}; // answer_timeout, as devices have it
        bool maps_sources = false;  // CoreEnvironment's
        const Clock* clock = nullptr;
    };
    // The parts of the core that have work by time.
    struct Parts {
        std::vector<AttachedFabric>& fabrics;
        const AttendedClock& attended;
        PeerDirectory& peers;
        PathRepository& paths;
        MigrationAgent* migration; // null: none
        DatagramPaths& datagram_paths;
        Contacts& contacts;
        ProcessWatch& watch;
        PathProbes& probes;
        ConnectionManager& connections;
        Protocol& protocol;
        FabricEvents& events;
        Departures& departures;
        Startup& startup;
        ChannelSelection& selection;
        Counters& counters;
    };
    Timers(const Options& options, const Parts& parts);

    void run();
    // max: never.
    Nanoseconds deadline() const;

    UnconnectedPaths& unconnected() { return unconnected_; }
    MessageSources* sources() { return sources_ ? &*sources_ : nullptr; } // null: not wanted

private:
    // Changes with each write into rings, behind these, and of credit.
    std::uint64_t control_posts() const {
        return parts_.counters.ring_sent + parts_.connections.flushes() +
               parts_.counters.credit_returns;
    }
    bool connect(std::uint64_t name, const Peer*& asked);
    void watch_silence();

    const Clock& clock_;
    Parts parts_;
    SilenceWatch silence_;
    IdleRings idle_rings_;
    UnconnectedPaths unconnected_;
    std::optional<MessageSources> sources_; // none: not wanted
};

} // namespace adaptib
