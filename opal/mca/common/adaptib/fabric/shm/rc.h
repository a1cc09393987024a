// SPDX-License-Identifier: BSD-3-Clause
// Reliable connected queue pairs.
//
// Purpose: the initiator's side. post_send performs a request at once if it can, without a queue
// entry (attempt() on the stack). Otherwise the request becomes an Op, which progress() tries
// again.
// An Op is always in one of 3 phases: waiting (not or partly executed), issued (a message in the
// target's queue, not yet acknowledged), over (status known). Ops are issued in order and retired
// in order.
// Fencing: while an initiator touches the target's memory, its own table entry says busy. The
// initiator reads the target's entry and regions after it has set busy; the target reads busy after
// it has changed its entry or regions (both sequentially consistent). So at least one of the two
// sees the other. Once the destruction of a region has returned, nothing touches that memory any
// more; nor once modify() to ERR or RESET has returned, unless the peer is stopped in the middle of
// a copy for longer than kFenceLimit (initiator_fence.h). (Fencing does not cover a peer's stores
// through map().)
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/shm/attempt.h"
#include "fabric/shm/connected_peer.h"
#include "fabric/shm/copy_pipeline.h"
#include "fabric/shm/known_transfers.h"
#include "fabric/shm/local_qp.h"
#include "fabric/shm/message_sender.h"
#include "fabric/shm/process.h"
#include "fabric/shm/rma_target.h"

namespace adaptib::shm {

class RcQueuePair final : public LocalQueuePair {
public:
    RcQueuePair(Context& context, std::uint32_t rail, const QpInit& init);
    ~RcQueuePair() override;

    BusyInitiator busy_initiator() const override {
        const bool busy = peer_.attached() && !peer_.segment().gone() &&
                          peer_.entry().busy.load(std::memory_order_seq_cst) != 0;
        return busy ? BusyInitiator{peer_.shared_segment(), &peer_.entry()} : BusyInitiator{};
    }

private:
    enum class Phase : std::uint8_t { waiting, issued, over };
    struct Op {
        SendWork work;
        std::array<Gather, kMaxGather> gather;
        Bytes length = 0;
        Attempt attempt;
        Phase phase = Phase::waiting;
        WorkStatus status = WorkStatus::success;
        std::uint64_t release = 0;
        Nanoseconds ready_at{0}; // slowed rail: may start then; 0: not computed
        std::vector<std::byte> inline_data;
    };

    // QueuePair
    Status post_send_impl(const SendWork& work) override;
    Status rma_now_impl(const RmaWork& work) override;
    Status serve_rma_impl(const SendWork& work) override;
    Status serve_copy_impl(const RmaWork& work) override;
    Status find_key_impl(const RemoteRange& range, std::uint32_t& key) override;
    bool target_lives_impl() const override;
    void* map_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    Status commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) override;
    bool usable_impl() const override;
    FastPathGuard fast_path_guard_impl() const override;
    // LocalQueuePair
    bool accepts(const RecordView& record) const override;
    Status connect(const QpAttributes& attributes) override;
    void disconnect() override;
    void ready_to_send() override;
    void serve(const RecordView& record) override;
    bool progress_sends() override;
    void flush_sends() override;
    void drop_sends() override;
    std::uint32_t remote_number() const override { return peer_.number(); }

    // rc.cc: life of a request
    Status check(const SendWork& work, Bytes& length) const;
    void enqueue(const SendWork& work, Bytes length, const Attempt& attempt, Step step);
    void conclude(const SendWork& work, WorkStatus status, std::uint64_t release);
    void fail(std::uint64_t wr_id, Opcode opcode, WorkStatus status, std::uint64_t release);
    bool retire();
    void issue();
    bool slowed(Op& op);
    Step attempt(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step stall(Attempt& a, WorkStatus& status);

    // rc_memory.cc: requests that touch the target's memory
    Step transfer_data(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step do_atomic(const SendWork& work, Attempt& a, WorkStatus& status);
    bool lock_atomics(Attempt& a);
    Step bounce(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status);
    Step handle_copy_error(CopyResult result, Attempt& a, WorkStatus& status, bool& bounce);
    Step remote_error(WorkStatus which, WorkStatus& status);
    template <Opcode kOpcode> bool rma_now_known(const RmaWork& work);
    bool rma_now_any(const RmaWork& work);
    bool may_rma_now(const RmaWork& work) const;
    bool finds_target_of(const RmaWork& work);
    bool rma_now_shared(const RmaWork& work);
    bool rma_now_private(const RmaWork& work);
    void begin_touching() { entry_->busy.store(1, std::memory_order_seq_cst); }
    void end_touching() { entry_->busy.store(0, std::memory_order_release); }

    // usable() reads two cache lines of this object: the first of the peer's and the first.
    ConnectedPeer peer_;
    KnownTransfers known_; // found while no request waited; for this connection
    MessageSender messages_;
    CopyPipeline pipeline_; // of the op at next_
    RmaTarget target_;
    GrowingRing<Op> ops_;
    std::size_t next_ = 0; // the first op that is not issued
};

} // namespace adaptib::shm
