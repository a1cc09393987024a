// SPDX-License-Identifier: BSD-3-Clause
// Messages that could go two ways, through the ring or from buffer to buffer
// (protocol/eager_tuning.h).
#include "protocol/protocol.h"

namespace adaptib {

bool Protocol::send_timed(Peer& peer, const Envelope& envelope, const Data& data) {
    CopyChoice* choice = peer.flow.copy_choice.get();
    if (choice == nullptr || data.base == nullptr || data.bytes < CopyChoice::kTimedFrom ||
        data.bytes > choice->most() || peer.flow.allowed != Allowance::all) {
        return false;
    }
    return eager_tuning_.send(peer, data.bytes, [&] {
        return put_in_ring(peer, envelope.context, envelope.source, envelope.tag, data.base,
                           data.bytes);
    });
}

} // namespace adaptib
