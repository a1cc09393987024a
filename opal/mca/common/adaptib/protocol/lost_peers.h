// SPDX-License-Identifier: BSD-3-Clause
// LostPeers: what the user is told of peers that are lost: messages whose send has completed may
// not have arrived.
//
// Purpose: keeps why a peer is lost, and whether the user has heard of it; the only writer of
// `ending.failure` and `ending.failure_reported`. A peer is lost in the middle of other work: from
// then on nothing goes to it, and no message of it is taken, but what waits for it ends in the next
// pass of progress (PeerEvent::lost). People are told at once, the user of the core in a pass with
// timers.
//
// Invariants
//   1. A peer is lost once, and reported at most once.
// Ownership: owns nothing; refers to events and counters.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, stats/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/severity.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
#include "stats/counters.h"

namespace adaptib {

class LostPeers {
public:
    using Handler = void (*)(void* context, Peer& peer);
    // Returns true if people have not been told yet that connections to this process are broken.
    using IsNews = std::function<bool(std::uint64_t process)>;

    // `is_news`: empty: each loss is news.
    LostPeers(PeerEvents& events, Counters& counters, MessageFunction message, IsNews is_news)
        : events_(events), counters_(counters), message_(std::move(message)),
          is_news_(std::move(is_news)) {}
    LostPeers(const LostPeers&) = delete;
    LostPeers& operator=(const LostPeers&) = delete;

    // Null: no call.
    void listen(Handler handler, void* context) {
        handler_ = handler;
        context_ = context;
    }
    // This process is about to finalize MPI: messages that nobody has received are nobody's
    // failure, so that peers of which no one-sided operation wants anything are lost without a
    // report. Until a process has ended without finalizing.
    void expect_all(bool on) { expects_all_ = on; }
    // The peer is lost. Does nothing if it was lost before.
    void lose(Peer& peer, const std::string& what);
    // Reports the loss, unless that was done. REQUIRES: the peer is lost, perhaps by a failure of
    // its connection that has not been handled yet.
    void report(Peer& peer);
    // Returns true if the peer is lost: nothing will come from it any more. The first such call
    // reports the loss, unless that was done before.
    bool is_lost(Peer& peer) {
        if (!peer.session.lost()) [[likely]] {
            return false;
        }
        report(peer);
        return true;
    }

    // Returns true if tell_user() has something to do.
    bool any() const { return !untold_.empty(); }
    // Calls the handler once for each peer reported since the last call. `find`: returns the peer
    // of that name that the user knows, which is no amo_peer; or null.
    template <typename Find> void tell_user(Find&& find) {
        for (const std::uint64_t name : std::exchange(untold_, {})) {
            Peer* peer = find(name);
            if (peer != nullptr && handler_ != nullptr) {
                handler_(context_, *peer);
            }
        }
    }

private:
    PeerEvents& events_;
    Counters& counters_;
    MessageFunction message_;
    IsNews is_news_;
    bool expects_all_ = false;
    std::vector<std::uint64_t> untold_; // names
    Handler handler_ = nullptr;
    void* context_ = nullptr;
};

} // namespace adaptib
