// SPDX-License-Identifier: BSD-3-Clause
// PeerFlow: the part of a Peer for the limits of eager messages: those that are learnt, and those
// that the peer sets; and for the eager messages that are gathered from the user's buffers.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, channel/, schedule/, peer/.
#pragma once

#include <cstdint>
#include <memory>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "channel/gathered_messages.h"
#include "peer/allowance.h"
#include "peer/stream.h"
#include "schedule/eager_limit.h"

namespace adaptib {

class GatheredSends;
class Peer;

struct alignas(kCacheLine) PeerFlow {
    explicit PeerFlow(Bytes limit) : eager_limit(limit) {}

    std::uint32_t messages_sent = 0; // towards connect_threshold; meaningful until connected
    // session.next_send when the last retained message was taken. If it is one more at the next:
    // a ping-pong (RingPoller).
    std::uint32_t sent_at_last_long = 0;
    Bytes eager_limit;                  // of two-sided messages
    Allowance allowed = Allowance::all; // messages that this side may send
    // The next message may go through the ring, whatever the limit.
    bool streams_through_ring = false;
    std::uint32_t fins_received = 0;
    std::unique_ptr<EagerLimit> learnt_limit;      // null: eager_limit is fixed
    std::unique_ptr<StreamChoices> stream_choices; // if there is a learnt_limit
    Stream stream;
    UnexpectedShare unexpected;
    ListLink<Peer> restrained_link; // linked while unexpected.told is not `all`
    ListLink<Peer> stalled_link;    // linked while it has pending sends
    // Null: no message is gathered: the peer's memory is mapped, it has no ring, its queue pairs do
    // not gather, or gathering is off.
    GatheredSends* gathers = nullptr;
    GatheredMessages gathered; // under way, in the ring
    std::uint32_t lent = 0;    // messages under way as datagrams that read a buffer

    // Returns true if a message is under way whose request waits for the device.
    bool any_gathered() const { return !gathered.empty() || lent > 0; }
};

} // namespace adaptib
