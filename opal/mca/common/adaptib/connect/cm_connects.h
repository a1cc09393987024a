// SPDX-License-Identifier: BSD-3-Clause
// CmConnects: connections whose queue pairs connect through rdma_cm (fabric/capability.h,
// Capability::cm_connects; parameter connect_method).
//
// Request and reply tell each side which queue pairs the other one has. Then each queue pair of the
// requesting side connects to its counterpart through the network's own service; when the last one
// is connected, the requesting side confirms. So each connection has one initiator, decided by the
// handshake, and rdma_cm connects never cross.
//
// A failed connect is tried again, after a pause that doubles, with a random part. So is one
// without any event for a second (which doubles, too: the other side may be busy), since the
// message that it waits for may be lost, and the service is slow to repeat it. Limits:
//   * once the queue pairs of another path are connected: 2 s more; then the connection does
//     without this path;
//   * in a repair: 10 s; then both sides look for paths again;
//   * otherwise, if the network reports an error, partition_timeout; if there is just no answer, as
//     long as the peer may be alive (recovery/liveness.h): it answers when it calls MPI. Then the
//     peer is lost, at both ends.
// The confirmation tells the other side which paths there are.
// Time is that of the attended clock.
// Threads: one at a time.
// May touch: base/, fabric/, peer/, recovery/, stats/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/intrusive_list.h"
#include "connect/connect_context.h"
#include "connect/queue_pairs.h"

namespace adaptib {

class CmConnects {
public:
    enum class Outcome : std::uint8_t {
        connected, // all queue pairs that are left are, at the initiator
        no_path,   // no queue pair could be connected in a repair
        failed,    // none could be connected, or the initiator has not confirmed that
    };
    // Called when the connects of a peer are over. `what`: of `failed`.
    using Done = std::function<void(Peer& peer, Outcome outcome, const std::string& what)>;

    CmConnects(const ConnectContext& context, QueuePairs& queue_pairs)
        : context_(context), queue_pairs_(queue_pairs) {}

    // Called before the peer's queue pairs begin to connect. `body`: the request or reply of the
    // other side; `initiates`: this side does.
    void prepare(Peer& peer, const ConnectBody& body, bool initiates);
    // Watches the peer's queue pairs from now on. Returns false if none has to connect through
    // rdma_cm.
    bool begin(Peer& peer);
    void leave(Peer& peer);
    // Returns true while queue pairs connect: the fabrics' events are awaited, and advance() is to
    // be called again and again.
    bool active() const { return !connecting_.empty(); }
    void advance(const Done& done);
    // Called for events of the fabrics.
    void on_connected(std::uint32_t rail, std::uint32_t qp_number);
    void on_failed(std::uint32_t rail, std::uint32_t qp_number, const std::string& why);
    // Returns when advance() has something to do; max: nothing.
    Nanoseconds deadline() const { return active() ? next_step() : Nanoseconds::max(); }

private:
    Peer* find(std::uint32_t rail, std::uint32_t qp_number, Subchannel*& subchannel);
    void advance_one(Peer& peer, const Done& done);
    void try_again(Peer& peer, Subchannel& subchannel);
    void end(Peer& peer, const Done& done);
    static bool is_unanswered(const Peer& peer);
    Nanoseconds ends_at(const Peer& peer) const;
    bool is_late(Peer& peer, Nanoseconds now);
    Nanoseconds next_step() const;

    IntrusiveList<Peer, &Peer::connection, &PeerConnection::cm_connect_link> connecting_;
    const ConnectContext& context_;
    QueuePairs& queue_pairs_;
    bool late_reported_ = false;
};

} // namespace adaptib
