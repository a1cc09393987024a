// SPDX-License-Identifier: BSD-3-Clause
// Requests that are kept beyond the call that posted them, and datagrams that are sent late.
//
// Purpose: a kept request has its own gather list and, where the caller's memory may change, its
// own copy of the payload.
// Threads: one.
// May touch: base/, fabric/fabric.h, node.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "simulator/faults/node.h"

namespace adaptib::fault {

struct KeptWork {
    SendWork work;
    std::vector<Gather> gather;
    std::vector<std::byte> bytes;         // copy of the payload, if one was made
    std::unique_ptr<MemoryRegion> region; // of `bytes`, if they are to be sent
};

// Keeps a request to be posted later; inline data is copied.
std::unique_ptr<KeptWork> keep(const SendWork& work);
// Keeps a request with its payload in memory of its own; null if that memory cannot be registered.
std::unique_ptr<KeptWork> keep_copy(const SendWork& work, Rail& rail);

class LateDatagrams {
public:
    void add(std::unique_ptr<KeptWork> kept, const Due& due) {
        late_.push_back({std::move(kept), due});
    }
    bool empty() const { return late_.empty(); }
    void clear() { late_.clear(); }
    // Time at which the first of them is due, at least `now`; max: there is none.
    Nanoseconds next(Nanoseconds now) const {
        Nanoseconds next = Nanoseconds::max();
        for (const Late& late : late_) {
            next = std::min(next, std::max(late.due.time, now));
        }
        return next;
    }
    // Calls send(kept) for those for which reached(due) is true, and drops each for which it
    // returns true.
    template <class Reached, class Send> void send(Reached&& reached, Send&& send) {
        for (std::size_t i = 0; i < late_.size();) {
            if (!reached(late_[i].due) || !send(late_[i].kept)) {
                ++i;
                continue;
            }
            late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }

private:
    struct Late {
        std::unique_ptr<KeptWork> kept;
        Due due;
    };
    std::vector<Late> late_;
};

} // namespace adaptib::fault
