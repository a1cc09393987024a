// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair, and completions.
#include "fabric/shm/local_qp.h"

namespace adaptib::shm {

LocalQueuePair::LocalQueuePair(Context& context, std::uint32_t rail, const QpInit& init)
    : QueuePair(init.type), context_(context), rail_(rail),
      send_cq_(static_cast<ShmCompletionQueue*>(init.send_cq)),
      receive_cq_(static_cast<ShmCompletionQueue*>(init.receive_cq)),
      srq_(static_cast<ShmSharedReceiveQueue*>(init.srq)), send_depth_(init.send_depth),
      max_gather_(init.max_gather), inline_bytes_(init.inline_bytes), signal_all_(init.signal_all),
      receives_queue_(srq_ != nullptr ? 0 : init.receive_depth) {}

Status LocalQueuePair::enter() {
    const Status status = context_.add_qp(this, number_);
    if (status.ok()) {
        entry_ = queue_pairs_of(context_.segment().base()) + qp_index(number_);
        publish();
    }
    return status;
}

LocalQueuePair::~LocalQueuePair() {
    if (entry_ == nullptr) {
        return;
    }
    // The derived part is gone; it has called disconnect() and drop_sends() itself.
    send_cq_->forget(this);
    receive_cq_->forget(this);
    if (srq_ != nullptr) {
        srq_->forget(this);
    }
    entry_->word.store(0, std::memory_order_release);
    context_.remove_qp(this);
    context_.count_broken(broken_ ? -1 : 0);
}

// -------------------------------------------------------------------------------------------------
// States

Status LocalQueuePair::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    QpState to = state_;
    if (const Status status = check_transition(type(), state_, attributes, mask, false, to);
        !status.ok()) {
        return status;
    }
    if (to == QpState::error) {
        enter_error();
        return kOk;
    }
    if (to == QpState::reset) {
        reset();
        return kOk;
    }
    if (to == QpState::ready_to_receive) {
        if (const Status status = connect(attributes); !status.ok()) {
            return status;
        }
        acknowledged_ = 0;
        entry_->acknowledged.store(0, std::memory_order_relaxed);
        entry_->refused.store(0, std::memory_order_relaxed);
        entry_->srq.store(srq_ == nullptr ? 0 : srq_->index() + 1, std::memory_order_relaxed);
        epoch_ = context_.consumer().reserved();
    }
    apply_attributes(attributes, mask, attributes_);
    entry_->rnr_timer.store(attributes_.rnr_timer, std::memory_order_relaxed);
    entry_->target_reads.store(attributes_.max_target_reads, std::memory_order_relaxed);
    if (to == QpState::ready_to_send) {
        ready_to_send();
    }
    set_state(to);
    publish();
    return kOk;
}

QpAttributes LocalQueuePair::query_impl() const {
    QpAttributes out = attributes_;
    out.state = state_;
    return out;
}

// Guards do not look at the queue pair itself, so a queue pair with an error closes the guards of
// all. Guards of a queue pair that is reset are invalid.
void LocalQueuePair::set_state(QpState to) {
    const bool broken = to == QpState::error && (broken_ || state_ == QpState::ready_to_send);
    context_.count_broken(static_cast<int>(broken) - static_cast<int>(broken_));
    broken_ = broken;
    state_ = to;
}

void LocalQueuePair::publish() {
    entry_->word.store(
        qp_word(number_, remote_number(), attributes_.receive_psn, attributes_.access, receives()),
        std::memory_order_seq_cst);
}

// Waits, after the entry says that this queue pair does not receive, until the peer has finished a
// copy that it may be doing.
void LocalQueuePair::fence() {
    if (busy_peer() != nullptr) {
        context_.wait_for_initiators();
    }
}

void LocalQueuePair::reset() {
    set_state(QpState::reset);
    publish();
    fence();
    drop_sends();
    disconnect();
    receives_queue_.clear();
    receives_posted_ = 0;
    entry_->posted.store(0, std::memory_order_relaxed);
    send_cq_->forget(this);
    receive_cq_->forget(this);
    if (srq_ != nullptr) {
        srq_->forget(this);
    }
    queued_.clear();
    queued_bytes_ = 0;
    assembling_ = false;
    posted_ = released_ = 0;
    attributes_ = {};
    publish();
}

void LocalQueuePair::enter_error() {
    if (state_ == QpState::error) {
        return;
    }
    set_state(QpState::error);
    publish();
    fence();
    flush_sends();
    flush_receives();
}

// -------------------------------------------------------------------------------------------------
// Completions

void LocalQueuePair::complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                                   std::uint64_t release) {
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = status;
    completion.kind = work_kind(opcode);
    completion.qp_number = number_;
    send_cq_->push(completion, this, release);
}

void LocalQueuePair::complete_receive(const WorkCompletion& completion) {
    receive_cq_->push(completion, this, 0);
}

bool LocalQueuePair::progress() {
    drain_queued();
    return progress_sends();
}

// -------------------------------------------------------------------------------------------------
// The receive queue

Status LocalQueuePair::post_receive_impl(const ReceiveWork& work) {
    if (srq_ != nullptr || work.scatter_count > max_gather_) {
        return Status::error(Reason::bad_argument);
    }
    if (state_ == QpState::reset) {
        return Status::error(Reason::bad_state);
    }
    if (state_ == QpState::error) {
        WorkCompletion completion;
        completion.wr_id = work.wr_id;
        completion.status = WorkStatus::flushed;
        completion.kind = WorkKind::receive;
        completion.qp_number = number_;
        complete_receive(completion);
        return kOk;
    }
    const Status status = receives_queue_.post(work);
    if (status.ok()) {
        entry_->posted.store(++receives_posted_, std::memory_order_release);
        if (!queued_.empty()) {
            context_.activate(this);
        }
    }
    return status;
}

const QueuedReceive* LocalQueuePair::peek_receive() {
    return srq_ != nullptr ? srq_->peek() : receives_queue_.peek();
}

void LocalQueuePair::drop_receive() {
    if (srq_ != nullptr) {
        srq_->drop();
    } else {
        receives_queue_.drop();
    }
}

void LocalQueuePair::flush_receives() {
    WorkCompletion completion;
    completion.status = WorkStatus::flushed;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    if (assembling_) {
        assembling_ = false;
        completion.wr_id = arriving_.wr_id;
        complete_receive(completion);
    }
    queued_.clear();
    queued_bytes_ = 0;
    if (srq_ != nullptr) {
        srq_->forget(this);
        return;
    }
    while (const QueuedReceive* receive = receives_queue_.peek()) {
        completion.wr_id = receive->wr_id;
        receives_queue_.drop();
        complete_receive(completion);
    }
}

} // namespace adaptib::shm
