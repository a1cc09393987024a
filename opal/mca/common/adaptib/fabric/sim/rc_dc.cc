// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected transport: an initiator is connected to one target at a time; a target that
// serves as many initiators as it can refuses further ones, which come again.
// Source: Takagi et al., 2.1.
#include "fabric/sim/rc.h"

namespace adaptib::sim {

// False: the request has to wait, for the last answer of the target before or for the connection.
bool RcQueuePair::retarget(Request& request) {
    Path& path = static_cast<const SimAddressHandle*>(request.work.address_handle)->path();
    if (dc_remote_ == request.work.remote_qp && path_ == &path) {
        return true;
    }
    if (sent_ > 0) {
        return false; // settling goes on with the next
    }
    const Nanoseconds cost =
        (dc_remote_ != 0 ? machine_.dc_disconnect : Nanoseconds{0}) + machine_.dc_connect;
    disconnect();
    dc_remote_ = request.work.remote_qp;
    use_path(path);
    wait(Pause::target_busy, std::max(simulator_.now(), request.ready) + cost);
    return false;
}

// An initiator that has nothing more to send lets others be served; it stays connected.
void RcQueuePair::let_others_be_served() {
    RcQueuePair* at = dc_served_ ? target() : nullptr;
    if (at != nullptr && at->initiators_ > 0) {
        --at->initiators_;
    }
    dc_served_ = false;
}

void RcQueuePair::disconnect() {
    let_others_be_served();
    dc_remote_ = 0;
}

} // namespace adaptib::sim
