// SPDX-License-Identifier: BSD-3-Clause
// The completion filter (recovery/completion_filter.h).
#include "recovery/completion_filter.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

std::size_t CompletionFilter::poll(std::size_t limit) {
    ADAPTIB_INVARIANT(!polling_, "a target of completions does not poll", rail_);
    polling_ = true;
    std::size_t taken = 0;
    while (taken < limit) {
        const std::size_t room = std::min(batch_.size(), limit - taken);
        const std::size_t count = cq_.poll(std::span(batch_).first(room));
        ADAPTIB_INVARIANT(count <= room, "a poll gives no more than it is asked for", count, room);
        for (std::size_t i = 0; i < count; ++i) {
            if (WorkTarget* target = target_of(batch_[i].wr_id); target != nullptr) {
                target->on_work_done(rail_, batch_[i]);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (breaks_queue_pair(batch_[i].status)) [[unlikely]] {
                listener_.on_path_failed(rail_, batch_[i].qp_number, batch_[i].status,
                                         batch_[i].wr_id);
            }
        }
        taken += count;
        if (count < room) {
            break;
        }
    }
    polling_ = false;
    return taken;
}

} // namespace adaptib
