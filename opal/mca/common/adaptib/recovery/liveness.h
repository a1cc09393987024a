// SPDX-License-Identifier: BSD-3-Clause
// Liveness: for how long a peer may be silent before it is given up.
//
// Purpose: the one rule that every wait for a peer's answer ends by (datagrams, handshakes,
// repairs, paths). Time alone is no evidence: a process that computes is silent, too. So of the
// time that something has been waited for only that counts in which nothing has shown the peer to
// be alive, be it something that the peer has sent itself or what the system says of a process of
// this host; a peer is given up once that is as long as `patience` (parameter partition_timeout). A
// process that is known to have ended is given up at once, elsewhere.
//
//     since ---------- alive --------------------- alive + patience
//       waited for      last evidence                given up
//
// Time is that of the attended clock: nobody is silent while this process does not listen.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <algorithm>

#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class Liveness {
public:
    // max: never.
    explicit Liveness(Nanoseconds patience = Nanoseconds::max()) : patience_(patience) {}

    Nanoseconds patience() const { return patience_; }

    static void note(PeerLife& life, Evidence evidence, Nanoseconds now) {
        life.alive = std::max(life.alive, now);
        life.evidence = evidence;
    }
    // The last evidence that the peer lives. `heard`: when the last datagram came from it.
    static Nanoseconds last(const PeerLife& life, Nanoseconds heard) {
        return std::max(life.alive, heard);
    }
    static Nanoseconds last(const Peer& peer) { return last(peer.life, peer.datagram.heard); }
    // When a peer is given up for whom something has waited since then, if nothing shows it to live
    // before. max: never.
    Nanoseconds ends_at(const PeerLife& life, Nanoseconds heard, Nanoseconds since) const {
        const Nanoseconds from = std::max(since, last(life, heard));
        return patience_ < Nanoseconds::max() - from ? from + patience_ : Nanoseconds::max();
    }
    Nanoseconds ends_at(const Peer& peer, Nanoseconds since) const {
        return ends_at(peer.life, peer.datagram.heard, since);
    }

private:
    Nanoseconds patience_;
};

// Can look for evidence of a peer that shows none by itself.
class Witness {
public:
    // Looks for the peer where somebody else can tell, and notes what it finds. False: the peer is
    // to be given up, for whom something has waited since then.
    virtual bool may_live(Peer& peer, Nanoseconds since) = 0;

protected:
    ~Witness() = default;
};

} // namespace adaptib
