// SPDX-License-Identifier: BSD-3-Clause
// Handshake: brings connections up with the three-way handshake request, reply, confirm
// (connect/connection_manager.h has the state diagram).
//
// Purpose: requests a peer's connection, and handles each message of the handshake as the state of
// the connection demands. Both sides make one queue pair per path between their rails and offer the
// other a ring to write into; one handshake brings all of it up. Attempts are numbered, so that
// doubled messages are recognized and answered again.
// Also begins the next connection when a closing, a repair or a lack of room is over.
// Threads: one at a time.
// Source: Yu, Gao, Panda, section 4.1.
// May touch: base/, channel/, fabric/, memory/, peer/, stats/.
#pragma once

#include <string>

#include "base/status.h"
#include "base/wire_connect.h"
#include "connect/closings.h"
#include "connect/cm_connects.h"
#include "connect/connect_context.h"
#include "connect/connection_limit.h"
#include "connect/connection_resources.h"
#include "connect/handshake_messages.h"
#include "connect/path_measurement.h"
#include "connect/queue_pairs.h"
#include "connect/remote_rings.h"
#include "connect/repairs.h"
#include "connect/sharing_rules.h"
#include "connect/teardown.h"

namespace adaptib {

class Handshake {
public:
    struct Parts {
        QueuePairs& queue_pairs;
        RemoteRings& remote_rings;
        ConnectionResources& resources;
        Teardown& teardown;
        HandshakeMessages& messages;
        Repairs& repairs;
        CmConnects& cm_connects;
        PathMeasurement& measurement;
        ConnectionLimit& limit;
        SharingRules& sharing;
    };
    Handshake(const ConnectContext& context, const Parts& parts)
        : context_(context), parts_(parts) {}

    // Starts connecting if the peer is idle; without room, as soon as there is some.
    void request(Peer& peer) {
        if (peer.session.state == ConnectState::idle &&
            (!peer.connection.wanted_link.linked() || parts_.sharing.need_not_wait(peer))) {
            ask_or_wait(peer);
        }
    }
    // Same as request(), but the peer does not wait for room.
    void request_if_room(Peer& peer) {
        if (peer.session.state == ConnectState::idle && !rests(peer) && parts_.limit.has_room()) {
            static_cast<void>(ask(peer));
        }
    }
    // Returns true if the message may say that the other side has fenced the connection that is
    // being repaired: then messages that it had stored in the ring are to be taken before
    // on_message(), which makes the ring anew.
    static bool may_say_fenced(const Peer& peer, MessageType type) {
        return peer.interruption.repair.active &&
               (type == MessageType::connect_request || type == MessageType::connect_reply ||
                type == MessageType::connect_refuse);
    }
    // Handles an arrived request, reply, confirmation or refusal, which has passed check_message.
    void on_message(Peer& peer, const MessageHeader& header, const std::byte* body);
    // Handles a request that had to wait for the end of the connection before.
    void on_early_request(Peer& peer, const ConnectBody& body) { on_request(peer, body, kNeeded); }
    // Handles a request that was kept for the end of a disconnect which the peer has revoked.
    void on_disconnect_revoked(Peer& peer);
    // Called when a shared queue pair has failed that a connection not yet open is to use: the
    // connection goes over another one. Returns false if that is not the case.
    bool renew_shared(Peer& peer, Subchannel& subchannel);
    // Goes on with what has waited for that.
    void on_events_handled(Peer& peer, ConnectEventSet handled);

    // ---- Outcomes of other classes of connect/, which ConnectionManager passes on

    // There is room for a peer that has waited for it. Returns false if it still waits.
    bool on_room(Peer& peer) { return ask(peer); }
    // This side is fenced, and the other side has requested the connection anew.
    void on_kept_request(Peer& peer, const ConnectBody& request);
    // Nothing of a closing connection is under way on either side, and the ring is taken: takes the
    // connection down.
    void on_closing_agreed(Peer& peer);
    // The other side closes the connection, so it has it open: its confirmation is late.
    void on_late_confirm(Peer& peer) { open(peer); }
    // Queue pairs have been connected through rdma_cm, or not.
    void on_cm_connected(Peer& peer) { confirm(peer); }
    void on_cm_connect_failed(Peer& peer, const std::string& what);

private:
    // Reasons for which the other side wants a connection.
    struct Need {
        bool any = false;      // there is traffic
        bool awaited = false;  // something large or one-sided waits
        bool required = false; // something that has no other way waits
    };
    static constexpr Need kNeeded{true, false, false};

    // Returns true while the peer goes without a connection.
    bool rests(const Peer& peer) const {
        return peer.connection.without.until.count() > 0 &&
               context_.options.clock->now() < peer.connection.without.until;
    }
    bool ask(Peer& peer);
    void ask_or_wait(Peer& peer);
    void on_request(Peer& peer, const ConnectBody& body, Need need);
    void on_first_request(Peer& peer, const ConnectBody& body, Need need);
    static bool is_behind(const Peer& peer, const ConnectBody& body);
    static void keep_for_later(Peer& peer, const ConnectBody& request);
    void on_reply(Peer& peer, const ConnectBody& body);
    void on_confirm(Peer& peer, const ConnectBody& body);
    void on_refuse(Peer& peer, const ConnectNote& note);
    void ask_later(Peer& peer);
    void accept(Peer& peer, const ConnectBody& body, Need need);
    void refuse(Peer& peer, const ConnectBody& body, Need need);
    void go_without(Peer& peer, const ConnectBody& body);
    void say_refused(Peer& peer, const ConnectBody& body, RefusalReason reason);
    void say_refused(Peer& peer, RefusalReason reason);
    void lose(Peer& peer, const ConnectBody& body, Status status, const std::string& what);
    Status connect_subchannels(Peer& peer, const ConnectBody& body);
    static const ConnectSubchannel* find(const ConnectBody& body, const Subchannel& subchannel);
    void confirm(Peer& peer);
    void open(Peer& peer);
    void grant_preference(Peer& peer);

    const ConnectContext& context_;
    const Parts parts_;
};

} // namespace adaptib
