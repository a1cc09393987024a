// SPDX-License-Identifier: BSD-3-Clause
// Liveness: how long a peer may be silent before it is given up.
//
// Purpose: the one rule that ends every wait for a peer's answer (datagrams, handshakes, repairs,
// paths). Time alone is no evidence: a process that computes is silent, too. So of the time of a
// wait only that part counts in which nothing shows the peer to be alive: no message from the peer
// itself, and no evidence from this host's system about a local process. A peer is given up once
// that part is as long as `patience` (parameter partition_timeout). A process that is known to have
// ended is given up at once, elsewhere.
//
//     since ---------- alive --------------------- alive + patience
//       wait begins     last evidence                given up
//
// Time is that of the attended clock: a peer is not silent while this process does not listen.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include <algorithm>

#include "base/invariant.h"
#include "base/units.h"
#include "peer/peer.h"

namespace adaptib {

class Liveness {
public:
    // max: never.
    explicit Liveness(Nanoseconds patience = Nanoseconds::max()) : patience_(patience) {}

    Nanoseconds patience() const { return patience_; }

    static void note(PeerLife& life, Evidence evidence, Nanoseconds now) {
        ADAPTIB_INVARIANT(evidence != Evidence::none, "only evidence shows that a peer is alive",
                          now);
        life.alive = std::max(life.alive, now);
        life.evidence = evidence;
    }
    // Time of the last evidence that the peer is alive. `heard`: when the last datagram came from
    // it.
    static Nanoseconds last(const PeerLife& life, Nanoseconds heard) {
        return std::max(life.alive, heard);
    }
    static Nanoseconds last(const Peer& peer) {
        return last(peer.health.life, peer.contact.datagram.heard);
    }
    // Returns when a peer for which something has waited since `since` is given up, unless evidence
    // shows it to be alive before. max: never.
    Nanoseconds ends_at(const PeerLife& life, Nanoseconds heard, Nanoseconds since) const {
        const Nanoseconds from = std::max(since, last(life, heard));
        return patience_ < Nanoseconds::max() - from ? from + patience_ : Nanoseconds::max();
    }
    Nanoseconds ends_at(const Peer& peer, Nanoseconds since) const {
        return ends_at(peer.health.life, peer.contact.datagram.heard, since);
    }

private:
    Nanoseconds patience_;
};

// Looks for evidence of a peer that shows none by itself.
class Witness {
public:
    // Looks for evidence of the peer elsewhere, and records what it finds. Returns false if the
    // peer, for which something has waited since `since`, must be given up.
    virtual bool may_live(Peer& peer, Nanoseconds since) = 0;

protected:
    ~Witness() = default;
};

} // namespace adaptib
