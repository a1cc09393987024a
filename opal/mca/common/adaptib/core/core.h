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
//     5. sends and other work that found no room before; then the events of connections
//        (connect/connection_events.h), as after each handshake message and after timers
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
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/parameters.h"
#include "base/random.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/broken_connections.h"
#include "core/channel_selection.h"
#include "core/contacts.h"
#include "core/credit_return.h"
#include "core/datagram_paths.h"
#include "core/delivery.h"
#include "core/departures.h"
#include "core/fabric_events.h"
#include "core/message_sources.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/ring_poller.h"
#include "core/routes.h"
#include "core/severity.h"
#include "core/startup.h"
#include "fabric/fabric.h"
#include "protocol/protocol.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/completion_filter.h"
#include "recovery/ended_processes.h"
#include "recovery/life_answerer.h"
#include "recovery/life_watch.h"
#include "recovery/liveness.h"
#include "recovery/path_probes.h"
#include "recovery/path_repository.h"
#include "recovery/silence_watch.h"
#include "select/cost_meter.h"
#include "select/policy.h"

namespace adaptib {

class Core final : private ConnectionListener,
                   private PathListener,
                   private PathObserver,
                   private PeerFailureListener,
                   private ContactListener,
                   private StartupListener,
                   private ProtocolListener {
public:
    struct Environment {
        std::uint64_t self = 0;
        std::uint32_t local_rank = 0; // among the job's processes of this host
        std::uint32_t local_processes = 1;
        std::string host;
        std::string left_out; // why there are no other fabrics; for messages on unreachable peers
        std::uint16_t wire_version = kWireVersion; // another one only to test the refusal
        Bootstrap* bootstrap = nullptr;
        const Clock* clock = nullptr;
        Random* random = nullptr;
        Counters* counters = nullptr;
        MessageFunction message;
        bool maps_sources = false;    // record messages by source and time, for source_map()
        const bool* yields = nullptr; // the process yields its CPU when it found nothing; null: no
        // Idle passes at most this far apart (base/spin.h) show that the caller does nothing but
        // wait.
        std::uint64_t tight_ticks = 250;
        bool timed = false; // the clock is the machine's, so costs can be measured with it
        // Returns true if ExposedMemory::forget() will be called for memory that is unmapped.
        // Called if registrations are to be cached. Empty: no.
        std::function<bool()> watch_memory;
        MeasureOptions measure;
    };

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
    RailList rails() const { return rails_; }
    std::size_t fabrics() const { return fabrics_.size(); }
    // Returns the number of events. `again`: the caller only waits, so an idle pass may take
    // longer: it polls the busy rings some more times (Parameters::idle_looks).
    std::size_t progress(bool again = false);
    // For a caller that does not call progress() all the time: run_timers() has work at deadline()
    // (max: never). progress() calls run_timers() now and then.
    Nanoseconds deadline() const;
    // For simulations, which charge for polls, and whose ranks sleep while nothing happens.
    const RingPoller& ring_poller() const { return *rings_; }
    void run_timers();
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
    // Messages by source and time so far (select/source_map.h); empty if Environment::maps_sources
    // is off.
    std::string source_map();
    // Tells that the process of that name has ended. Any thread may call at any time; a progress()
    // that runs timers acts on it.
    void on_process_ended(std::uint64_t name) { watch_->ended().report(name); }

private:
    // Depth of each rail's completion queue, where the rail allows it.
    static constexpr std::uint32_t kCompletionDepth = 4096;

    // open.cc
    explicit Core(const Environment& environment);
    Status open(const Parameters& parameters, std::vector<std::unique_ptr<Fabric>> fabrics,
                std::string& text);
    Status attach(const Parameters& parameters, std::unique_ptr<Fabric> fabric, std::size_t room,
                  std::string& text);
    bool migrates(std::uint32_t rail) const;
    std::uint8_t rail_flags(std::uint32_t rail) const;
    std::uint8_t first_of_adapter(std::uint32_t rail) const;
    Status open_rails(std::uint32_t depth, ProcessAddress& address, std::string& text);
    ChannelPlan plan(const Parameters& parameters);
    void open_sharing(const Parameters& parameters, const ChannelPlan& channels);
    ChannelCosts model_costs(const Parameters& parameters) const;
    void open_responder(AttachedFabric& attached, const ProcessAddress& address);
    void open_target(std::uint32_t rail);
    void open_connections(const Parameters& parameters, std::uint64_t key,
                          const ChannelPlan& channels);
    void open_selection(const Parameters& parameters, const ChannelPlan& channels);
    void open_migration(const Parameters& parameters);
    void open_paths(const Parameters& parameters);
    Bytes unexpected_memory(const Parameters& parameters) const;
    void open_protocol(const Parameters& parameters, std::uint32_t depth,
                       const ChannelPlan& channels);
    void open_peers();
    void open_rings(const Parameters& parameters);
    void listen(std::uint32_t fabric);
    void check_threshold(const Parameters& parameters);
    SchedulerOptions scheduler_options(const Parameters& parameters) const;
    bool has_several_adapters(const AttachedFabric& attached) const;
    bool serves_atomics(const Parameters& parameters) const;
    Bytes registration_cache_bytes(const Parameters& parameters) const;

    // core.cc
    std::string weights_report() const;

    void tolerate_faults(std::uint32_t fabric);
    bool rides_out(const Peer& peer, std::size_t index, std::uint32_t rail) const {
        return migration_ != nullptr && migration_->rides_out(peer, index, rail);
    }
    // Changes with each post whose completion nothing waits for.
    std::uint64_t unsignaled_posts() const { return counters_.ring_sent + connections_->flushes(); }
    void on_probe(std::uint32_t fabric, std::uint64_t from, std::uint64_t key, std::uint32_t port,
                  std::uint8_t rail, const MessageHeader& header, const std::byte* body);

    // progress.cc
    void on_life_answer(Peer& peer, std::size_t pair, const LifeBody& body);
    bool is_idle() const;
    bool others_idle() const;
    bool nothing_else() const;
    std::size_t look_after_others(bool idle);
    std::size_t poll_datagrams();
    std::size_t poll_completions();
    void on_datagram(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key,
                     const MessageHeader& header, const std::byte* body);
    std::size_t pass(bool again);
    std::size_t pass_with_timers(bool again);
    std::size_t time_channels();
    void housekeeping();
    void watch_silence();
    void shrink_idle_rings(Nanoseconds now);
    void keep_alive();

    // events.cc and the files of the subjects. ConnectionListener
    void on_ring_offered(Peer& peer) override;
    void on_connected(Peer& peer) override;
    void on_unconnected(Peer& peer) override;
    void on_ring_final(Peer& peer) override;
    void on_connect_failed(Peer& peer, Status status, const std::string& what) override;
    void on_ring_withdrawn(Peer& peer) override;
    bool is_usable(const Peer& peer, std::size_t pair) override;
    void on_path_unconnected(Peer& peer, std::size_t pair, const std::string& why) override;
    void on_interrupted(Peer& peer) override;
    void on_abandoned(Peer& peer) override;
    void on_fenced(Peer& peer) override;
    void on_partition(Peer& peer, Nanoseconds lasted) override;
    void on_repaired(Peer& peer, Nanoseconds took) override;
    void on_notice(const std::string& text) override;
    // PathListener
    void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                        std::uint64_t wr_id) override;
    // PathObserver
    void on_path_changed(Peer& peer, std::size_t pair, PathState was, PathState now,
                         const std::string& why) override;
    void on_path_line(const std::string& line) override;
    // PeerFailureListener
    void on_peer_failed(Peer& peer, const std::string& why) override;
    // ContactListener
    void report_peer_failure(Peer& peer) override;
    void on_early_request(Peer& peer, const ConnectBody& body) override;
    // StartupListener
    bool connect_at_start(std::uint64_t name, const Peer*& asked) override;
    // ProtocolListener
    void on_failure(const std::string& text) override;
    void on_broken(Peer& peer) override;
    void on_peer_disconnected(Peer& peer) override;
    bool leaves(Peer& peer) override;

    Liveness liveness_;
    Nanoseconds shrink_rings_at_{0}; // next release of idle rings' memory
    Nanoseconds failure_timeout_{0};
    Nanoseconds repair_reported_{0};
    Nanoseconds forgive_unconnected_at_ = Nanoseconds::max();
    Environment environment_;
    AttendedClock attended_{*environment_.clock}; // for all that peers' answers are timed by
    Counters& counters_;
    std::vector<AttachedFabric> fabrics_;
    std::optional<Routes> routes_;                      // set once the fabrics are attached
    std::vector<Rail*> rails_;                          // of all fabrics
    std::vector<std::unique_ptr<CompletionQueue>> cqs_; // one per rail
    std::unique_ptr<SharedQueuePairs> shared_;          // null: none
    std::unique_ptr<PathRepository> paths_;
    std::unique_ptr<MigrationAgent> migration_;   // null: off, or no rail has it
    std::optional<DatagramPaths> datagram_paths_; // these three are set once the core is open
    std::optional<Contacts> contacts_;
    std::optional<ProcessWatch> watch_;
    std::unique_ptr<PathProbes> probes_;
    std::unique_ptr<SilenceWatch> silence_;
    std::optional<PeerDirectory> peers_; // set once the core is open
    std::unique_ptr<ConnectionManager> connections_;
    std::unique_ptr<Protocol> protocol_;
    std::vector<std::byte> address_;
    std::optional<RingPoller> rings_; // these five are set once the core is open
    std::optional<Delivery> delivery_;
    std::optional<CreditReturn> credit_;
    std::optional<Departures> departures_;
    std::optional<FabricEvents> events_;
    static constexpr std::uint64_t kTimersEvery = 64; // passes
    std::uint64_t tick_ = 0;
    std::uint64_t keep_alive_at_ = 0;           // not before this tick
    std::uint64_t timers_at_ = kTimersEvery;    // tick_ of the next pass that runs them
    std::optional<Startup> startup_;            // set once the core is open
    std::optional<ChannelSelection> selection_; // set once the core is open
    std::optional<MessageSources> sources_;     // none: not wanted
    std::unique_ptr<CostMeter> meter_;          // null: costs are the model's
    BrokenConnections broken_;
};

} // namespace adaptib
