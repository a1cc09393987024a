// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and shared receive queues of the simulated fabric.
// Ownership: the caller's; queue pairs that use a queue end before it.  Threads: one.
// May touch: base/, fabric/, simulator/network/process.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/growing_ring.h"
#include "fabric/completion_queue.h"
#include "fabric/receive_queue.h"
#include "fabric/shared_receive_queue.h"
#include "simulator/network/process.h"

namespace adaptib::sim {

class SimQueuePair;
class SimRail;

class SimCompletionQueue final : public CompletionQueue {
public:
    explicit SimCompletionQueue(SimRail& rail) : rail_(rail) {}

    SimRail& rail() { return rail_; }
    // `copied`: bytes that the process has to copy when it takes the completion.
    void push(const WorkCompletion& completion, const SimQueuePair* qp, Bytes copied);
    void forget(const SimQueuePair* qp);
    ~SimCompletionQueue() override;

private:
    struct Entry {
        WorkCompletion completion;
        const SimQueuePair* qp = nullptr;
        Bytes copied = 0;
    };
    std::size_t poll_impl(std::span<WorkCompletion> out) override;

    SimRail& rail_;
    GrowingRing<Entry> entries_;
};

class SimSharedReceiveQueue final : public SharedReceiveQueue {
public:
    SimSharedReceiveQueue(SimRail& rail, std::uint32_t depth)
        : rail_(rail), depth_(depth), receives_(depth) {}

    SimRail& rail() { return rail_; }
    const QueuedReceive* peek() { return receives_.peek(); }
    void drop();
    // Tells the queue pair of the next posted receive, once.
    void wait_for_post(SimQueuePair* qp);
    void forget(const SimQueuePair* qp) { std::erase(waiting_, qp); }

private:
    Status post_impl(const ReceiveWork& work) override;
    Status arm_limit_impl(std::uint32_t limit) override;
    void check_limit();

    SimRail& rail_;
    std::uint32_t depth_;
    std::uint32_t limit_ = 0;
    ReceiveQueue receives_;
    std::vector<SimQueuePair*> waiting_;
};

} // namespace adaptib::sim
