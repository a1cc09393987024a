// SPDX-License-Identifier: BSD-3-Clause
// MessageSends: sends of tagged messages that need a request.
//
// Purpose: puts the first message of a request on the peer's channel: an eager message, or the RTS
// of a long one (Rendezvous does the rest). A request that finds no room is left to SendFlow, which
// asks for it again (transmit()). Ends requests whose message is out; SendFlow keeps synchronous
// ones until their acknowledgment. Short contiguous messages go without a request (ring_sends.h).
//
// Invariants
//   1. An eager request that is synchronous waits for its acknowledgment once it has found room,
//      and until it ends. One whose message is gathered is in PeerFlow::gathered, once that is on
//      its way. Other requests that wait are in the lists of SendFlow or Rendezvous.
// Ownership: requests are the user's until Completions reports them.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, peer/, stats/, protocol/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/data.h"
#include "base/status.h"
#include "base/wire.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
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

class MessageSends final : public PendingSender {
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

    MessageSends(const Parts& parts, PeerEvents& events, LostPeers& lost, Counters& counters)
        : flow_(parts.flow), rendezvous_(parts.rendezvous), eager_tuning_(parts.eager_tuning),
          receives_(parts.receives), back_pressure_(receives_.back_pressure()),
          completions_(receives_.completions()), events_(events), lost_(lost), counters_(counters),
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
    // Puts the first message of a SendRequest on the channel.
    bool transmit(PendingSend& send) override;
    // The peer says which messages it takes. REQUIRES: the message has passed check_message.
    void on_allowance(Peer& peer, std::uint8_t flags);
    // Ends all that is pending, held or waits for an acknowledgment. Messages to a peer that is
    // gone may be dropped so, too.
    void fail(Peer& peer);

    // Returns true if sends of tagged messages wait, for whatever reason.
    bool any_wait() const { return rendezvous_.sends() > 0 || flow_.any_wait(); }
    // Returns true while requests of tagged messages to or from the peer are under way: sends that
    // are not complete, and matched receives.
    bool has_messages_of(const Peer& peer) const;

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

    SendFlow& flow_;
    Rendezvous& rendezvous_;
    EagerTuning& eager_tuning_;
    TaggedReceives& receives_;
    BackPressure& back_pressure_; // of receives_
    Completions& completions_;
    PeerEvents& events_;
    LostPeers& lost_;
    Counters& counters_;
    GatheredSends gathered_;
};

} // namespace adaptib
