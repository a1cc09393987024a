// SPDX-License-Identifier: BSD-3-Clause
// InitiatorFence: waits for peers that are in the middle of touching this process's memory.
//
// Purpose: a peer's queue pair says busy while it touches this process's memory (rc.h). Memory from
// which a region or queue pair has been taken away may be used otherwise once each peer that was
// busy then has been seen idle since, or its process has ended. A stopped process stays busy for
// any length of time. So
//   * a queue pair waits for kFenceLimit, and a peer that is busy then is kept in mind;
//   * memory of the user, which the user may reuse at once, waits as long as a peer is busy;
//   * blocks of the segment are kept until then, without waiting for longer than kFenceLimit.
// Ownership: keeps the segments of such peers mapped. Releases blocks of the segment, which
//   outlives it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, segment.h.
#pragma once

#include <memory>
#include <vector>

#include "base/units.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

// A queue pair of a peer that was touching this process's memory.
struct BusyInitiator {
    std::shared_ptr<PeerSegment> peer;
    const QueuePairEntry* entry = nullptr;

    bool busy() const { return !peer->gone() && entry->busy.load(std::memory_order_seq_cst) != 0; }
};

class InitiatorFence {
public:
    // Waits, at most kFenceLimit, until each has been seen idle; keeps the others in mind.
    void wait_a_while(std::vector<BusyInitiator> initiators);
    // Waits for these, and for those kept in mind, without a limit other than the life of their
    // processes.
    void wait(std::vector<BusyInitiator> initiators);
    // Releases a block of the segment: at once if none of these and of those kept in mind is busy
    // for longer than kFenceLimit, otherwise in a later look().
    void release(OwnSegment& segment, Bytes offset, std::vector<BusyInitiator> initiators);
    // Forgets those that are idle by now, and releases the blocks that waited for them.
    void look(OwnSegment& segment);

private:
    struct Block {
        Bytes offset = 0;
        std::vector<BusyInitiator> initiators;
    };

    void add_kept(std::vector<BusyInitiator>& initiators) const;

    std::vector<BusyInitiator> kept_; // as a rule none
    std::vector<Block> blocks_;       // as a rule none
};

} // namespace adaptib::shm
