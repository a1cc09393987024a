// SPDX-License-Identifier: BSD-3-Clause
// Learning the eager limit (protocol/eager_tuning.h).
#include "protocol/eager_tuning.h"

#include <algorithm>
#include <bit>

namespace adaptib {

namespace {

constexpr std::uint32_t kStream = 2;     // more messages in one direction are a stream
constexpr std::uint32_t kLongStream = 8; // a stream of more messages may be timed
constexpr Bytes kStreamTimeUnit = 4096;  // streams are compared by their time per so many bytes
// Handicap of 1/kPrice on copying once, from buffer to buffer: on most processors a stream through
// the ring is faster (eager_tuning.h), so it changes only where copying once clearly is.
constexpr int kPrice = 8;

WayChoice& choice_for(StreamChoices& choices, Bytes bytes) {
    const auto size = static_cast<std::size_t>(std::bit_width((bytes - 1) / kStreamSizesFrom));
    return choices[std::clamp<std::size_t>(size, 1, choices.size()) - 1];
}

} // namespace

// Ends the stream: something has come from the peer.
void EagerTuning::end_stream(Peer& peer) {
    Stream& stream = peer.flow.stream;
    if (stream.timed != nullptr) {
        const Nanoseconds all = clock_.now() - stream.start;
        const Nanoseconds took =
            all / static_cast<std::int64_t>(stream.bytes / kStreamTimeUnit + 1);
        stream.timed->note(stream.way, stream.way == kThroughRing ? took : took + took / kPrice);
        ++counters_.streams_timed;
    }
    stream = {.heard = peer.in.next_receive - peer.flow.fins_received};
}

// Counts a message. Returns true if messages that could go either way go through the ring, since
// they are part of a stream.
bool EagerTuning::streams_through_ring(Peer& peer, Bytes bytes) {
    Stream& stream = peer.flow.stream;
    if (peer.in.next_receive - peer.flow.fins_received != stream.heard) {
        end_stream(peer);
    }
    ++stream.sent;
    if (stream.sent > kStream && bytes > peer.flow.learnt_limit->limit()) {
        choose_stream_way(peer, bytes);
    }
    peer.flow.streams_through_ring = stream.sent > kStream && stream.way == kThroughRing;
    return peer.flow.streams_through_ring;
}

// Chooses the way for a message of a stream that could go either way.
void EagerTuning::choose_stream_way(Peer& peer, Bytes bytes) {
    Stream& stream = peer.flow.stream;
    WayChoice& choice = choice_for(*peer.flow.stream_choices, bytes);
    if (stream.sent <= kLongStream) {
        stream.way = choice.better();
    } else if (!stream.chosen) {
        stream.chosen = true;
        stream.bytes = 0;
        stream.way = choice.choose();
        if (choice.timed()) {
            stream.timed = &choice;
            stream.start = clock_.now();
        }
    }
    stream.bytes += bytes;
}

void EagerTuning::choose_active_eager(const Peer& peer) {
    set_active_eager(peer.flow.streams_through_ring
                         ? peer.flow.learnt_limit->most()
                         : std::max(least_active_eager_, peer.flow.eager_limit));
}

// Raises active_eager() until the next active message has been timed.
void EagerTuning::on_active_declined(Peer& peer, Bytes bytes) {
    EagerLimit* learnt = peer.flow.learnt_limit.get();
    if (learnt == nullptr || bytes <= learnt->limit() || bytes > learnt->most()) {
        return;
    }
    if (streams_through_ring(peer, bytes) || learnt->explore()) {
        set_active_eager(learnt->most());
    }
}

} // namespace adaptib
