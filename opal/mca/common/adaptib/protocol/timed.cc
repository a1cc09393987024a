// SPDX-License-Identifier: BSD-3-Clause
// Learning the eager limit, from messages that are long enough to go two ways: through the ring, or
// from buffer to buffer. Some of their copies into the ring are timed, and the peer's eager limit
// follows from these times (schedule/copy_choice.h).
//
// The limit learned this way is right for latency. In a stream, going from buffer to buffer makes
// the receiver fetch everything, one message after the other, while the sender has nothing to do.
// Through the ring both ends copy, and most processors move more data together even if each message
// takes longer. Some do not: if a store into a line that another processor had last is much more
// expensive than a load, copying once is up to three times as fast (test/bench/TUNING.md). So long
// streams are timed now and then, each of the two ways, from one of their messages until the first
// one sent after something has come from the peer: the time that the program sees.
#include <algorithm>
#include <atomic>
#include <bit>

#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kStream = 2;     // more messages in one direction are a stream
constexpr std::uint32_t kLongStream = 8; // a stream of more messages may be timed
constexpr Bytes kTold = 4096;            // streams are compared by their time per kTold bytes
constexpr int kPrice = 8;                // copying once has to be faster by 1/kPrice

WayChoice& choice_for(StreamChoices& choices, Bytes bytes) {
    const auto size = static_cast<std::size_t>(std::bit_width((bytes - 1) / kStreamSizesFrom));
    return choices[std::clamp<std::size_t>(size, 1, choices.size()) - 1];
}

} // namespace

// Ends the stream: something has come from the peer.
void Protocol::end_stream(Peer& peer) {
    Stream& stream = peer.stream;
    if (stream.timed != nullptr) {
        const Nanoseconds all = options_.clock->now() - stream.start;
        const Nanoseconds took = all / static_cast<std::int64_t>(stream.bytes / kTold + 1);
        stream.timed->note(stream.way, stream.way == kThroughRing ? took : took + took / kPrice);
        ++counters_.streams_timed;
    }
    stream = {.heard = peer.next_receive - peer.finishes};
}

// Counts a message. Returns true if messages that could go either way go through the ring, since
// they are part of a stream.
bool Protocol::streams_through_ring(Peer& peer, Bytes bytes) {
    Stream& stream = peer.stream;
    if (peer.next_receive - peer.finishes != stream.heard) {
        end_stream(peer);
    }
    ++stream.sent;
    if (stream.sent > kStream && bytes > peer.copy_choice->limit()) {
        choose_stream_way(peer, bytes);
    }
    peer.streaming = stream.sent > kStream && stream.way == kThroughRing;
    return peer.streaming;
}

// Chooses the way for a message of a stream that could go either way.
void Protocol::choose_stream_way(Peer& peer, Bytes bytes) {
    Stream& stream = peer.stream;
    WayChoice& choice = choice_for(*peer.stream_choices, bytes);
    if (stream.sent <= kLongStream) {
        stream.way = choice.better();
    } else if (!stream.chosen) {
        stream.chosen = true;
        stream.bytes = 0;
        stream.way = choice.choose();
        if (choice.timed()) {
            stream.timed = &choice;
            stream.start = options_.clock->now();
        }
    }
    stream.bytes += bytes;
}

void Protocol::choose_active_eager(const Peer& peer) {
    active_eager_ = peer.streaming ? peer.copy_choice->most()
                                   : std::max(options_.active_eager, peer.eager_limit);
}

// Times `put`, which copies `bytes` into the ring; the copy ends when its stores are complete.
// Returns false if `put` does.
template <typename F> bool Protocol::put_timed(Peer& peer, Bytes bytes, F&& put) {
    const Nanoseconds start = options_.clock->now();
    if (!put()) {
        return false;
    }
    std::atomic<int> drained{0}; // acts as a fence, which ThreadSanitizer does not know
    drained.exchange(1, std::memory_order_seq_cst);
    const Nanoseconds end = options_.clock->now();
    if (peer.ring_out->lapped()) { // in the first lap the kernel still gives the ring memory
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
        data.bytes > choice->most() || peer.allowed != Allowance::all) {
        return false;
    }
    const auto put = [&] {
        return put_in_ring(peer, envelope.context, envelope.source, envelope.tag, data.base,
                           data.bytes);
    };
    const bool streams = streams_through_ring(peer, data.bytes);
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
    if (streams_through_ring(peer, bytes) != streamed) {
        choose_active_eager(peer);
    }
    const bool timed =
        peer.streaming && bytes > choice->limit() ? choice->explore() : trial || choice->times();
    return timed ? put_timed(peer, bytes, put) : put();
}

// Raises active_eager() until the next active message has been timed.
void Protocol::on_active_declined(Peer& peer, Bytes bytes) {
    CopyChoice* choice = peer.copy_choice.get();
    if (choice == nullptr || bytes <= choice->limit() || bytes > choice->most()) {
        return;
    }
    if (streams_through_ring(peer, bytes) || choice->explore()) {
        active_eager_ = choice->most();
    }
}

} // namespace adaptib
