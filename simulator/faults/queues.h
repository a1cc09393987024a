// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and shared receive queues with faults.
//
// Purpose: a completion queue takes all completions from below, lets the queue pairs decide which
// of them the node sees, and keeps those, in order. Requests below carry wr_ids of the decorator:
// the kind of work, since a failed completion does not tell it, and a running number.
// Ownership: the caller's; queue pairs that use a queue end before it.
// Threads: one.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <deque>
#include <map>

#include "simulator/faults/node.h"
#include "simulator/faults/posted_receives.h"

namespace adaptib::fault {

constexpr int kTagShift = 62;
enum Tag : std::uint64_t { kSendTag = 0, kReceiveTag = 1, kSharedTag = 2 };

constexpr std::uint64_t tagged(Tag tag, std::uint64_t number) {
    return static_cast<std::uint64_t>(tag) << kTagShift | number;
}
constexpr std::uint64_t tag_of(std::uint64_t wr_id) { return wr_id >> kTagShift; }
constexpr std::uint64_t number_of(std::uint64_t wr_id) {
    return wr_id & ((std::uint64_t{1} << kTagShift) - 1);
}

class FaultCq final : public CompletionQueue {
public:
    FaultCq(Node& node, std::uint32_t rail, std::unique_ptr<CompletionQueue> below)
        : node_(node), rail_(rail), below_(std::move(below)) {}

    CompletionQueue* below() const { return below_.get(); }
    void push(const WorkCompletion& completion);
    void forget(std::uint32_t qp_number);

private:
    struct Entry {
        WorkCompletion completion;
        Due due;
    };
    std::size_t poll_impl(std::span<WorkCompletion> out) override;
    void take_from_below();

    Node& node_;
    std::uint32_t rail_;
    std::unique_ptr<CompletionQueue> below_;
    std::deque<Entry> ready_;
};

class FaultSrq final : public SharedReceiveQueue {
public:
    FaultSrq(Node& node, std::uint32_t rail, std::unique_ptr<SharedReceiveQueue> below)
        : node_(node), rail_(rail), below_(std::move(below)) {}

    SharedReceiveQueue* below() const { return below_.get(); }
    // Looks up the caller's wr_id of a completed receive; returns false if the number is unknown.
    bool take(std::uint64_t number, std::uint64_t& wr_id) { return posted_.take(number, wr_id); }

private:
    Status post_impl(const ReceiveWork& work) override;
    Status arm_limit_impl(std::uint32_t limit) override { return below_->arm_limit(limit); }

    Node& node_;
    std::uint32_t rail_;
    std::unique_ptr<SharedReceiveQueue> below_;
    PostedReceives posted_;
};

} // namespace adaptib::fault
