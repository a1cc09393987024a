// SPDX-License-Identifier: BSD-3-Clause
// CreditReturn: tells a peer how much of its ring has been consumed, when no message can carry
// that.
//
// Purpose: writes the count of consumed units into the peer's memory: by a store, if that memory is
// mapped here, else by a post. Now and then times what that costs.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, channel/, peer/, select/, connect/, stats/.
#pragma once

#include "base/clock.h"
#include "connect/connection_manager.h"
#include "fabric/rail.h"
#include "peer/peer.h"
#include "select/cost_meter.h"
#include "stats/counters.h"

namespace adaptib {

class CreditReturn {
public:
    // `meter`: null: nothing is timed.
    CreditReturn(ConnectionManager& connections, RailList rails, CostMeter* meter,
                 const Clock& clock, Counters& counters)
        : connections_(connections), rails_(rails), meter_(meter), clock_(clock),
          counters_(counters) {}

    // A count that cannot be written now is written when this is called again: in the next pass. So
    // is one that was written beside another write, once that is complete (CreditWork). A queue
    // pair that takes nothing any more breaks the connection.
    void return_credit(Peer& peer);

    // Returns true if credit waits for a completion: these should be polled now.
    bool waits() const { return waits_; }
    void on_polled() { waits_ = false; }

private:
    bool post_credit(Peer& peer, Subchannel& subchannel);
    Status post_count(Peer& peer, Subchannel& subchannel, bool inlined);

    ConnectionManager& connections_;
    RailList rails_;
    CostMeter* meter_;
    const Clock& clock_;
    Counters& counters_;
    bool waits_ = false;
};

} // namespace adaptib
