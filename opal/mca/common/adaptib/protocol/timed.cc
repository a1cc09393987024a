// SPDX-License-Identifier: BSD-3-Clause
// Active messages that could go two ways, through the ring or from buffer to buffer
// (protocol/eager_tuning.h).
#include "protocol/protocol.h"

namespace adaptib {

bool Protocol::send_active_timed(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                                 const void* second, Bytes second_bytes) {
    const Bytes bytes = first_bytes + second_bytes;
    if (peer.flow.copy_choice == nullptr || bytes < CopyChoice::kTimedFrom || bytes > active_max_) {
        return false;
    }
    return eager_tuning_.send_active(peer, bytes, [&] {
        return put_active_in_ring(peer, tag, first, first_bytes, second, second_bytes);
    });
}

} // namespace adaptib
