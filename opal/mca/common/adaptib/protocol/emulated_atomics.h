// SPDX-License-Identifier: BSD-3-Clause
// EmulatedAtomics: atomics that the target's processor executes; the initiator asks by a message
// (parameter `atomics`).
//
// Purpose: exactly once. An adapter's atomic whose path fails before it completes may have been
// executed or not, and its result is lost in any case. A message has a sequence number: it is
// repeated after a failure, and the receiver drops it if it had arrived. The answer is such a
// message, too. The owner of the memory decides who executes atomics, and tells all initiators
// (access of the remote description). So all atomics on a word are executed in one way, by one
// process, and need no lock among each other; they are also atomic with those of the processor.
// Ownership: owns the records of atomics under way, in the pool; refers to all else.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/, stats/, common_adaptib.h, completions.h, count_rma.h,
// flush_epochs.h, region_keys.h, send_flow.h, transfer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/id_table.h"
#include "base/status.h"
#include "base/wire.h"
#include "common_adaptib.h"
#include "fabric/work.h"
#include "memory/block_pool.h"
#include "memory/window.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/flush_epochs.h"
#include "protocol/one_sided_operation.h"
#include "protocol/region_keys.h"
#include "protocol/send_flow.h"
#include "stats/counters.h"

namespace adaptib {

class EmulatedAtomics {
public:
    // `self`: name of this process. `windows`: memory that the peers' atomics may reach.
    EmulatedAtomics(std::uint64_t self, const WindowTable& windows, BlockPool& pool,
                    FlushEpochs& flush_epochs, RegionKeys& region_keys, SendFlow& flow,
                    Completions& completions, Counters& counters)
        : self_(self), windows_(windows), pool_(pool), flush_epochs_(flush_epochs),
          region_keys_(region_keys), flow_(flow), completions_(completions), counters_(counters) {}
    // Destroys the records of atomics that will not end any more.
    ~EmulatedAtomics();
    EmulatedAtomics(const EmulatedAtomics&) = delete;
    EmulatedAtomics& operator=(const EmulatedAtomics&) = delete;

    // --- Initiator -------------------------------------------------------------------------------
    // Executes an atomic on memory of this process. Returns false if the word is in no window any
    // more.
    bool execute_here(const opal_common_adaptib_one_sided_t& operation, Opcode opcode);
    // Sets `complete` to true if the request ended within the call. Errors: bad_key, no_memory.
    // REQUIRES: the operation has been checked, the peer has not failed.
    Status start(Peer& peer, const opal_common_adaptib_one_sided_t& operation, Opcode opcode,
                 UserRequest& user, bool& complete);
    // The disconnect from the peer is over: sends what was started meanwhile.
    void send_queued(const Peer& peer);
    // Ends the atomics on memory of a peer that is lost.
    void fail(const Peer& peer);
    void on_atomic_done(Peer& peer, const AtomicDoneBody& body);
    std::size_t under_way() const { return atomics_.size(); }
    // Calls f for the peer of each atomic under way. May visit a peer more than once.
    void for_each_peer(const std::function<void(const Peer&)>& f) const;

    // --- Target ----------------------------------------------------------------------------------
    void on_atomic(Peer& peer, const AtomicBody& body);

private:
    void send(EmulatedAtomic& atomic);
    void end(EmulatedAtomic& atomic, int status);

    const std::uint64_t self_;
    const WindowTable& windows_;
    BlockPool& pool_;
    FlushEpochs& flush_epochs_;
    RegionKeys& region_keys_;
    SendFlow& flow_;
    Completions& completions_;
    Counters& counters_;
    IdTable<EmulatedAtomic> atomics_;
};

} // namespace adaptib
