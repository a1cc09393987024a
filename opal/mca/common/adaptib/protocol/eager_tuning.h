// SPDX-License-Identifier: BSD-3-Clause
// EagerTuning: learns the eager limit, from messages that are long enough to go two ways: through
// the ring, or from buffer to buffer.
//
// Purpose: some copies into the ring are timed, and the peer's eager limit follows from these times
// (schedule/eager_limit.h).
// The limit learned this way is right for latency. In a stream, going from buffer to buffer makes
// the receiver fetch everything, one message after the other, while the sender has nothing to do.
// Through the ring both ends copy, and most processors move more data together even if each message
// takes longer. Some do not: if a store into a line that another processor had last is much more
// expensive than a load, copying once is up to three times as fast (benchmarks/TUNING.md). So long
// streams are timed now and then, each of the two ways, from one of their messages until the first
// one sent after something has come from the peer: the time that the program sees.
// Ownership: what is learnt belongs to the Peer; refers to the clock and the counters.
// Threads: one at a time (the core's lock).
// May touch: base/, channel/, schedule/, peer/, stats/.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/clock.h"
#include "base/units.h"
#include "peer/peer.h"
#include "stats/counters.h"

namespace adaptib {

class EagerTuning {
public:
    // `active_eager`: first value of active_eager(), and its minimum.
    EagerTuning(const Clock& clock, Bytes active_eager, Counters& counters)
        : clock_(clock), counters_(counters), least_active_eager_(active_eager),
          active_eager_(active_eager) {}

    // Both put a message into the ring by put(), which returns false if there is no room, and may
    // time that. Return false if nothing was sent: the caller sends the message in another way.
    // REQUIRES: the peer has a learnt_limit; `bytes` is at least EagerLimit::kTimedFrom, and for
    // send() at most EagerLimit::most().
    template <typename Put> bool send(Peer& peer, Bytes bytes, const Put& put);
    template <typename Put> bool send_active(Peer& peer, Bytes bytes, const Put& put);

    // Length up to which an active message is the fastest way to move data, as far as is known, to
    // the peer that was timed last. A caller that has another way may keep the reference, and reads
    // later values through it.
    const std::size_t& active_eager() const { return active_eager_; }
    // The caller has sent data of that length to the peer in its other way. Now and then raises
    // active_eager(), so that the next data goes as an active message and is timed.
    void on_active_declined(Peer& peer, Bytes bytes);

private:
    template <typename Put> bool put_timed(Peer& peer, Bytes bytes, const Put& put);
    void end_stream(Peer& peer);
    bool streams_through_ring(Peer& peer, Bytes bytes);
    void choose_stream_way(Peer& peer, Bytes bytes);
    void choose_active_eager(const Peer& peer);
    void set_active_eager(std::size_t bytes) {
        std::atomic_ref(active_eager_).store(bytes, std::memory_order_relaxed);
    }

    const Clock& clock_;
    Counters& counters_;
    const Bytes least_active_eager_;
    std::size_t active_eager_; // read by threads without the lock
};

// Times `put`, which copies `bytes` into the ring; the copy ends when its stores are complete.
// Returns false if `put` does.
template <typename Put> bool EagerTuning::put_timed(Peer& peer, Bytes bytes, const Put& put) {
    const Nanoseconds start = clock_.now();
    if (!put()) {
        return false;
    }
    std::atomic<int> drained{0}; // acts as a fence, which ThreadSanitizer does not know
    drained.exchange(1, std::memory_order_seq_cst);
    const Nanoseconds end = clock_.now();
    if (peer.out.ring->lapped()) { // in the first lap the kernel still gives the ring memory
        peer.flow.learnt_limit->note(bytes, end - start);
        peer.flow.eager_limit = peer.flow.learnt_limit->limit();
        counters_.eager_limit_bytes = peer.flow.eager_limit;
        ++counters_.copies_timed;
    }
    choose_active_eager(peer);
    return true;
}

template <typename Put> bool EagerTuning::send(Peer& peer, Bytes bytes, const Put& put) {
    EagerLimit* learnt = peer.flow.learnt_limit.get();
    const bool streams = streams_through_ring(peer, bytes);
    if (bytes > learnt->limit()) {
        return learnt->explore() ? put_timed(peer, bytes, put) : streams && put();
    }
    return learnt->times() ? put_timed(peer, bytes, put) : put();
}

template <typename Put> bool EagerTuning::send_active(Peer& peer, Bytes bytes, const Put& put) {
    EagerLimit* learnt = peer.flow.learnt_limit.get();
    const bool streamed = peer.flow.streams_through_ring;
    const bool trial =
        !streamed && active_eager_ > std::max<Bytes>(least_active_eager_, peer.flow.eager_limit);
    if (streams_through_ring(peer, bytes) != streamed) {
        choose_active_eager(peer);
    }
    const bool timed = peer.flow.streams_through_ring && bytes > learnt->limit()
                           ? learnt->explore()
                           : trial || learnt->times();
    return timed ? put_timed(peer, bytes, put) : put();
}

} // namespace adaptib
