// SPDX-License-Identifier: BSD-3-Clause
// BrokenConnections: tells the user of the core of peers whose connection broke while something was
// outstanding on it or awaited: messages whose send has completed may not have arrived.
//
// Purpose: a connection breaks in the middle of other work, so the user hears of it later, from a
// pass with timers. A failed peer's record stays, so the list may wait.
// Threads: one at a time (the core's lock).
// May touch: peer/.
#pragma once

#include <utility>
#include <vector>

#include "peer/peer.h"

namespace adaptib {

class BrokenConnections {
public:
    using Handler = void (*)(void* context, Peer& peer);
    // Null: no call.
    void listen(Handler handler, void* context) {
        handler_ = handler;
        context_ = context;
    }
    void add(const Peer& peer) { peers_.push_back(&peer); }
    bool any() const { return !peers_.empty(); }
    // Calls the handler once for each peer added since the last call. `find`: returns the peer of
    // that name that the user knows, which is no amo_peer; or null.
    template <typename Find> void report(Find&& find) {
        for (const Peer* broken : std::exchange(peers_, {})) {
            Peer* peer = find(broken->contact.name);
            if (peer != nullptr && handler_ != nullptr) {
                handler_(context_, *peer);
            }
        }
    }

private:
    std::vector<const Peer*> peers_;
    Handler handler_ = nullptr;
    void* context_ = nullptr;
};

} // namespace adaptib
