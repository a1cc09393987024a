// SPDX-License-Identifier: BSD-3-Clause
// PeerTransfers: the part of a Peer for one-sided operations and transfers: the way that they take,
// and those that wait or are under way.
//
// Purpose: the fields that a short one-sided operation reads come first; together with PeerLanes
// they are one cache line.
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, channel/, memory/, stats/, peer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "memory/registration.h"
#include "peer/assist_choices.h"
#include "peer/cooperative_copy_choices.h"
#include "peer/put_get_balance.h"
#include "peer/waiting.h"
#include "stats/peer_traffic.h"

namespace adaptib {

class Peer;

struct PeerTransfers {
    std::uint32_t one_sided = 0; // operations started and not complete
    // The route's rails can execute operations within the call (RailInfo::synchronous_rma).
    bool synchronous = false;
    const Registration* whole_memory = nullptr;    // of this process; null: none on that route
    std::unique_ptr<AssistChoices> assist_choices; // null: no target-assisted operations
    std::unique_ptr<CooperativeCopyChoices> cooperative_copy_choices; // null: one end alone copies

    RmaTraffic executed;            // by this process, or the peer at its request
    std::size_t stripes = 0;        // posted and not complete
    std::size_t users = 0;          // transfers and operations that need the connection, or will
    std::size_t rma_operations = 0; // puts and gets among them: a later connection also serves
    bool yields = false;            // others need the connection: no put or get is posted on it
    std::unique_ptr<PutGetBalance> put_get_balance; // null: puts and gets go out in call order
    std::unique_ptr<WaitingTransfers> waiting;      // null: no transfer has waited yet
    ListLink<Peer> link;      // linked while transfers wait for room, or for the connection
    PostedList posted;        // transfers with stripes under way
    std::uint64_t offers = 0; // of cooperative copies, made to the peer
    // In the peer's memory, for its operations; valid as long as out.ring's queue pair.
    AnswerSlot* answers = nullptr;
    std::byte* answer_data = nullptr;
    Bytes answer_bytes = 0; // answer data in local memory that have memory
};

} // namespace adaptib
