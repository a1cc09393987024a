// SPDX-License-Identifier: BSD-3-Clause
// Waiting for initiators (initiator_fence.h).
#include "fabric/shm/initiator_fence.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/invariant.h"
#include "fabric/shm/limits.h"

namespace adaptib::shm {

namespace {

void drop_idle(std::vector<BusyInitiator>& initiators) {
    std::erase_if(initiators, [](const BusyInitiator& each) { return !each.busy(); });
}

// Leaves those in the list that are still busy at the end. The time is the system's, whatever clock
// the fabric has, since the wait is for other processes.
void wait_for(std::vector<BusyInitiator>& initiators, bool limited) {
    const MonotonicClock clock;
    const Nanoseconds begin = clock.now();
    Nanoseconds look = begin + kFenceLook;
    drop_idle(initiators);
    while (!initiators.empty()) {
        const Nanoseconds now = clock.now();
        if (limited && now - begin > kFenceLimit) {
            return;
        }
        if (now > look) { // a peer killed in the middle touches nothing more
            look = now + kFenceLook;
            initiators.front().peer->check_alive();
        }
        sched_yield();
        drop_idle(initiators);
    }
}

} // namespace

void InitiatorFence::add_kept(std::vector<BusyInitiator>& initiators) const {
    initiators.insert(initiators.end(), kept_.begin(), kept_.end());
}

void InitiatorFence::wait_a_while(std::vector<BusyInitiator> initiators) {
    wait_for(initiators, true);
    for (BusyInitiator& each : initiators) {
        kept_.push_back(std::move(each));
    }
}

void InitiatorFence::wait(std::vector<BusyInitiator> initiators) {
    add_kept(initiators);
    wait_for(initiators, false);
    ADAPTIB_AUDIT(initiators.empty(), "no peer is busy when the user gets memory back",
                  initiators.size());
}

void InitiatorFence::release(OwnSegment& segment, Bytes offset,
                             std::vector<BusyInitiator> initiators) {
    add_kept(initiators);
    wait_for(initiators, true);
    if (initiators.empty()) {
        segment.release(offset);
    } else {
        ADAPTIB_AUDIT(std::none_of(blocks_.begin(), blocks_.end(),
                                   [&](const Block& block) { return block.offset == offset; }),
                      "a block waits once", offset);
        blocks_.push_back({offset, std::move(initiators)});
    }
}

void InitiatorFence::look(OwnSegment& segment) {
    drop_idle(kept_);
    std::erase_if(blocks_, [&](Block& block) {
        drop_idle(block.initiators);
        if (block.initiators.empty()) {
            segment.release(block.offset);
        }
        return block.initiators.empty();
    });
}

} // namespace adaptib::shm
