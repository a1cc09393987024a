// SPDX-License-Identifier: BSD-3-Clause
// PeerConnectEvents: events of a peer's connection that have not been handled yet
// (connect/connection_events.h).
//
// Ownership: the record belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include "base/intrusive_list.h"
#include "base/status.h"
#include "base/units.h"

namespace adaptib {

class Peer;

// Kinds of events, in the order in which those of one peer are handled.
enum class ConnectEvent : std::uint8_t {
    // Of connect/ alone (is_own_event)
    unsent,       // a message of the handshake could not be sent: the peer is given up
    flush_failed, // a queue pair has failed while its connection is closing: it is repaired
    // For the core
    interrupted,
    abandoned,
    ring_final,
    fenced,
    partition,
    repaired,
    connected,
    kept, // connected: the other side needs the connection that was to be closed
    unconnected,
    failed,
    failed_here, // failed: the other side has to be told
};

inline bool is_own_event(ConnectEvent kind) { return kind < ConnectEvent::interrupted; }

class ConnectEventSet {
public:
    ConnectEventSet() = default;
    explicit ConnectEventSet(ConnectEvent kind) : bits_(bit(kind)) {}
    bool empty() const { return bits_ == 0; }
    bool has(ConnectEvent kind) const { return (bits_ & bit(kind)) != 0; }
    void add(ConnectEvent kind) { bits_ |= bit(kind); }
    void remove(ConnectEvent kind) { bits_ &= ~bit(kind); }
    // REQUIRES: not empty.
    ConnectEvent first() const { return static_cast<ConnectEvent>(std::countr_zero(bits_)); }

private:
    static constexpr std::uint32_t bit(ConnectEvent kind) {
        return 1u << static_cast<unsigned>(kind);
    }

    std::uint32_t bits_ = 0;
};

struct ConnectFailure {
    Status status;
    std::string what;
};

struct PeerConnectEvents {
    ListLink<Peer> link; // linked while events wait
    ConnectEventSet waiting;
    Nanoseconds duration{0};                 // of the partition, or of the repair
    std::unique_ptr<ConnectFailure> failure; // null: none
};

} // namespace adaptib
