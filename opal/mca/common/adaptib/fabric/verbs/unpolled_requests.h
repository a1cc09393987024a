// SPDX-License-Identifier: BSD-3-Clause
// UnpolledRequests: requests of a send queue that no polled completion covers yet.
//
// Purpose: the send queues of some drivers (Linux's rdmavt, soft-RoCE) take further requests as
// soon as earlier ones are done, polled or not. Their completions may then be more than the
// completion queue has room for, and the device drops those. So such queues are counted here. Other
// drivers free a place when the program has polled a completion behind it.
// Invariants: covered in the order of posting; the sum of runs_ and run_ is size_.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/growing_ring.h"
#include "base/invariant.h"

namespace adaptib::verbs {

class UnpolledRequests {
public:
    std::uint32_t size() const { return size_; }
    void posted(bool signaled) {
        ++size_;
        ++run_;
        if (signaled) {
            runs_.push() = run_;
            run_ = 0;
        }
    }
    // A completion of a signaled request is polled.
    void polled() {
        ADAPTIB_INVARIANT(!runs_.empty() && runs_.front() <= size_,
                          "a completion is that of a signaled request", runs_.size(), size_);
        size_ -= runs_.front();
        runs_.pop();
    }
    void clear() {
        runs_.clear();
        run_ = size_ = 0;
    }

private:
    GrowingRing<std::uint32_t> runs_; // for each signaled one: itself, and those before it
    std::uint32_t run_ = 0;           // not signaled, behind the last signaled one
    std::uint32_t size_ = 0;
};

} // namespace adaptib::verbs
