// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and shared receive queues with faults (queues.h).
#include "simulator/faults/queues.h"

#include <array>

#include "simulator/faults/queue_pair.h"

namespace adaptib::fault {

std::size_t FaultCq::poll_impl(std::span<WorkCompletion> out) {
    if (node_.dead()) {
        return 0;
    }
    node_.count_poll();
    take_from_below();
    node_.run_waiting();
    std::size_t count = 0;
    while (count < out.size() && !ready_.empty() && node_.reached(ready_.front().due)) {
        out[count++] = ready_.front().completion;
        ready_.pop_front();
    }
    if (!ready_.empty()) {
        node_.wake(std::max(node_.now(), ready_.front().due.time));
    }
    return count;
}

void FaultCq::take_from_below() {
    std::array<WorkCompletion, 32> batch;
    std::size_t count = 0;
    do {
        count = below_->poll(batch);
        for (std::size_t i = 0; i < count; ++i) {
            if (FaultQp* qp = node_.find(rail_, batch[i].qp_number); qp != nullptr) {
                qp->on_completion(batch[i]);
            }
        }
    } while (count == batch.size());
}

void FaultCq::push(const WorkCompletion& completion) {
    Due due;
    if (const PlannedFault* fault = node_.draw(Site::completion, rail_); fault != nullptr) {
        node_.note(fault->fault, rail_);
        due = node_.due(fault->delay);
    }
    ready_.push_back({completion, due});
    node_.wake(std::max(node_.now(), due.time));
}

void FaultCq::forget(std::uint32_t qp_number) {
    std::erase_if(ready_, [qp_number](const Entry& entry) {
        return entry.completion.qp_number == qp_number;
    });
}

Status FaultSrq::post_impl(const ReceiveWork& work) {
    if (node_.dead()) {
        return kOk;
    }
    if (const Status status = node_.refuse(Site::receive, rail_); !status.ok()) {
        return status;
    }
    ReceiveWork below = work;
    below.wr_id = tagged(kSharedTag, posted_.next());
    const Status status = below_->post(below);
    if (status.ok()) {
        posted_.add(work.wr_id);
    }
    return status;
}

} // namespace adaptib::fault
