// SPDX-License-Identifier: BSD-3-Clause
// RmaTarget: this process's part in puts, gets, atomics and long messages that a peer of its host
// has begun, and finishes within its call.
//
// Purpose: the peer, the initiator, asks by a message in the ring: for an operation up to
// kMaxAssisted bytes, or for help with a copy of long data. A copy of long data is offered in the
// initiator's answer slot, too, for a process that is in the middle of a copy of its own
// (step_crossing()).
// Each offer is checked here, as the fabric would check an access: an invalid one is counted as a
// bad packet and not served; the initiator then does without.
// Ownership: refers to the counters, to the memory that its user has lent, and to the messages that
// this process is sending.
// Threads: one at a time (the core's lock). No call waits for the initiator, except for a unit of a
// staged copy, some 50 us at most, and only while no other thread wants the lock.
// May touch: base/, fabric/, memory/, channel/, peer/, stats/, protocol/intranode/, count_rma.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/biased_lock.h"
#include "base/wire.h"
#include "fabric/queue_pair.h"
#include "memory/lent_memory.h"
#include "peer/peer.h"
#include "protocol/intranode/staged_copy.h"
#include "stats/counters.h"

namespace adaptib {

class Rendezvous;

class RmaTarget {
public:
    // `lock`: of the core; null: one thread calls. `rendezvous`: need not be constructed yet.
    RmaTarget(const LentMemory& lent, const BiasedLock* lock, const Rendezvous& rendezvous,
              Counters& counters)
        : lent_(lent), lock_(lock), rendezvous_(rendezvous), counters_(counters) {}

    // Returns true if this thread may wait for the peer in the middle of a call: no other thread of
    // this process wants the core meanwhile.
    bool may_wait() const { return lock_ == nullptr || lock_->is_wanted_by_no_other(); }

    // Take the messages of the initiator. REQUIRES: they have passed check_message.
    void on_operate(Peer& peer, const MessageHeader& header, const std::byte* from);
    void on_cooperative_copy(Peer& peer, const CooperativeCopyBody& body);

    // Helps with the offer that the peer has open while this process, as an initiator, waits for
    // the peer. Returns true if a unit was moved.
    bool step_crossing(const Peer& peer, CrossingHelp& help);
    // Counts the data that the offer's units have moved: the caller is through with it.
    void count_served(const StagedOffer& offer);

private:
    QueuePair* serving_qp(const Peer& peer, bool sensible);
    QueuePair* offered_over(const Peer& peer, const CooperativeCopyBody& body);
    void serve_staged(Peer& peer, const CooperativeCopyBody& body, QueuePair& qp);
    std::optional<StagedOffer> take_offer(const Peer& peer, const CooperativeCopyBody& body,
                                          QueuePair& qp);
    std::byte* find_offered(const Peer& peer, const CooperativeCopyBody& body, bool& good);

    const LentMemory& lent_;
    const BiasedLock* const lock_;
    const Rendezvous& rendezvous_;
    Counters& counters_;
};

} // namespace adaptib
