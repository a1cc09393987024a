// SPDX-License-Identifier: BSD-3-Clause
// SendFlow: the order of the messages that this process sends to each peer.
//
// Purpose: a message that finds no room on the peer's channel is pending: it waits in
// PeerOut::pending, and all later ones wait behind it. SendFlow sends pending messages when there
// is room, sends and keeps control messages, holds requests during a disconnect or while the peer
// takes no messages (PeerEnding::queued), and puts messages that a repair finds in doubt before the
// others. Requests and fragments are its owner's, which sends them when SendFlow says so.
//
//     send_flow.cc    control messages; pending and queued sends
//     repaired.cc     a connection is repaired: messages in doubt are sent again
//
// Invariants
//   1. While a peer has pending sends, every further send to it is appended to them.
//   2. A peer is in stalled_ as long as it has pending sends.
// Ownership: records of control and repeated messages are SendFlow's, from the pool; requests and
// fragments are the owner's.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, memory/, channel/, peer/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/intrusive_list.h"
#include "base/wire.h"
#include "memory/block_pool.h"
#include "peer/peer.h"
#include "protocol/lost_peers.h"
#include "protocol/request.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

// Notices and questions to the owner of requests and fragments.
class SendFlowListener {
public:
    // Sends a request, or fragments, or ends them. Returns false if there is no room now.
    virtual bool send_pending(PendingSend& send) = 0;
    // The peer has failed: the request will not be sent.
    virtual void on_send_lost(SendRequest& request) = 0;
    // Nothing is pending any more.
    virtual void on_flushed(Peer& peer) = 0;
    // Returns true if the peer's process is gone and nothing is wanted of it: that is no failure.
    virtual bool leaves(Peer& peer) = 0;
    virtual void want_repair(Peer& peer) = 0;

protected:
    ~SendFlowListener() = default;
};

class SendFlow final {
public:
    // The pool outlives the flow.
    SendFlow(BlockPool& pool, LostPeers& lost, Counters& counters, SendFlowListener& listener)
        : pool_(pool), lost_(lost), counters_(counters), listener_(listener) {}

    // Sends a control message, now or behind what is pending.
    void send_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                      std::uint8_t flags = 0);
    // Appends a send that found no room, or has to wait behind others.
    void stall(Peer& peer, PendingSend& send);
    // Sends pending messages for which there is room. Returns the number of peers that have no
    // pending sends any more.
    std::size_t retry();
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

    // Puts up the barrier: nothing is sent until resume(). REQUIRES: it is not there.
    void interrupt(Peer& peer);
    // Keeps the messages posted into peer.out.ring that may be lost.
    void on_fenced(Peer& peer);
    // Takes the barrier away, and sends what waited behind it.
    void resume(Peer& peer);

    // Drops all that is pending or held. REQUIRES: the peer has failed.
    void fail(Peer& peer);
    // At the end: same, but the requests are not reported as lost.
    void forget(Peer& peer);
    // Returns true if something besides disconnect messages is pending, or in doubt; what is in
    // doubt has ended for its sender, and counts only while the peer may still want it.
    static bool has_more_than_disconnects(const Peer& peer);

private:
    bool try_control(Peer& peer, MessageType type, const void* body, std::size_t size,
                     std::uint8_t flags);
    bool flush(Peer& peer);
    template <typename F> void drop_all(Peer& peer, F&& on_request);
    void lift_barrier(Peer& peer);
    bool send_again(Peer& peer, RepeatedMessage& message);
    bool send_slices(Peer& peer, RepeatedMessage& message);
    void on_sent_again(Peer& peer, RepeatedMessage& message, Status status);
    void drop(RepeatedMessage& message) { pool_.release(&message, message.size()); }
    void drop(ControlMessage& message) { pool_.destroy(&message); }

    BlockPool& pool_;
    LostPeers& lost_;
    Counters& counters_;
    SendFlowListener& listener_;
    IntrusiveList<Peer, &Peer::flow, &PeerFlow::stalled_link> stalled_; // peers with pending sends
    std::size_t queued_ = 0;         // sends in PeerEnding::queued
    std::vector<Peer*> stalled_now_; // scratch of retry
};

} // namespace adaptib
