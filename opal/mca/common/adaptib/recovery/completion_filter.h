// SPDX-License-Identifier: BSD-3-Clause
// The completion filter: every completion of connected queue pairs passes it.
//
// Purpose: dispatches good completions to the object that posted the work; bad ones as well, and
// once the batch is drained it reports the path that they came from as failed.
// Threads: one at a time.
// Source: Vishnu, 10.3 (completion filter).
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/work_target.h"
#include "fabric/completion_queue.h"

namespace adaptib {

class PathListener {
public:
    // May be called several times for one queue pair. `wr_id`: of the request.
    virtual void on_path_failed(std::uint32_t rail, std::uint32_t qp_number, WorkStatus status,
                                std::uint64_t wr_id) = 0;

protected:
    ~PathListener() = default;
};

class CompletionFilter {
public:
    // `cq` is that of the queue pairs of `rail`.
    CompletionFilter(std::uint32_t rail, CompletionQueue& cq, PathListener& listener)
        : rail_(rail), cq_(cq), listener_(listener) {}

    // Takes at most `limit` completions; returns how many.
    std::size_t poll(std::size_t limit);

private:
    std::uint32_t rail_;
    CompletionQueue& cq_;
    PathListener& listener_;
    bool polling_ = false;
    std::array<WorkCompletion, 32> batch_; // scratch of poll; a target must not poll
};

} // namespace adaptib
