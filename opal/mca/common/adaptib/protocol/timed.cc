// SPDX-License-Identifier: BSD-3-Clause
// Messages that are long enough for two ways: through the ring, or from buffer to buffer. Some of their copies
// into the ring are timed, and what follows from it becomes the peer's eager limit (schedule/copy_choice.h).
#include <algorithm>
#include <atomic>

#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kStream = 2; // messages in one direction; with more it is a stream

} // namespace

// The limit that is learnt is that of the latency. In a stream the receiver would have to fetch everything, one
// message after the other, while the sender has nothing to do: there both copy, and move more together even where
// each message takes longer.
bool Protocol::in_stream(Peer& peer) {
    const std::uint32_t heard = peer.next_receive - peer.finishes;
    if (heard != peer.burst.heard) {
        peer.burst = {heard, 0};
    }
    peer.streaming = ++peer.burst.sent > kStream;
    return peer.streaming;
}

void Protocol::choose_active_eager(const Peer& peer) {
    active_eager_ = peer.streaming ? peer.copy_choice->most()
                                   : std::max(options_.active_eager, peer.eager_limit);
}

// `put` copies `bytes` into the ring; the copy is over when the stores are no more under way.
template <typename F> bool Protocol::put_timed(Peer& peer, Bytes bytes, F&& put) {
    const Nanoseconds start = options_.clock->now();
    if (!put()) {
        return false;
    }
    std::atomic<int> drained{0}; // as a fence would, which ThreadSanitizer does not know
    drained.exchange(1, std::memory_order_seq_cst);
    const Nanoseconds end = options_.clock->now();
    if (peer.ring_out->lapped()) { // before, the kernel gives the ring its memory
        peer.copy_choice->note(bytes, end - start);
        peer.eager_limit = peer.copy_choice->limit();
        counters_.eager_limit_bytes = peer.eager_limit;
        ++counters_.copies_timed;
    }
    choose_active_eager(peer);
    return true;
}

bool Protocol::send_timed(Peer& peer, const Envelope& envelope, const Data& data) {
    CopyChoice* choice = peer.copy_choice.get();
    if (choice == nullptr || data.base == nullptr || data.bytes < CopyChoice::kTimedFrom ||
        data.bytes > choice->most()) {
        return false;
    }
    const auto put = [&] {
        return put_in_ring(peer, envelope.context, envelope.source, envelope.tag, data.base,
                           data.bytes);
    };
    const bool streams = in_stream(peer);
    if (data.bytes > choice->limit()) {
        return choice->explore() ? put_timed(peer, data.bytes, put) : streams && put();
    }
    return choice->times() ? put_timed(peer, data.bytes, put) : put();
}

bool Protocol::send_active_timed(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                                 const void* second, Bytes second_bytes) {
    CopyChoice* choice = peer.copy_choice.get();
    const Bytes bytes = first_bytes + second_bytes;
    if (choice == nullptr || bytes < CopyChoice::kTimedFrom || bytes > active_max_) {
        return false;
    }
    const auto put = [&] {
        return put_active_in_ring(peer, tag, first, first_bytes, second, second_bytes);
    };
    const bool streamed = peer.streaming;
    const bool trial =
        !streamed && active_eager_ > std::max(options_.active_eager, peer.eager_limit);
    if (in_stream(peer) != streamed) {
        choose_active_eager(peer);
    }
    const bool timed =
        peer.streaming && bytes > choice->limit() ? choice->explore() : trial || choice->times();
    return timed ? put_timed(peer, bytes, put) : put();
}

// Until the next one was timed.
void Protocol::on_not_active(Peer& peer, Bytes bytes) {
    CopyChoice* choice = peer.copy_choice.get();
    if (choice == nullptr || bytes <= choice->limit() || bytes > choice->most()) {
        return;
    }
    if (in_stream(peer) || choice->explore()) {
        active_eager_ = choice->most();
    }
}

} // namespace adaptib
