// SPDX-License-Identifier: BSD-3-Clause
// SendFlow: the order of the messages that this process sends to each peer.
//
// Purpose: a message that finds no room on the peer's channel is pending: it waits in
// PeerOut::pending, and all later ones wait behind it. SendFlow sends pending messages when there
// is room, sends and keeps control messages, holds requests during a disconnect or while the peer
// takes no messages (PeerEnding::queued), keeps synchronous ones until their acknowledgment, and
// puts messages that a repair finds in doubt before the others. Requests and fragments are sent by
// their kind's PendingSender when SendFlow says so.
//
// Invariants
//   1. While a peer has pending sends, every further send to it is appended to them.
//   2. A peer is in stalled_ as long as it has pending sends.
// Ownership: records of control and repeated messages are SendFlow's, from the pool; requests are
// the user's until Completions reports them, and fragments their transfer's.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, memory/, channel/, peer/, stats/, completions.h, lost_peers.h,
// request.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/id_table.h"
#include "base/intrusive_list.h"
#include "base/wire.h"
#include "memory/block_pool.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
#include "protocol/completions.h"
#include "protocol/lost_peers.h"
#include "protocol/request.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

// Sends the messages of one kind.
class PendingSender {
public:
    // Puts the message, or more of it, on the peer's channel, or ends it. Returns false if there is
    // no room now. If the peer is lost here, the message has ended, or ends with the peer.
    virtual bool transmit(PendingSend& send) = 0;

protected:
    ~PendingSender() = default;
};

class SendFlow final {
public:
    // Need not be constructed yet.
    struct Senders {
        PendingSender& tagged;    // of a SendRequest
        PendingSender& active;    // same, for a handler
        PendingSender& fragments; // of a SendTransfer::Fragments
    };

    // `connect_threshold`: messages sent before a connection is wanted (one of the `events`). The
    // pool outlives the flow.
    SendFlow(std::uint64_t connect_threshold, const Senders& senders, BlockPool& pool,
             Completions& completions, PeerEvents& events, LostPeers& lost, Counters& counters)
        : connect_threshold_(connect_threshold), senders_(senders), pool_(pool),
          completions_(completions), events_(events), lost_(lost), counters_(counters) {}

    // Sends a control message, now or behind what is pending.
    void send_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                      std::uint8_t flags = 0);
    // Same for a message of a put, get or atomic, which counts as one of the user's.
    void send_one_sided(Peer& peer, MessageType type, const void* body, std::size_t size);
    // A message of the user's has been sent. After connect_threshold of them it wants a connection.
    void note_sent(Peer& peer);
    // Appends a send that found no room, or has to wait behind others.
    void stall(Peer& peer, PendingSend& send);
    // Sends pending messages for which there is room. Returns the peers that have no pending sends
    // any more.
    const std::vector<Peer*>& retry();
    // Returns true if sends are pending.
    bool any_stalled() const { return !stalled_.empty(); }

    // Holds the request until the disconnect is over, or the peer takes messages again.
    void queue_send(SendRequest& request);
    // Sends held requests that may go now, or adds them to the pending ones, in their order.
    void send_queued(Peer& peer);
    // Holds pending requests of messages to be matched, which have sent nothing yet. All other
    // pending sends stay.
    void queue_pending(Peer& peer);
    std::size_t queued() const { return queued_; } // requests that are held, of all peers
    static bool must_queue(const Peer& peer, const SendRequest& request);
    // Makes a longer message an RTS if the peer takes announcements only.
    static void announce_if_asked(const Peer& peer, SendRequest& request);

    // Gives a synchronous message its id, by which the peer acknowledges it, unless it has one.
    void await_ack(SendRequest& request);
    // The message goes another way, or cannot be sent.
    void forget_ack(SendRequest& request);
    void on_sync_ack(Peer& peer, const IdBody& body);
    std::size_t waiting_acks() const { return waiting_acks_.size(); }
    // Calls f for the peer of each of them. May visit a peer more than once.
    template <typename F> void for_each_waiting_ack(F&& f) const {
        waiting_acks_.for_each([&](const SendRequest* request) { f(*request->peer); });
    }
    // Returns true if sends are held, or wait for acknowledgments.
    bool any_wait() const { return queued_ > 0 || waiting_acks_.size() > 0; }

    // Puts up the barrier: nothing is sent until resume(). REQUIRES: it is not there.
    void interrupt(Peer& peer);
    // Keeps the messages posted into peer.out.ring that may be lost.
    void on_fenced(Peer& peer);
    // Takes the barrier away, and sends what waited behind it as far as there is room.
    void resume(Peer& peer);

    // Ends all that is pending, held or waits for an acknowledgment. Messages to a peer that is
    // gone may be dropped so, too.
    void fail(Peer& peer);
    // At the end: same, but the requests are not reported as lost.
    void forget(Peer& peer);
    // Returns true if something besides disconnect messages is pending, or in doubt; what is in
    // doubt has ended for its sender, and counts only while the peer may still want it.
    static bool has_more_than_disconnects(const Peer& peer);

private:
    bool try_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                     std::uint8_t flags);
    bool transmit(PendingSend& send);
    bool flush(Peer& peer);
    template <typename F> void drop_all(Peer& peer, F&& on_request);
    void lift_barrier(Peer& peer);
    bool send_again(Peer& peer, RepeatedMessage& message);
    bool send_slices(Peer& peer, RepeatedMessage& message);
    void on_sent_again(Peer& peer, RepeatedMessage& message, Status status);
    void drop(RepeatedMessage& message) { pool_.release(&message, message.size()); }
    void drop(ControlMessage& message) { pool_.destroy(&message); }

    const std::uint64_t connect_threshold_;
    const Senders senders_;
    BlockPool& pool_;
    Completions& completions_;
    PeerEvents& events_;
    LostPeers& lost_;
    Counters& counters_;
    IntrusiveList<Peer, &Peer::flow, &PeerFlow::stalled_link> stalled_; // peers with pending sends
    std::size_t queued_ = 0; // sends in PeerEnding::queued
    IdTable<SendRequest> waiting_acks_;
    std::vector<Peer*> stalled_now_; // scratch of retry
    std::vector<Peer*> flushed_;     // likewise
};

} // namespace adaptib
