// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected transport: an initiator is connected to one target at a time. A target that
// serves as many initiators as it can refuses further ones, which try again later.
// Source: Takagi et al., 2.1.
#include "fabric/sim/rc.h"

namespace adaptib::sim {

// Returns false while the request's doorbell is on its way. The initiator reserves the engine only
// after that, so that no other request waits for it earlier.
bool RcQueuePair::is_heard(const Request& request) {
    if (request.ready <= simulator_.now()) {
        return true;
    }
    wait(Pause::doorbell, request.ready);
    return false;
}

// Returns false if the request has to wait for the last acknowledgement of the previous target, or
// for the connection. Connecting and disconnecting are packets: engine and target do nothing else
// meanwhile.
bool RcQueuePair::retarget(Request& request) {
    Path& path = static_cast<const SimAddressHandle*>(request.work.address_handle)->path();
    const bool same = dc_remote_ == request.work.remote_qp && path_ == &path;
    if (same && (dc_served_ || dc_connecting_ || is_remembered())) {
        return true;
    }
    if (sent_ > 0) {
        return false; // settle() pumps again
    }
    Nanoseconds begin = std::max(simulator_.now(), engine_.inside_until);
    if (dc_remote_ != 0) {
        begin = occupy(*path_, begin, machine_.dc.disconnect);
    }
    disconnect();
    dc_remote_ = request.work.remote_qp;
    dc_connecting_ = true;
    use_path(path);
    wait(Pause::target_busy, occupy(path, begin, machine_.dc.connect));
    return false;
}

// Sends a packet of that cost at both ends. Returns when it has left.
Nanoseconds RcQueuePair::occupy(const Path& path, Nanoseconds begin, Nanoseconds cost) {
    engine_.inside_until = begin + cost;
    engine_.free_at = std::max(engine_.free_at, begin) + cost;
    Wire& in = world_.wire_in(path.to);
    in.handled_at = std::max(in.handled_at, begin + cost + path.latency) + cost;
    return begin + cost;
}

// True if the target has served this initiator before, and no other one since.
bool RcQueuePair::is_remembered() const {
    const RcQueuePair* at = target();
    return at != nullptr && dc_turn_ != 0 && at->dc_turn_ == dc_turn_;
}

// Returns false if the target serves as many initiators as it can.
bool RcQueuePair::get_served(RcQueuePair& at) {
    if (dc_served_ && dc_life_ == at.dc_life_) {
        return true;
    }
    if (at.initiators_ >= std::max(machine_.dc.responders, 1u)) {
        return false;
    }
    ++at.initiators_;
    dc_served_ = true;
    dc_life_ = at.dc_life_;
    if (dc_connecting_ || at.dc_turn_ != dc_turn_) {
        dc_turn_ = ++at.dc_turn_;
    }
    dc_connecting_ = false;
    return true;
}

// Lets the target serve others, as this initiator has nothing more to send; it stays connected
// until the target does.
void RcQueuePair::let_others_be_served() {
    RcQueuePair* at = dc_served_ ? target() : nullptr;
    if (at != nullptr && at->dc_life_ == dc_life_ && at->initiators_ > 0) {
        --at->initiators_;
    }
    dc_served_ = false;
}

void RcQueuePair::disconnect() {
    if (type() == QpType::dc_target) {
        initiators_ = 0;
        ++dc_life_;
    }
    let_others_be_served();
    dc_remote_ = 0;
    dc_turn_ = type() == QpType::dc_target ? dc_turn_ : 0;
    dc_connecting_ = false;
}

} // namespace adaptib::sim
