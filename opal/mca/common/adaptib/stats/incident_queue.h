// SPDX-License-Identifier: BSD-3-Clause
// IncidentQueue: incidents on their way out of a core, to whoever wants to hear of each at once.
//
// Purpose: an incident comes up in the middle of work, with the core's lock held, and those who
// hear of it may call MPI. So incidents wait here until the lock has been released: note() wakes
// the owner, who then takes all of them. Counters::incidents is null if nobody wants to hear of
// them. The room is bounded, since a port may take the connections to thousands of peers down at a
// time: the counter incidents_dropped counts what found none.
// Threads: one at a time (the core's lock).
// May touch: base/, stats/.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "stats/counters.h"
#include "stats/incident.h"

namespace adaptib {

class IncidentQueue {
public:
    static constexpr std::size_t kMost = 1024;

    // `wake` is called while there are incidents, until it returns true: take() will be called.
    IncidentQueue(Counters& counters, std::function<bool()> wake)
        : counters_(counters), wake_(std::move(wake)) {}

    void note(const Incident& incident) {
        if (waiting_.size() < kMost) {
            waiting_.push_back(incident);
        } else {
            ++counters_.incidents_dropped;
        }
        wake();
    }
    // Wakes the owner if there is anything to take.
    void wake() { woken_ = woken_ || (!waiting_.empty() && wake_()); }
    // Returns what has come since the last call, oldest first.
    std::vector<Incident> take() {
        woken_ = false;
        return std::exchange(waiting_, {});
    }

private:
    Counters& counters_;
    const std::function<bool()> wake_;
    bool woken_ = false;
    std::vector<Incident> waiting_;
};

} // namespace adaptib
