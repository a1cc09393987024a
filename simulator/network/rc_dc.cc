// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected transport: an initiator is connected to one target at a time. A target that
// serves as many initiators as it can refuses further ones, which try again later.
// Source: Takagi et al., 2.1.
#include <algorithm>

#include "simulator/network/rc.h"

namespace adaptib::sim {

namespace {

// Sends a packet of that cost at both ends. Returns when it has left.
Nanoseconds occupy(Engine& engine, Wire& in, const Path& path, Nanoseconds begin,
                   Nanoseconds cost) {
    engine.inside_until = begin + cost;
    engine.free_at = std::max(engine.free_at, begin) + cost;
    in.handled_at = std::max(in.handled_at, begin + cost + path.latency) + cost;
    return begin + cost;
}

} // namespace

// Returns false while the request's doorbell is on its way. The initiator reserves the engine only
// after that, so that no other request waits for it earlier.
bool RcQueuePair::is_heard(const Request& request) {
    if (request.ready <= simulator_.now()) {
        return true;
    }
    retries_.wait(Pause::doorbell, request.ready);
    return false;
}

// Returns false if the request has to wait for the last acknowledgement of the previous target, or
// for the connection. Connecting and disconnecting are packets: engine and target do nothing else
// meanwhile.
bool RcQueuePair::retarget(Request& request) {
    Path& path = static_cast<const SimAddressHandle*>(request.work.address_handle)->path();
    const bool same = dc_.remote() == request.work.remote_qp && path_.get() == &path;
    if (same && (dc_.served() || dc_.connecting() || dc_.is_remembered(link_of(target())))) {
        return true;
    }
    if (requests_.sent() > 0) {
        return false; // settle() pumps again
    }
    Nanoseconds begin = std::max(simulator_.now(), engine_.inside_until);
    if (dc_.remote() != 0) {
        begin = occupy(engine_, world_.wire_in(path_->to), *path_, begin, machine_.dc.disconnect);
    }
    disconnect();
    dc_.connect(request.work.remote_qp);
    path_.use(engine_, path);
    retries_.wait(Pause::target_busy,
                  occupy(engine_, world_.wire_in(path.to), path, begin, machine_.dc.connect));
    return false;
}

// Lets the target serve others, as this initiator has nothing more to send; it stays connected
// until the target does.
void RcQueuePair::let_others_be_served() {
    dc_.let_others_be_served(dc_.served() ? link_of(target()) : nullptr);
}

void RcQueuePair::disconnect() {
    if (type() == QpType::dc_target) {
        dc_.forget_initiators();
        return;
    }
    let_others_be_served();
    dc_.forget_target();
}

} // namespace adaptib::sim
