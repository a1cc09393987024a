// SPDX-License-Identifier: BSD-3-Clause
// PeerInterruption: the part of a Peer for the repair of a broken connection, and for the messages
// that wait for it.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, peer/.
#pragma once

#include "base/intrusive_list.h"
#include "peer/connection.h"
#include "peer/pending.h"

namespace adaptib {

class Peer;

struct PeerInterruption {
    bool active = false;      // the barrier is in place
    bool work_failed = false; // a transfer or a write into the ring has ended with an error
    bool abandoned = false;   // completions of the peer's stripes do not count any more
    bool on_standby = false;  // the connection has standby rails alone (RailInfo::standby)
    Repair repair;
    ListLink<Peer> repair_link; // linked while a repair is wanted, or the state is repairing
    PendingSend barrier{PendingSend::Kind::barrier};
    PendingQueue in_doubt; // RepeatedMessages, until the repair is over
};

} // namespace adaptib
