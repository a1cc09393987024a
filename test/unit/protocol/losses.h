// SPDX-License-Identifier: BSD-3-Clause
// LostPeers, whose reports a test reads.
#pragma once

#include <string>
#include <vector>

#include "peer/peer_events.h"
#include "protocol/lost_peers.h"
#include "unit/messages.h"

namespace adaptib::test {

struct Losses {
    explicit Losses(Counters& counters) : peers(events, counters, messages_into(reported), {}) {}

    // Returns true if that peer alone has been lost since the last call; then what waits for it is
    // to end.
    bool only(const Peer& peer) {
        return events.take(PeerEvent::lost) == std::vector<Peer*>{const_cast<Peer*>(&peer)};
    }
    bool none() const { return !events.any(PeerEvent::lost); }

    PeerEvents events;
    std::vector<std::string> reported;
    LostPeers peers;
};

} // namespace adaptib::test
