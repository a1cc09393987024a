// SPDX-License-Identifier: BSD-3-Clause
// Delivery: hands arrived messages to the protocol.
//
// Purpose: while channels are timed (ProgressEngine::time_channels), keeps the time that the
// protocol takes for a message out of the channel's, since it is the same for all channels.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, protocol/.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "base/wire.h"
#include "peer/peer.h"
#include "protocol/protocol.h"

namespace adaptib {

class Delivery {
public:
    struct Stopwatch {
        Nanoseconds clock; // the part of a time that reading the clock takes
        Nanoseconds aside; // time that is not the channel's
    };

    Delivery(Protocol& protocol, const Clock& clock) : protocol_(protocol), clock_(clock) {}

    // REQUIRES: the message has passed check_message.
    void hand_over(Peer& peer, const MessageHeader& header, const std::byte* body);
    // From now on adds the time for messages to `stopwatch->aside`. Null: nothing is timed.
    void time_by(Stopwatch* stopwatch) { stopwatch_ = stopwatch; }

private:
    Stopwatch* stopwatch_ = nullptr;
    Protocol& protocol_;
    const Clock& clock_;
};

} // namespace adaptib
