// SPDX-License-Identifier: BSD-3-Clause
// PeerDirectory: the peers of this process, and first contact with them.
//
// Purpose: finds a peer by its name, or looks its address up, chooses a route (core/routes.h), and
// makes it. An adapter's atomics are not atomic with those of the processor. So with several
// fabrics all atomics go over the last one, to every process that it reaches: a peer of another
// fabric, and this process itself, gets a second record for them, the amo_peer.
// Invariants: a peer stays until clear(), also one that has failed or left.
// Ownership: owns the peers. Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bootstrap.h"
#include "base/severity.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/contacts.h"
#include "core/datagram_paths.h"
#include "core/routes.h"
#include "peer/peer_table.h"
#include "protocol/protocol.h"
#include "recovery/ended_processes.h"
#include "recovery/path_repository.h"

namespace adaptib {

class PeerDirectory {
public:
    struct Options {
        std::uint64_t self = 0; // name of this process
        std::string host;
        std::uint16_t wire_version = kWireVersion;
        Bootstrap* bootstrap = nullptr;
        const std::vector<std::byte>* address = nullptr; // as published by this process
        MessageFunction message;
    };
    // The parts of the core that it works with.
    struct Parts {
        std::vector<AttachedFabric>& fabrics;
        const Routes& routes;
        PathRepository& paths;
        DatagramPaths& datagram_paths;
        Contacts& contacts;
        const EndedProcesses& ended;
        ConnectionManager& connections;
        Protocol& protocol;
        Counters& counters;
    };
    PeerDirectory(const Options& options, const Parts& parts) : options_(options), parts_(parts) {}

    // ---- Getting, with contact

    // Reason for looking a peer up. user: an operation needs it. offer: the caller offers it to its
    // own user, and another transport takes it if it cannot be reached. datagram: a datagram from
    // it has arrived.
    enum class Why : std::uint8_t { user, offer, datagram };
    // `out` is null for this process itself. Errors: unreachable, version, bad_wire, no_permission;
    // a message has been given then (for Why::offer, once for all peers).
    Status get(std::uint64_t name, Peer*& out, Why why = Why::user);
    // As get(), without a sign that the user wants the peer. REQUIRES: another process.
    Status find_or_make(std::uint64_t name, Peer*& out, Why why) {
        out = peers_.find(name);
        return out != nullptr ? kOk : make_peer(name, why, out);
    }
    // The peer record of this process itself, for one-sided operations; made at the first of them.
    Status get_loopback(Peer*& out) { return get_loopback(loopback_, 0, out); }
    // Likewise for atomics: the peer (or loopback) itself or its amo_peer. Errors: as get().
    Status get_for_atomics(Peer& peer, Peer*& out);
    Status get_loopback_for_atomics(Peer*& out) {
        return get_loopback(atomic_loopback_, parts_.routes.last_fabric(), out);
    }
    // Returns the sender of a datagram, maybe at first contact; null if it is not who it claims to
    // be, or if nothing is known of it.
    Peer* sender_of(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key);

    // As Bootstrap::endpoints_of().
    std::uint32_t endpoints_of(std::uint64_t process) const {
        return options_.bootstrap->endpoints_of(process);
    }

    // ---- Finding

    // Null: there has been no contact.
    Peer* find(std::uint64_t name) const { return peers_.find(name); }
    // Null: the peer has no amo_peer.
    Peer* find_amo_peer(std::uint64_t name) const { return amo_peers_.find(name); }
    // Returns the peer or its amo_peer, whichever uses the fabric.
    Peer* find(std::uint64_t name, std::uint32_t fabric) const {
        Peer* peer = peers_.find(name);
        return peer == nullptr || peer->contact.route.fabric == fabric ? peer
                                                                       : amo_peers_.find(name);
    }
    // Visits peers and amo_peers.
    template <typename F> void for_each(F&& f) const {
        peers_.for_each(f);
        amo_peers_.for_each(f);
    }
    template <typename F> void for_each_loopback(F&& f) const {
        for (const auto* loopback : {&loopback_, &atomic_loopback_}) {
            if (*loopback != nullptr) {
                f(**loopback);
            }
        }
    }
    const PeerTable& peers() const { return peers_; } // without amo_peers
    void clear();

private:
    std::unique_ptr<Peer> new_peer(const ProcessAddress& address, const PeerRoute& route);
    Status make_peer(std::uint64_t name, Why why, Peer*& out);
    Status make_amo_peer(const Peer& peer, Why why, Peer*& out);
    Status get_loopback(std::unique_ptr<Peer>& loopback, std::uint32_t fabric, Peer*& out);
    Status wake_peer(Peer& peer, Why why, const ProcessAddress& address);
    void refuse_peer(const ProcessAddress& address, Why why, const std::string& obstacle);
    Status look_up(std::uint64_t name, ProcessAddress& out);

    Options options_;
    Parts parts_;
    PeerTable peers_;
    PeerTable amo_peers_;
    std::unique_ptr<Peer> loopback_;
    std::unique_ptr<Peer> atomic_loopback_; // if there are several fabrics
    bool left_reported_ = false; // a notice has said that peers are left to other transports
};

} // namespace adaptib
