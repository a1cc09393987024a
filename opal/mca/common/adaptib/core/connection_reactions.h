// SPDX-License-Identifier: BSD-3-Clause
// ConnectionReactions: the effects of the connections' events on the other parts of a core.
//
// Purpose: a ring is polled from its offer to its end; the protocol learns when a peer is connected
// and when not; paths learn what a handshake or a repair has shown of them.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/severity.h"
#include "connect/connection_manager.h"
#include "core/datagram_paths.h"
#include "core/process_watch.h"
#include "core/progress_engine.h"
#include "protocol/protocol.h"
#include "recovery/liveness.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"
#include "stats/run_history.h"
#include "stats/trace.h"

namespace adaptib {

class ConnectionReactions final : public ConnectionListener {
public:
    // The parts of the core that connections concern. They are made after this object.
    struct Parts {
        RailList rails;
        PathRepository& paths;
        DatagramPaths& datagram_paths;
        ProcessWatch& watch;
        ConnectionManager& connections;
        Protocol& protocol;
        ProgressEngine& progress;
        const Counters& counters;
    };
    ConnectionReactions(const Clock& clock, const Liveness& liveness, MessageFunction message)
        : clock_(clock), liveness_(liveness), message_(std::move(message)) {}

    // REQUIRES: before the first event, but for notices.
    void begin(const Parts& parts) { parts_.emplace(parts); }

    // ConnectionListener
    void on_ring_offered(Peer& peer) override;
    void on_connected(Peer& peer) override;
    void on_unconnected(Peer& peer) override;
    void on_ring_final(Peer& peer) override;
    void on_connect_failed(Peer& peer, Status status, const std::string& what) override;
    void on_ring_withdrawn(Peer& peer) override;
    bool is_usable(const Peer& peer, std::size_t pair) override;
    bool choose_pairs(Peer& peer) override;
    bool take_pairs(Peer& peer, const ConnectBody& request) override;
    bool goes_without(Peer& peer, bool told) override;
    void on_path_unconnected(Peer& peer, std::size_t pair, const std::string& why) override;
    void on_interrupted(Peer& peer) override;
    void on_abandoned(Peer& peer) override;
    void on_fenced(Peer& peer) override;
    void on_partition(Peer& peer, Nanoseconds lasted) override;
    void on_repaired(Peer& peer, Nanoseconds took) override;

private:
    void note(TraceKind kind, const Peer& peer, std::uint64_t id = 0,
              Nanoseconds lasted = {}) const {
        note_event(parts_->counters.trace, kind,
                   {.peer = peer.contact.name,
                    .id = id,
                    .value = static_cast<std::uint64_t>(lasted.count())});
    }

    void note(IncidentKind kind, const Peer& peer, Nanoseconds lasted = {}) const {
        note_incident(parts_->counters,
                      {.peer = peer.contact.name, .lasted = lasted, .kind = kind});
    }

    void note_standby(Peer& peer) const;
    bool is_good(const Peer& peer, std::size_t pair) const;
    bool pair_anew(Peer& peer, const std::vector<std::uint8_t>& order);
    Nanoseconds rest_after(std::uint32_t attempts) const;
    Nanoseconds rested(const Peer& peer) const;
    void give_up_if_in_vain(Peer& peer);

    const Clock& clock_;
    const Liveness& liveness_;
    MessageFunction message_;
    std::optional<Parts> parts_;
    Nanoseconds repair_reported_{0};
    bool pairs_reported_ = false;
};

} // namespace adaptib
