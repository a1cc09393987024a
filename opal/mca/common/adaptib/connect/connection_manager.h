// SPDX-License-Identifier: BSD-3-Clause
// ConnectionManager: brings a peer's subchannels and rings up, and takes them down
// (connect/README.md).
//
// Purpose: holds the classes of connect/, each of which has one part of that work and calls those
// that it needs; lets the users of connections call them; and tells a class what one below it has
// found, since none calls up (go_on()). The state of a connection changes as follows:
//
//     idle --request()--> requested --reply; queue pairs are connected--> open
//     idle --request arrives--> answered --confirm--> open
//     requested --request arrives, peer's name is higher--> answered
//     requested --request arrives, peer's name is lower--> requested (the peer answers this side's)
//     requested --refuse--> idle
//     open --idle for long, or close arrives--> closing --close arrives--> idle
//     closing --keep arrives--> open
//     open, closing --a path fails--> repairing --> requested or answered (repairs.h)
//     any --resources fail, or a queue pair fails and is not repaired--> failed
//
// The requesting side may write from the reply on, the other side from the confirmation on, none
// while closing. A ring is polled from the moment that it is offered.
// On rails that need rdma_cm (cm_connects.h) the queue pairs connect through it between the reply
// and the confirmation.
// Handshake messages have no sequence number of the peer's.
// While there is no room for another connection, peers wait for one in a list and communicate by
// datagrams.
// Threads: one at a time.
// Source: Yu, Gao, Panda, section 4.1.
// May touch: base/, fabric/, memory/, channel/, schedule/, peer/, stats/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "channel/datagram.h"
#include "connect/closings.h"
#include "connect/cm_connects.h"
#include "connect/connect_context.h"
#include "connect/connection_events.h"
#include "connect/connection_limit.h"
#include "connect/connection_pool.h"
#include "connect/connection_resources.h"
#include "connect/control_lanes.h"
#include "connect/handshake.h"
#include "connect/handshake_messages.h"
#include "connect/lane_migrations.h"
#include "connect/need.h"
#include "connect/offered_rings.h"
#include "connect/path_measurement.h"
#include "connect/queue_pairs.h"
#include "connect/remote_rings.h"
#include "connect/repairs.h"
#include "connect/shared_draining.h"
#include "connect/sharing_rules.h"
#include "connect/teardown.h"
#include "connect/yielding.h"
#include "peer/peer.h"

namespace adaptib {

class ConnectionManager final {
public:
    // `cqs`: the completion queue of each rail's queue pairs.
    ConnectionManager(const ConnectOptions& options, RailList rails,
                      std::span<const std::unique_ptr<CompletionQueue>> cqs, Counters& counters,
                      ConnectionListener& listener)
        : events_(listener), context_{options, rails, cqs, counters, events_, listener} {}

    // Starts connecting if the peer is idle; without room, as soon as there is some. The peer may
    // be lost at that: what waits for it ends later (handle_events).
    void request(Peer& peer) { handshake_.request(peer); }
    // Starts closing the connection if it is open and nothing needs it.
    void close_if_unused(Peer& peer) {
        if (peer.session.state == ConnectState::open && is_unused(peer)) {
            closings_.start(peer);
        }
    }
    // Gives the peer a connection of that kind. An open one of the other kind is closed for it, if
    // nothing needs that, or once there is room. REQUIRES: SharingPreference::shared:
    // SharingRules::may_share().
    void set_preference(Peer& peer, SharingPreference preference);
    // Handles an arrived message of the handshake or of closing, which has passed check_message.
    void on_handshake(Peer& peer, const MessageHeader& header, const std::byte* body);
    // As Handshake::renew_shared; the peer may be lost at that.
    bool renew_shared(Peer& peer, Subchannel& subchannel) {
        return handshake_.renew_shared(peer, subchannel);
    }
    // Called when a queue pair of the connection takes no work any more, since it has failed. A
    // shared one may have failed without work of this peer's, so that no completion tells.
    void on_bad_state(Peer& peer, const std::string& what) {
        if (repairs_.may_begin(peer)) {
            repairs_.begin(peer);
        } else if (peer.session.state == ConnectState::open && !peer.in.teardown_pending) {
            teardown_.fail(peer, Status::error(Reason::bad_state), what);
        }
    }
    // Handles a request that had to wait for the end of the connection before, and all events.
    void on_early_request(Peer& peer, const ConnectBody& body) {
        handshake_.on_early_request(peer, body);
        handle_events();
    }
    // Handles a request that waits for the end of a disconnect which the peer has revoked.
    void on_disconnect_revoked(Peer& peer) { handshake_.on_disconnect_revoked(peer); }
    // Destroys queue pairs that do not complete their work (Repairs::abandon).
    void abandon(Peer& peer) { repairs_.abandon(peer); }
    // Connects the peer that is this process itself: each queue pair with itself, without rings.
    Status open_loopback(Peer& self);
    void close(Peer& peer, ConnectState state) { teardown_.close(peer, state); }
    void break_off(Peer& peer) { teardown_.break_off(peer); }
    // Sends handshake messages that found no room before; advances closing, repairs and the like.
    void retry();
    // Lets the listener handle all events (connection_events.h). Called after each call that may
    // cause some, besides those that say that they do so.
    void handle_events() {
        if (events_.any()) [[unlikely]] {
            events_.handle([this](Peer& peer, ConnectEventSet handled) { go_on(peer, handled); });
        }
    }
    // Looks for room for peers that wait for some, when limit().deadline() says so.
    void serve_waiting() {
        limit_.serve([this](Peer& peer) { return handshake_.on_room(peer); });
    }
    // Returns the index of the control lane: the subchannel that carries the peer's ring and
    // credit.
    std::size_t chosen_subchannel(Peer& peer) { return lanes_.get_or_choose(peer); }
    // Migrates the control lane to that subchannel, as soon as work under way allows. Does nothing
    // if the subchannel cannot carry it now, or a migration is under way.
    void migrate_control_lane(Peer& peer, std::uint32_t to) { lane_migrations_.begin(peer, to); }
    // Counter that changes with each post for the connections themselves.
    std::uint64_t flushes() const { return lanes_.posts(); }
    bool retry_due() const { return messages_.owing(); }
    bool closing() const {
        return closings_.active() || yielding_.active() || lane_migrations_.active() ||
               repairs_.active() || cm_connects_.active();
    }
    // Returns true if a pass of progress has more to do than to poll for arrivals.
    bool has_work() const { return measurement_.active() || retry_due() || closing(); }
    // Queue pairs of all connections.
    QueuePairs& queue_pairs() { return queue_pairs_; }
    // Returns when retry() or serve_waiting() has something to do next; max: never.
    Nanoseconds deadline() const {
        return std::min({limit_.deadline(), cm_connects_.deadline(), repairs_.deadline()});
    }

    // ---- Its parts

    Handshake& handshake() { return handshake_; }
    Repairs& repairs() { return repairs_; }
    // Queue pairs that connect through rdma_cm.
    CmConnects& cm_connects() { return cm_connects_; }
    // Draining of work over shared queue pairs.
    SharedDraining& shared_draining() { return shared_draining_; }
    QueuePairOwners& owners() { return queue_pairs_.owners(); }
    // Which peers may share queue pairs, and which do.
    SharingRules& sharing() { return sharing_; }
    // Limit on connections, and the peers that wait for one.
    ConnectionLimit& limit() { return limit_; }
    // Measurement of peers' paths in the background.
    PathMeasurement& measurement() { return measurement_; }

private:
    void go_on(Peer& peer, ConnectEventSet handled);
    void on_close(Peer& peer, const ConnectNote& note);
    void on_cm_connect_over(Peer& peer, CmConnects::Outcome outcome, const std::string& what);

    ConnectionEvents events_;
    const ConnectContext context_;
    Handshake handshake_{context_,
                         {queue_pairs_, remote_rings_, resources_, teardown_, messages_, repairs_,
                          cm_connects_, measurement_, limit_, sharing_}};
    Teardown teardown_{context_,
                       {pool_, queue_pairs_, offered_rings_, resources_, messages_, closings_,
                        yielding_, lane_migrations_, repairs_, cm_connects_, measurement_, limit_}};
    ControlLanes lanes_{context_};
    ConnectionPool pool_{context_.options.connect_pool, context_.counters};
    QueuePairs queue_pairs_{context_, pool_};
    OfferedRings offered_rings_{context_, pool_};
    RemoteRings remote_rings_{context_, lanes_, pool_};
    SharedDraining shared_draining_{context_, lanes_};
    ConnectionResources resources_{context_,
                                   {pool_, queue_pairs_, offered_rings_, cm_connects_, limit_}};
    // Parts whose lists has_work() reads in each pass, next to each other.
    HandshakeMessages messages_{context_};
    Closings closings_{context_, lanes_, messages_, shared_draining_};
    Yielding yielding_{context_, messages_, closings_};
    LaneMigrations lane_migrations_{context_, lanes_, remote_rings_};
    Repairs repairs_{context_,
                     {queue_pairs_, offered_rings_, resources_, messages_, closings_,
                      lane_migrations_, shared_draining_, measurement_}};
    CmConnects cm_connects_{context_, queue_pairs_};
    PathMeasurement measurement_{context_, lanes_, lane_migrations_};
    ConnectionLimit limit_{context_, closings_, yielding_};
    SharingRules sharing_{context_, limit_};
};

} // namespace adaptib
