// SPDX-License-Identifier: BSD-3-Clause
// ProtocolReactions: the effects of the protocol's news of peers on the other parts of a core.
//
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <string>
#include <utility>

#include "base/process_name.h"
#include "base/severity.h"
#include "core/broken_connections.h"
#include "core/departures.h"
#include "core/environment.h"
#include "protocol/protocol.h"

namespace adaptib {

class ProtocolReactions final : public ProtocolListener {
public:
    ProtocolReactions(BrokenConnections& broken, MessageFunction message,
                      CoreEnvironment::IsNews is_news)
        : broken_(broken), message_(std::move(message)), is_news_(std::move(is_news)) {}

    // REQUIRES: before the first event of a peer. `departures` is made after this object.
    void begin(Departures& departures) { departures_ = &departures; }

    void on_broken(Peer& peer) override {
        if (!is_news_ || is_news_(process_of(peer.contact.name))) {
            message_(Severity::failure, peer.ending.failure);
        }
        broken_.add(peer);
    }
    void on_peer_disconnected(Peer& peer) override { departures_->add_disconnected(peer); }
    void on_peer_left(Peer& peer) override { departures_->add_leaving(peer); }
    bool leaves(Peer& peer) override { return departures_->leaves(peer); }

private:
    BrokenConnections& broken_;
    MessageFunction message_;
    CoreEnvironment::IsNews is_news_;
    Departures* departures_ = nullptr;
};

} // namespace adaptib
