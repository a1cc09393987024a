// SPDX-License-Identifier: BSD-3-Clause
// ArrivalOrder: each peer's messages are handled in the order of their numbers, each once.
//
// Purpose: messages of a peer may take several channels, and so overtake each other, or arrive
// twice after a repair. A message has its turn when its number is the next one. An early message is
// kept until then; a message that had its turn before is dropped. The caller handles the messages:
// the fast path asks has_its_turn(), calls begin_turn(), handles the message, and then those kept
// ones whose turn it is; so it costs two comparisons and a count.
// Invariant: PeerIn::early holds no message that has had its turn, and is sorted by number.
// Bound: once kMostEarly bytes of a peer are kept, its ring is read only up to the next early
// message (keeps_enough()): the message that all wait for cannot lie behind it, since a ring is in
// order. The writer then waits for room. Beyond that come the datagrams of a window
// (channel/datagram_link.h) and, when a ring is taken down, what lies in it.
// Ownership: the kept messages lie in the pool; PeerIn links them.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/wire.h"
#include "memory/block_pool.h"
#include "peer/peer.h"
#include "protocol/lost_peers.h"
#include "stats/counters.h"

namespace adaptib {

class ArrivalOrder {
public:
    static constexpr Bytes kMostEarly = 128 * kKiB;

    ArrivalOrder(BlockPool& pool, LostPeers& lost, Counters& counters)
        : pool_(pool), lost_(lost), counters_(counters) {}

    static bool has_its_turn(const Peer& peer, std::uint32_t sequence) {
        return sequence == peer.in.next_receive && !peer.in.teardown_pending && !peer.in.unheard;
    }
    // Called before a message is handled. REQUIRES: has_its_turn().
    static void begin_turn(Peer& peer) { ++peer.in.next_receive; }
    // Returns true if no more early messages of the peer should be taken.
    static bool keeps_enough(const Peer& peer) { return peer.in.early_bytes >= kMostEarly; }
    // Takes a message whose turn it is not: keeps it, or drops it.
    void on_unordered(Peer& peer, const MessageHeader& header, const std::byte* body);
    // Begins the turn of the first kept message, if it is the next one. The caller handles it and
    // then release()s it. Null: there is none.
    static EarlyMessage* take_next(Peer& peer);
    void release(Peer& peer, EarlyMessage& message);
    // At the end: returns the kept messages to the pool.
    void forget(Peer& peer);

private:
    static EarlyMessage* place_of(const PeerIn& in, std::uint32_t sequence);
    void store_early(Peer& peer, const MessageHeader& header, const std::byte* body);
    static EarlyMessage& take_first(PeerIn& in);

    BlockPool& pool_;
    LostPeers& lost_;
    Counters& counters_;
};

} // namespace adaptib
