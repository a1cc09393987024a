// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and shared receive queues of a verbs rail.
// Ownership: the caller's; queue pairs that use a queue end before it.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/verbs/rail.h"

namespace adaptib::verbs {

class VerbsCompletionQueue final : public CompletionQueue, public Renewed {
public:
    explicit VerbsCompletionQueue(VerbsRail& rail) : rail_(rail) {
        rail.device().renewed().push_back(*this);
    }
    ~VerbsCompletionQueue() override;
    int create(std::uint32_t depth); // 0 or the error number

    VerbsRail& rail() { return rail_; }
    ibv_cq* cq() { return cq_; }
    // Makes room for everything that its queue pairs and this one can leave in it; 0 or the error
    // number.
    int make_room(const VerbsQueuePair& qp);
    // REQUIRES: make_room succeeded for it.
    void attach(VerbsQueuePair& qp);
    void detach(VerbsQueuePair& qp);
    // Removes the completions of a queue pair; those of others stay, in order.
    void forget(const VerbsQueuePair& qp);
    // Reads all available completions; poll() returns them later.
    void fetch();
    // Adds a completion behind those: a receive was flushed, which the device never saw.
    void flush(std::uint64_t wr_id, std::uint32_t qp_number);
    // Called when no more completions can come: all its queue pairs fail, and so does the rail.
    void fail();
    // Its queue pairs belong to the device of before, and leave it.
    int renew() override;
    void take_back() override;

private:
    std::size_t poll_impl(std::span<WorkCompletion> out) override;
    VerbsQueuePair* find(std::uint32_t number) const; // null: not one of this queue's
    void fetch_but(const VerbsQueuePair* qp);
    std::uint64_t needed(const VerbsQueuePair& more) const; // entries, if nobody polls
    void translate(const ibv_wc& from, WorkCompletion& to);
    int poll_library(std::span<ibv_wc> out);

    VerbsRail& rail_;
    std::uint32_t depth_ = 0; // as wanted
    ibv_cq* cq_ = nullptr;
    bool broken_ = false;
    std::size_t datagram_qps_ = 0;
    std::size_t told_ = 0;             // those that hear when a request has succeeded
    std::vector<VerbsQueuePair*> qps_; // by number
    std::deque<WorkCompletion> kept_;  // read by forget() and fetch()
};

class VerbsSharedReceiveQueue final : public SharedReceiveQueue, public Renewed {
public:
    VerbsSharedReceiveQueue(VerbsRail& rail, std::uint32_t depth) : rail_(rail), depth_(depth) {
        rail.device().renewed().push_back(*this);
    }
    ~VerbsSharedReceiveQueue() override;
    int create(); // 0 or the error number
    // Its queue pairs belong to the device of before, and leave it; its receives are gone.
    int renew() override;
    void take_back() override;

    VerbsRail& rail() { return rail_; }
    ibv_srq* srq() { return srq_; }
    std::uint32_t depth() const { return depth_; }
    std::vector<VerbsQueuePair*>& qps() { return qps_; }

private:
    Status post_impl(const ReceiveWork& work) override;
    Status arm_limit_impl(std::uint32_t limit) override;

    VerbsRail& rail_;
    std::uint32_t depth_;
    ibv_srq* srq_ = nullptr;
    std::vector<VerbsQueuePair*> qps_;
};

// Appends a receive's entries to the `used` present ones; returns the new count, or -1 for more
// than `max`.
int scatter_list(const ReceiveWork& work, std::uint32_t max, ibv_sge* list, int used);

} // namespace adaptib::verbs
