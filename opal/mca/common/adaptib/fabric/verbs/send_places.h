// SPDX-License-Identifier: BSD-3-Clause
// SendPlaces: the places of a send queue.
//
// Purpose: the provider refuses a request when no place is free, and most free a place when the
// program has polled a completion behind its request. But the send queues of some drivers (Linux's
// rdmavt, soft-RoCE) take further requests as soon as earlier ones are done, polled or not. Their
// completions may then be more than the completion queue has room for, and the device drops those.
// So the places of such queues are counted here.
// Invariants: a request keeps its place until a completion of its own, or of a later one, is
// polled; the sum of runs_ and run_ is taken_.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/growing_ring.h"
#include "base/invariant.h"

namespace adaptib::verbs {

class SendPlaces {
public:
    // `counted`: the provider frees places before completions are polled.
    SendPlaces(std::uint32_t depth, bool counted) : depth_(depth), counted_(counted) {}

    std::uint32_t depth() const { return depth_; }
    void set_depth(std::uint32_t depth) { depth_ = depth; }
    // Never where places are not counted.
    bool full() const { return counted_ && taken_ >= depth_; }
    void posted(bool signaled) {
        if (!counted_) [[likely]] {
            return;
        }
        ++taken_;
        ++run_;
        if (signaled) {
            runs_.push() = run_;
            run_ = 0;
        }
    }
    // A completion of a signaled request is polled.
    void polled() {
        if (!counted_) {
            return;
        }
        ADAPTIB_INVARIANT(!runs_.empty() && runs_.front() <= taken_,
                          "a completion is that of a signaled request", runs_.size(), taken_);
        taken_ -= runs_.front();
        runs_.pop();
    }
    void clear() {
        runs_.clear();
        run_ = taken_ = 0;
    }

private:
    std::uint32_t depth_;
    bool counted_;
    std::uint32_t taken_ = 0;
    std::uint32_t run_ = 0;           // not signaled, behind the last signaled one
    GrowingRing<std::uint32_t> runs_; // for each signaled one: itself, and those before it
};

} // namespace adaptib::verbs
