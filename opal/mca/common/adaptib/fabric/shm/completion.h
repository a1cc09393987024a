// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and shared receive queues.
//
// Purpose: the local queues. Polling a completion queue drives the whole fabric.
// Ownership: the caller's; queue pairs that use a queue end before it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, layout.h; in fabric/: completion_queue.h, receive_queue.h and
// shared_receive_queue.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/growing_ring.h"
#include "fabric/completion_queue.h"
#include "fabric/receive_queue.h"
#include "fabric/shared_receive_queue.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/limits.h"

namespace adaptib::shm {

class Context;
class LocalQueuePair;

class ShmCompletionQueue final : public CompletionQueue {
public:
    ShmCompletionQueue(Context& context, std::uint32_t rail);
    ~ShmCompletionQueue() override;

    std::uint32_t rail() const { return rail_; }
    // `release`: how many of the queue pair's send requests, counted from its first one, this
    // completion covers (0: none).
    void push(const WorkCompletion& completion, LocalQueuePair* qp, std::uint64_t release);
    void forget(const LocalQueuePair* qp);

private:
    struct Entry {
        WorkCompletion completion;
        LocalQueuePair* qp = nullptr;
        std::uint64_t release = 0;
    };
    std::size_t poll_impl(std::span<WorkCompletion> out) override;

    Context& context_;
    std::uint32_t rail_;
    GrowingRing<Entry> entries_;
};

class ShmSharedReceiveQueue final : public SharedReceiveQueue {
public:
    ShmSharedReceiveQueue(Context& context, std::uint32_t rail, std::uint32_t index,
                          std::uint32_t depth);
    ~ShmSharedReceiveQueue() override;

    std::uint32_t rail() const { return rail_; }
    std::uint32_t index() const { return index_; }
    const QueuedReceive* peek() { return receives_.peek(); }
    void drop();
    // Registers a queue pair that has messages but found no receive; the next post activates it.
    void wait_for_post(LocalQueuePair* qp);
    void forget(const LocalQueuePair* qp);

private:
    Status post_impl(const ReceiveWork& work) override;
    Status arm_limit_impl(std::uint32_t limit) override;
    void check_limit();

    Context& context_;
    std::uint32_t rail_;
    std::uint32_t index_;
    std::uint32_t depth_;
    std::uint32_t limit_ = 0;
    ReceiveQueue receives_;
    SrqEntry* shared_;
    std::vector<LocalQueuePair*> waiting_;
};

} // namespace adaptib::shm
