// SPDX-License-Identifier: BSD-3-Clause
// Back-pressure: this process tells a peer what it may send (back_pressure.h).
#include "protocol/protocol.h"

namespace adaptib {

void Protocol::on_allowed(Peer& peer, Allowance allowance) {
    counters_.peers_restrained += allowance == Allowance::nothing ? 1 : 0;
    flow_.send_control(peer, MessageType::allowance, nullptr, 0,
                       static_cast<std::uint8_t>(allowance));
}

Allowance Protocol::least_for(const Peer& peer) const {
    if (sends_.any_wait() || peer.session.disconnect_sent) { // nothing follows a disconnect
        return Allowance::all;
    }
    return receives_.may_await(peer) ? Allowance::announcements : Allowance::nothing;
}

} // namespace adaptib
