// SPDX-License-Identifier: BSD-3-Clause
// Core: one object per process (per rank in a simulation), which wires everything together.
//
// Purpose: owns the fabrics, the channels, the peers and the protocol, and moves them forward in
// progress(), in one fixed order:
//
//     1. rings that had traffic lately, a few messages each
//     2. one of the other rings in turn (so idle peers cost little, and none is forgotten)
//     3. the datagram queues
//     4. completions of connected queue pairs
//     5. sends and other work that found no room before
//     6. now and then: timers, events of the fabrics, levels of the counters
//
// Fabrics: one or several, nearest first. Their rails are numbered consecutively, and a process
// publishes them in that order. A peer is reached over the first fabric that reaches it
// (Rail::is_reachable). Both ends choose that fabric at first contact from what both have
// published, and so alike. Of a fabric without peers only the datagram queue is polled, now and
// then. An adapter's atomics are not atomic with those of the processor. So with several fabrics
// all atomics go over the last one, to every process that it reaches: a peer of another fabric, and
// this process itself, gets a second record for them, the amo_peer.
//
// Life: create, publish address(), use, drain(), destroy.
// Threads: one at a time; if there are several, the C interface holds a lock around each call.
// Time, randomness, addresses and messages to people come from outside (Environment).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parameters.h"
#include "connect/connection_manager.h"
#include "core/attached_fabrics.h"
#include "core/broken_connections.h"
#include "core/channel_selection.h"
#include "core/connection_reactions.h"
#include "core/contacts.h"
#include "core/datagram_handlers.h"
#include "core/datagram_paths.h"
#include "core/environment.h"
#include "core/path_reactions.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/progress_engine.h"
#include "core/protocol_reactions.h"
#include "core/startup.h"
#include "fabric/fabric.h"
#include "protocol/protocol.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/completion_filter.h"
#include "recovery/ended_processes.h"
#include "recovery/life_watch.h"
#include "recovery/liveness.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"
#include "select/cost_meter.h"
#include "select/policy.h"

namespace adaptib {

class Core {
public:
    using Environment = CoreEnvironment;

    // `fabrics`: at least one, nearest first. Errors: not_supported if the rails of one cannot
    // carry the core's traffic, or the status of a rail; `text` explains it to a person.
    static Status create(const Parameters& parameters, const Environment& environment,
                         std::vector<std::unique_ptr<Fabric>> fabrics, std::unique_ptr<Core>& out,
                         std::string& text);
    static Status create(const Parameters& parameters, const Environment& environment,
                         std::unique_ptr<Fabric> fabric, std::unique_ptr<Core>& out,
                         std::string& text);
    ~Core();

    // The address blob to publish; peers look it up.
    const std::vector<std::byte>& address() const { return address_; }

    PeerDirectory& peers() { return *peers_; }
    Protocol& protocol() { return *protocol_; }
    ConnectionManager& connections() { return *connections_; }
    Startup& startup() { return *startup_; }
    ChannelSelection& selection() { return *selection_; }
    BrokenConnections& broken() { return broken_; } // reported from progress()
    RailList rails() const { return fabrics_.rails(); }
    std::size_t fabrics() const { return fabrics_.all().size(); }
    // Returns the number of events. `again`: the caller only waits, so an idle pass may take
    // longer: it polls the busy rings some more times (Parameters::idle_looks).
    std::size_t progress(bool again = false) { return progress_->progress(again); }
    // For a caller that does not call progress() all the time: run_timers() has work at deadline()
    // (max: never). progress() calls run_timers() now and then.
    Nanoseconds deadline() const { return progress_->timers().deadline(); }
    // For simulations, which charge for polls, and whose ranks sleep while nothing happens.
    const RingPoller& ring_poller() const { return progress_->rings(); }
    void run_timers() { progress_->timers().run(); }
    // Moves each queue pair of a peer to its alternate path, if one is armed; returns how many
    // moved.
    std::size_t migrate_paths(Peer& peer);
    // Call it before the memory of the message requests goes away while one-sided operations go on,
    // and before peers are released: a peer that has begun to disconnect takes part in no transfer.
    // Messages under way have up to `limit` to complete. Then a peer that still has some fails,
    // unless it has one-sided operations, too. Posted receives for which nothing has arrived are
    // dropped.
    void quiesce_messages(Nanoseconds limit);
    // Makes progress for at most `limit` until all that was sent is known to have arrived, as far
    // as that can be known. For messages that only go to peers that are disconnecting, at most 20
    // ms.
    void drain(Nanoseconds limit);
    // Messages not known to have arrived. nothing: there are none; last_words: only for peers that
    // may be gone; owed: for others.
    enum class Left : std::uint8_t { nothing, last_words, owed };
    Left left();
    std::string report() const;
    // Messages by source and time so far (select/source_map.h); empty if
    // CoreEnvironment::maps_sources is off.
    std::string source_map();
    // Tells that the process of that name has ended. Any thread may call at any time; a progress()
    // that runs timers acts on it.
    void on_process_ended(std::uint64_t name) { watch_->ended().report(name); }

private:
    // open.cc
    explicit Core(const Environment& environment);
    Status open(const Parameters& parameters, std::vector<std::unique_ptr<Fabric>> fabrics,
                std::string& text);
    ChannelPlan plan(const Parameters& parameters);
    void open_sharing(const Parameters& parameters, const ChannelPlan& channels);
    void open_connections(const Parameters& parameters, std::uint64_t key,
                          const ChannelPlan& channels);
    void open_selection(const Parameters& parameters, const ChannelPlan& channels);
    void open_migration(const Parameters& parameters);
    void open_paths(const Parameters& parameters);
    void open_protocol(const Parameters& parameters, std::uint32_t depth,
                       const ChannelPlan& channels);
    void open_peers();
    void open_progress(const Parameters& parameters);
    void begin_reactions();
    void check_threshold(const Parameters& parameters);
    void check_atomics(const Parameters& parameters, std::span<const RailRange> fabrics);

    // core.cc
    std::string weights_report() const;

    Liveness liveness_;
    Nanoseconds failure_timeout_{0};
    Environment environment_;
    BrokenConnections broken_;
    ConnectionReactions connection_reactions_;
    PathReactions path_reactions_;
    ProtocolReactions protocol_reactions_;
    AttendedClock attended_{*environment_.clock}; // for all that peers' answers are timed by
    AttachedFabrics fabrics_;
    std::unique_ptr<SharedQueuePairs> shared_; // null: none
    std::unique_ptr<PathRepository> paths_;
    std::unique_ptr<MigrationAgent> migration_;   // null: off, or no rail has it
    std::optional<DatagramPaths> datagram_paths_; // these three are set once the core is open
    std::optional<Contacts> contacts_;
    std::optional<ProcessWatch> watch_;
    std::unique_ptr<PathProbes> probes_;
    std::optional<PeerDirectory> peers_; // set once the core is open
    std::unique_ptr<ConnectionManager> connections_;
    std::unique_ptr<Protocol> protocol_;
    std::vector<std::byte> address_;
    std::optional<ProgressEngine> progress_; // these two are set once the core is open
    std::optional<DatagramHandlers> handlers_;
    std::optional<Startup> startup_;            // set once the core is open
    std::optional<ChannelSelection> selection_; // set once the core is open
    std::unique_ptr<CostMeter> meter_;          // null: costs are the model's
};

} // namespace adaptib
