// SPDX-License-Identifier: BSD-3-Clause
// MessageSends: sends of tagged messages that need a request.
//
// Purpose: puts the first message of a request on the peer's channel: an eager message, or the RTS
// of a long one (Rendezvous does the rest). A request that finds no room is left to SendFlow, which
// asks for it again (transmit()). Ends requests whose message is out, and keeps synchronous ones
// until their acknowledgment. Short contiguous messages go without a request (ring_sends.h). One
// file per event:
//
//     send.cc            the caller starts a send; pending ones go out when there is room
//     eager.cc           a synchronous message is acknowledged
//     rts.cc             an RTS (`rendezvous`) is sent
//
// Invariants
//   1. An eager request that is synchronous has an id, in waiting_acks_, once it has found room and
//      until it ends. One whose message is gathered is in PeerFlow::gathered, once that is on its
//      way. Other requests that wait are in the lists of SendFlow or Rendezvous.
// Ownership: requests are the user's until Completions reports them.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, peer/, stats/, protocol/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/data.h"
#include "base/id_table.h"
#include "base/status.h"
#include "base/wire.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/eager_tuning.h"
#include "protocol/gathered_sends.h"
#include "protocol/lost_peers.h"
#include "protocol/rendezvous.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/tagged_receives.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

// Notices and questions of sends to the owner.
class MessageSendsListener {
public:
    virtual void want_connection(Peer& peer) = 0;

protected:
    ~MessageSendsListener() = default;
};

class MessageSends final {
public:
    // Flow, rendezvous, tuning and transfers are used by calls only: they need not be constructed
    // yet.
    struct Parts {
        SendFlow& flow;
        Rendezvous& rendezvous;
        EagerTuning& eager_tuning;
        TransferEngine& transfers;
        ExposedMemory& memory;
        TaggedReceives& receives; // takes messages of this process to itself
    };

    // `connect_threshold`: messages sent before a connection is made.
    MessageSends(std::uint64_t connect_threshold, const Parts& parts, LostPeers& lost,
                 Counters& counters, MessageSendsListener& listener)
        : connect_threshold_(connect_threshold), flow_(parts.flow), rendezvous_(parts.rendezvous),
          eager_tuning_(parts.eager_tuning), receives_(parts.receives),
          back_pressure_(receives_.back_pressure()), completions_(receives_.completions()),
          lost_(lost), counters_(counters), listener_(listener),
          gathered_(parts.memory, parts.transfers, completions_, counters) {}

    // --- Calls of the user -----------------------------------------------------------------------
    // Sets `complete` to true if the request ended within the call; Completions does not report it
    // then. `peer`: null: this process. Errors: unreachable.
    Status send(Peer* peer, const Envelope& envelope, const Data& data, bool synchronous,
                SendCaller caller, UserRequest& user, bool& complete);
    // As RingSends::try_send, for a longer message; may time the copy into the ring.
    bool send_timed(Peer& peer, const Envelope& envelope, const Data& data);

    // Messages that devices gather from the users' buffers.
    GatheredSends& gathered() { return gathered_; }
    // Puts the request's first message on the channel. Returns false if there is no room now. If
    // the peer is lost here, the request has ended, or ends with the peer.
    bool transmit(SendRequest& request);
    // A message has been sent. After connect_threshold of them requests a connection.
    void note_sent(Peer& peer);

    // Messages of the peer. REQUIRES: they have passed check_message.
    void on_sync_ack(Peer& peer, const IdBody& body);
    void on_allowance(Peer& peer, std::uint8_t flags);

    // The peer has failed: a request that was pending or held will not be sent.
    void on_lost(SendRequest& request);
    // Ends all that is pending, held or waits for an acknowledgment. Messages to a peer that is
    // gone may be dropped so, too.
    void fail(Peer& peer);

    // Returns true if sends of tagged messages wait, for whatever reason.
    bool any_wait() const {
        return rendezvous_.sends() > 0 || waiting_acks_.size() > 0 || flow_.queued() > 0;
    }
    // Returns true while requests of tagged messages to or from the peer are under way: sends that
    // are not complete, and matched receives.
    bool has_messages_of(const Peer& peer) const;
    // Synchronous sends that wait for their acknowledgments.
    std::size_t waiting_acks() const { return waiting_acks_.size(); }
    // Calls f for the peer of each of them. May visit a peer more than once.
    void for_each_waiting_ack(const std::function<void(const Peer&)>& f) const;

private:
    Status start(SendRequest& request, bool& complete);
    bool transmit_eager(SendRequest& request);
    bool transmit_rendezvous(SendRequest& request);
    // May send to any peer, and fail it. REQUIRES: nothing is reserved, and the caller is through
    // with its own message.
    void on_own_send_waits() {
        if (back_pressure_.restrains()) [[unlikely]] {
            back_pressure_.release_all();
        }
    }

    const std::uint64_t connect_threshold_;
    SendFlow& flow_;
    Rendezvous& rendezvous_;
    EagerTuning& eager_tuning_;
    TaggedReceives& receives_;
    BackPressure& back_pressure_; // of receives_
    Completions& completions_;
    LostPeers& lost_;
    Counters& counters_;
    MessageSendsListener& listener_;
    GatheredSends gathered_;
    IdTable<SendRequest> waiting_acks_;
};

} // namespace adaptib
