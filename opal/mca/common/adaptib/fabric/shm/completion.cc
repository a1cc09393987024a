// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and receive queues.
#include "fabric/shm/completion.h"

#include <algorithm>

#include "base/invariant.h"
#include "fabric/shm/context.h"
#include "fabric/shm/local_qp.h"

namespace adaptib::shm {

// -------------------------------------------------------------------------------------------------
// Completion queue

ShmCompletionQueue::ShmCompletionQueue(Context& context, std::uint32_t rail)
    : context_(context), rail_(rail) {}

ShmCompletionQueue::~ShmCompletionQueue() {
    ADAPTIB_INVARIANT(entries_.empty(), "queue pairs end before their completion queue",
                      entries_.size());
}

void ShmCompletionQueue::push(const WorkCompletion& completion, LocalQueuePair* qp,
                              std::uint64_t release) {
    ADAPTIB_INVARIANT(qp != nullptr, "a completion belongs to a queue pair", completion.qp_number);
    Entry& entry = entries_.push();
    entry.completion = completion;
    entry.qp = qp;
    entry.release = release;
    context_.completion_queued();
}

void ShmCompletionQueue::forget(const LocalQueuePair* qp) {
    const std::size_t before = entries_.size();
    entries_.remove_if([qp](const Entry& entry) { return entry.qp == qp; });
    context_.completions_taken(before - entries_.size());
}

std::size_t ShmCompletionQueue::poll_impl(std::span<WorkCompletion> out) {
    context_.progress();
    std::size_t count = 0;
    while (count < out.size() && !entries_.empty()) {
        const Entry& entry = entries_.front();
        out[count++] = entry.completion;
        if (entry.release != 0) {
            entry.qp->release_sends(entry.release);
        }
        entries_.pop();
    }
    context_.completions_taken(count);
    return count;
}

// -------------------------------------------------------------------------------------------------
// Shared receive queue

ShmSharedReceiveQueue::ShmSharedReceiveQueue(Context& context, std::uint32_t rail,
                                             std::uint32_t index, std::uint32_t depth)
    : context_(context), rail_(rail), index_(index), depth_(depth), receives_(depth),
      shared_(srqs_of(context.segment().base()) + index) {
    shared_->available.store(0, std::memory_order_relaxed);
}

ShmSharedReceiveQueue::~ShmSharedReceiveQueue() {
    ADAPTIB_INVARIANT(waiting_.empty(), "queue pairs end before their shared receive queue",
                      waiting_.size());
    shared_->available.store(0, std::memory_order_release);
    context_.srqs().remove(index_);
}

Status ShmSharedReceiveQueue::post_impl(const ReceiveWork& work) {
    const Status status = receives_.post(work);
    if (!status.ok()) {
        return status;
    }
    shared_->available.store(receives_.size(), std::memory_order_release);
    ADAPTIB_INVARIANT(receives_.size() <= depth_, "a queue holds no more receives than its depth",
                      receives_.size(), depth_);
    for (LocalQueuePair* qp : waiting_) {
        context_.activate(qp);
    }
    waiting_.clear();
    return kOk;
}

void ShmSharedReceiveQueue::drop() {
    receives_.drop();
    shared_->available.store(receives_.size(), std::memory_order_release);
    check_limit();
}

void ShmSharedReceiveQueue::wait_for_post(LocalQueuePair* qp) {
    ADAPTIB_INVARIANT(receives_.size() == 0, "a queue pair waits only where no receive is posted",
                      receives_.size());
    if (std::find(waiting_.begin(), waiting_.end(), qp) == waiting_.end()) {
        waiting_.push_back(qp);
    }
}

void ShmSharedReceiveQueue::forget(const LocalQueuePair* qp) { std::erase(waiting_, qp); }

Status ShmSharedReceiveQueue::arm_limit_impl(std::uint32_t limit) {
    if (limit > depth_) {
        return Status::error(Reason::bad_argument);
    }
    limit_ = limit;
    check_limit();
    return kOk;
}

void ShmSharedReceiveQueue::check_limit() {
    ADAPTIB_INVARIANT(limit_ <= depth_, "a limit is no higher than the depth", limit_, depth_);
    if (limit_ != 0 && receives_.size() < limit_) {
        limit_ = 0;
        context_.raise(EventKind::srq_limit, rail_, 0, this);
    }
}

} // namespace adaptib::shm
