// SPDX-License-Identifier: BSD-3-Clause
// CoreParts: the parts of a core, in the order of their dependencies: each knows those above it.
//
// Purpose: CoreOpener makes the parts from the parameters and the environment, Core uses them and
// destroys them in the opposite order. Each part gets those that it needs at its construction; the
// reactions, which the parts report events to, come first and get theirs at the end.
// Ownership: the Core owns the parts. Threads: one at a time.
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "connect/connection_manager.h"
#include "core/attached_fabrics.h"
#include "core/channel_selection.h"
#include "core/connection_reactions.h"
#include "core/contacts.h"
#include "core/core_environment.h"
#include "core/datagram_handlers.h"
#include "core/datagram_paths.h"
#include "core/path_reactions.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/progress_engine.h"
#include "core/startup.h"
#include "peer/peer_events.h"
#include "protocol/lost_peers.h"
#include "protocol/protocol.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/liveness.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"
#include "select/cost_meter.h"

namespace adaptib {

struct CoreParts {
    explicit CoreParts(const CoreEnvironment& of)
        : environment(of), lost(peer_events, *of.counters, of.message, of.is_news),
          connection_reactions(*of.clock, liveness, of.message), path_reactions(of.message) {}

    CoreEnvironment environment;
    Liveness liveness;
    PeerEvents peer_events;
    LostPeers lost;
    ConnectionReactions connection_reactions;
    PathReactions path_reactions;
    AttendedClock attended{*environment.clock}; // for all that peers' answers are timed by
    AttachedFabrics fabrics{environment};
    // All others are set once the core is open, unless it can do without them.
    std::unique_ptr<SharedQueuePairs> shared; // null: none
    std::unique_ptr<PathRepository> paths;
    std::unique_ptr<MigrationAgent> migration; // null: off, or no rail has it
    std::optional<DatagramPaths> datagram_paths;
    std::optional<Contacts> contacts;
    std::optional<ProcessWatch> watch;
    std::unique_ptr<PathProbes> probes;
    std::optional<PeerDirectory> peers;
    std::unique_ptr<ConnectionManager> connections;
    std::unique_ptr<Protocol> protocol;
    std::vector<std::byte> address; // as published
    std::optional<Startup> startup;
    std::unique_ptr<CostMeter> meter; // null: costs are the model's
    std::optional<ChannelSelection> selection;
    std::optional<ProgressEngine> progress;
    std::optional<DatagramHandlers> handlers;
};

} // namespace adaptib
