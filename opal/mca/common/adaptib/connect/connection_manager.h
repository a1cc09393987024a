// SPDX-License-Identifier: BSD-3-Clause
// Connection management: brings a peer's subchannels and rings up, and takes them down
// (connect/README.md).
//
// Purpose: implements the three-way handshake request, reply, confirm over the datagram channel;
// the limit on connections; closing of idle ones. Both sides make one queue pair per path between
// their rails and offer the other a ring to write into; one handshake brings all of it up.
// Handshake messages have no sequence number of the peer's. Attempts are numbered, so that doubled
// messages are recognized and answered again.
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

#include "base/intrusive_list.h"
#include "base/parameters.h"
#include "base/status.h"
#include "channel/datagram.h"
#include "connect/closings.h"
#include "connect/cm_connects.h"
#include "connect/connect_context.h"
#include "connect/connection_limit.h"
#include "connect/connection_pool.h"
#include "connect/control_lanes.h"
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
#include "connect/yielding.h"
#include "peer/peer.h"

namespace adaptib {

class ConnectionManager final : private HandshakeListener,
                                private CmConnectListener,
                                private ClosingListener,
                                private RoomListener,
                                private RepairListener {
public:
    // `cqs`: the completion queue of each rail's queue pairs.
    ConnectionManager(const ConnectOptions& options, RailList rails,
                      std::span<const std::unique_ptr<CompletionQueue>> cqs, Counters& counters,
                      ConnectionListener& listener)
        : context_{options, rails, cqs, counters, listener} {}

    // Starts connecting if the peer is idle; without room, as soon as there is some.
    void request(Peer& peer) {
        if (peer.session.state == ConnectState::idle &&
            (!peer.connection.wanted_link.linked() || sharing_.need_not_wait(peer))) {
            ask_or_wait(peer);
        }
    }
    // Same as request(), but the peer does not wait for room.
    void request_if_room(Peer& peer) {
        if (peer.session.state == ConnectState::idle && limit_.has_room()) {
            static_cast<void>(ask(peer));
        }
    }
    // Starts closing the connection if it is open and nothing needs it.
    void give_up(Peer& peer) {
        if (peer.session.state == ConnectState::open && is_unused(peer)) {
            closings_.start(peer);
        }
    }
    // Which peers may share queue pairs, and which do.
    SharingRules& sharing() { return sharing_; }
    // Gives the peer a connection of that kind. An open one of the other kind is closed for it, if
    // nothing needs that, or once there is room. REQUIRES: SharingPreference::shared:
    // SharingRules::may_share().
    void take(Peer& peer, SharingPreference preference);
    // Draining of work over shared queue pairs.
    SharedDraining& shared_draining() { return shared_draining_; }
    // Called when a shared queue pair has failed that a connection not yet open is to use: the
    // connection goes over another one. Returns false if that is not the case.
    bool renew_shared(Peer& peer, Subchannel& subchannel);
    // Repairs of connections.
    Repairs& repairs() { return repairs_; }
    // Handles an arrived handshake message, which has passed check_message.
    void on_handshake(Peer& peer, const MessageHeader& header, const std::byte* body);
    // Handles a request that had to wait for the end of the connection before.
    void on_early_request(Peer& peer, const ConnectBody& body) { on_request(peer, body, kNeeded); }
    // Connects the peer that is this process itself: each queue pair with itself, without rings.
    Status open_loopback(Peer& self);
    // Takes the peer's queue pairs and rings down; its state becomes `state`.
    void close(Peer& peer, ConnectState state);
    // Breaks the connection off: queue pairs go to the error state, so that outstanding work
    // completes as flushed; the rings are not used any more. The peer's state becomes failed.
    void break_off(Peer& peer);
    // Sends handshake messages that found no room before; advances closing, repairs and the like.
    void retry();
    // Returns the index of the control lane: the subchannel that carries the peer's ring and
    // credit.
    std::size_t chosen_subchannel(Peer& peer) { return lanes_.chosen(peer); }
    // Migrates the control lane to that subchannel, as soon as work under way allows. Does nothing
    // if the subchannel cannot carry it now, or a migration is under way.
    void migrate_control_lane(Peer& peer, std::uint32_t to) { lane_migrations_.begin(peer, to); }
    // Measurement of peers' paths in the background.
    PathMeasurement& measurement() { return measurement_; }
    const PathMeasurement& measurement() const { return measurement_; }
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
    // Queue pairs that connect through rdma_cm.
    CmConnects& cm_connects() { return cm_connects_; }

    // Returns when retry() or ConnectionLimit::serve() has something to do next; max: never.
    Nanoseconds deadline() const {
        return std::min({limit_.deadline(), cm_connects_.deadline(), repairs_.deadline()});
    }
    // Limit on connections, and the peers that wait for one.
    ConnectionLimit& limit() { return limit_; }
    const ConnectionLimit& limit() const { return limit_; }

private:
    // Reasons for which the other side wants a connection.
    struct Need {
        bool any = false;      // there is traffic
        bool awaited = false;  // something large or one-sided waits
        bool required = false; // something that has no other way waits
    };
    static constexpr Need kNeeded{true, false, false};

    // handshake.cc
    bool ask(Peer& peer);
    void ask_or_wait(Peer& peer);
    void on_request(Peer& peer, const ConnectBody& body, Need need);
    void on_first_request(Peer& peer, const ConnectBody& body, Need need);
    void keep_for_later(Peer& peer, const ConnectBody& request);
    void on_reply(Peer& peer, const ConnectBody& body);
    void on_confirm(Peer& peer, const ConnectBody& body);
    void on_refuse(Peer& peer, const ConnectNote& note);
    void accept(Peer& peer, const ConnectBody& body, Need need);
    void refuse(Peer& peer, const ConnectBody& body, Need need);
    void say_refused(Peer& peer, const ConnectBody& body, RefusalReason reason);
    void say_refused(Peer& peer, RefusalReason reason);
    void lose(Peer& peer, const ConnectBody& body, Status status, const std::string& what);
    Status connect_subchannels(Peer& peer, const ConnectBody& body);
    static const ConnectSubchannel* find(const ConnectBody& body, const Subchannel& subchannel);
    void confirm(Peer& peer);
    void open(Peer& peer);

    // HandshakeListener
    void on_unsent(Peer& peer, Status status) override;
    // CmConnectListener
    void on_paths_connected(Peer& peer) override { confirm(peer); }
    void on_no_path(Peer& peer) override { wait_for_path(peer); }
    void on_cm_connect_failed(Peer& peer, const std::string& what) override;

    // sharing.cc
    void set_kind(Peer& peer, bool shared);
    void destroy_initiators(Peer& peer);
    void grant_preference(Peer& peer);

    // ClosingListener
    void on_closing_agreed(Peer& peer) override;
    void on_closing_broken(Peer& peer) override { repairs_.begin(peer); }
    void on_late_confirm(Peer& peer) override { open(peer); }

    // repair.cc. RepairListener
    void on_repair_begins(Peer& peer) override;
    void on_repair_late(Peer& peer) override;
    void on_repair_quiet(Peer& peer) override;
    void on_repair_ready(Peer& peer) override;
    void drop_ring_writer(Peer& peer);
    void wait_for_path(Peer& peer);
    bool take_over(Peer& peer, std::uint32_t expected);
    void end_repair(Peer& peer);

    // RoomListener
    bool on_room(Peer& peer) override { return ask(peer); }

    Status prepare(Peer& peer);
    void keep(Peer& peer);
    void drop_queue_pairs_of(Peer& peer);
    void drop_queue_pairs(Peer& peer);
    void fail(Peer& peer, Status status, const std::string& what);
    void leave(Peer& peer, ConnectState state);

    const ConnectContext context_;
    ControlLanes lanes_{context_};
    ConnectionPool pool_{context_.options.connect_pool, context_.counters};
    QueuePairs queue_pairs_{context_, pool_};
    OfferedRings offered_rings_{context_, pool_};
    RemoteRings remote_rings_{context_, lanes_, pool_};
    SharedDraining shared_draining_{context_, lanes_};
    // Parts whose lists has_work() reads in each pass, next to each other.
    HandshakeMessages messages_{context_, *this};
    Closings closings_{context_, lanes_, messages_, shared_draining_, *this};
    Yielding yielding_{context_, messages_, closings_};
    LaneMigrations lane_migrations_{context_, lanes_, remote_rings_};
    Repairs repairs_{context_, queue_pairs_, shared_draining_, *this};
    CmConnects cm_connects_{context_, queue_pairs_, *this};
    PathMeasurement measurement_{context_, lanes_, lane_migrations_};
    ConnectionLimit limit_{context_, closings_, yielding_, *this};
    SharingRules sharing_{context_, limit_};
};

} // namespace adaptib
