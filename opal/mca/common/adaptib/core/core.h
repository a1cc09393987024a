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
//     6. connections that come up, close or are repaired; then peers that are gone
//     7. now and then: timers, events of the fabrics, levels of the counters
//
// Fabrics: one or several, nearest first. Their rails are numbered consecutively, and a process
// publishes them in that order. A peer is reached over the first fabric that reaches it
// (Rail::is_reachable). Both ends choose that fabric at first contact from what both have
// published, and so alike. Of a fabric without peers only the datagram queue is polled, now and
// then. An adapter's atomics are not atomic with those of the processor. So with several fabrics
// all atomics go over the last one, to every process that it reaches: a peer of another fabric, and
// this process itself, gets a second record for them, the amo_peer.
//
// Parts: CoreOpener makes them (core/core_opener.h), CoreParts holds them (core/core_parts.h),
// ProgressEngine has the passes (core/progress_engine.h).
// Life: create, publish address(), use, leave(), destroy.
// Threads: one at a time; if there are several, the C interface holds a lock around each call.
// Time, randomness, addresses and messages to people come from outside (Environment).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/parameters.h"
#include "base/status.h"
#include "core/core_environment.h"
#include "core/core_parts.h"
#include "fabric/fabric.h"
#include "stats/peer_traffic.h"

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
    const std::vector<std::byte>& address() const { return parts_.address; }

    PeerDirectory& peers() { return *parts_.peers; }
    Protocol& protocol() { return *parts_.protocol; }
    ConnectionManager& connections() { return *parts_.connections; }
    Startup& startup() { return *parts_.startup; }
    // Tells that the job has so many processes: each may contact this one first.
    void expect(std::uint32_t processes);
    ChannelSelection& selection() { return *parts_.selection; }
    LostPeers& lost() { return parts_.lost; } // reported from progress()
    RailList rails() const { return parts_.fabrics.rails(); }
    std::size_t fabrics() const { return parts_.fabrics.all().size(); }
    const Fabric& nearest_fabric() const { return *parts_.fabrics.all().front().fabric; }
    // Returns the number of events. `again`: the caller only waits, so an idle pass may take
    // longer: it polls the busy rings some more times (Parameters::idle_looks).
    std::size_t progress(bool again = false) { return parts_.progress->progress(again); }
    // Returns true if something of this process waits for progress(): a request is under way, a
    // message or transfer has found no room, or a connection opens or closes. Otherwise progress()
    // only serves others.
    bool awaits_progress() {
        Protocol& protocol = *parts_.protocol;
        return protocol.receives().posted() > 0 || protocol.awaited() > 0 || protocol.has_work() ||
               protocol.sends().any_wait() || protocol.one_sided().under_way() > 0 ||
               parts_.connections->has_work() || parts_.peer_events.any() ||
               parts_.startup->goes_on();
    }
    // For a caller that does not call progress() all the time: run_timers() has work at deadline()
    // (max: never). progress() calls run_timers() now and then.
    Nanoseconds deadline() const { return parts_.progress->timers().deadline(); }
    // For simulations, which charge for polls, and whose ranks sleep while nothing happens.
    const RingPoller& ring_poller() const { return parts_.progress->rings(); }
    void run_timers() { parts_.progress->timers().run(); }
    // Moves each queue pair of a peer to its alternate path, if one is armed; returns how many
    // moved.
    std::size_t migrate_paths(Peer& peer);
    // Call it before the memory of the message requests goes away while one-sided operations go on,
    // and before peers are released: a peer that has begun to disconnect takes part in no transfer.
    // Messages under way have up to `limit` to complete. Then a peer that still has some fails,
    // unless it has one-sided operations, too. Posted receives for which nothing has arrived are
    // dropped.
    void quiesce_messages(Nanoseconds limit);
    // Makes progress until nothing more has arrived, as far as a few idle passes tell, for at most
    // `limit`.
    void take_arrived(Nanoseconds limit);
    // Makes progress for at most `limit` until all that was sent is known to have arrived, as far
    // as that can be known. For messages that only go to peers that are disconnecting, at most 20
    // ms.
    void drain(Nanoseconds limit);
    // The last call: drain(limit), and then tells those peers of other hosts that this process ends
    // which do not know yet. That takes at most 20 ms.
    void leave(Nanoseconds limit);
    // Messages not known to have arrived. none: there are none; last_words: only for peers that may
    // be gone; data: for others.
    enum class Unsent : std::uint8_t { none, last_words, data };
    Unsent unsent();
    std::string report() const;
    std::vector<PeerTraffic> peer_traffic() const;              // core/peer_traffic_rows.h
    std::string setup_text(const Parameters& parameters) const; // core/setup_text.h
    // Messages by source and time so far (select/source_map.h); empty if
    // CoreEnvironment::maps_sources is off.
    std::string source_map();
    // Tells that the process of that name has ended. Any thread may call at any time; a progress()
    // that runs timers acts on it.
    void on_process_ended(std::uint64_t name) { parts_.watch->ended().report(name); }

private:
    explicit Core(const Environment& environment) : parts_(environment) {}

    CoreParts parts_;
};

} // namespace adaptib
