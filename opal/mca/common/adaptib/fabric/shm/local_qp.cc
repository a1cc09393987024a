// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair, and completions.
#include "fabric/shm/local_qp.h"

#include "base/invariant.h"

namespace adaptib::shm {

LocalQueuePair::LocalQueuePair(Context& context, std::uint32_t rail, const QpInit& init)
    : QueuePair(init.type), context_(context), rail_(rail),
      send_cq_(static_cast<ShmCompletionQueue*>(init.send_cq)), send_depth_(init.send_depth),
      max_gather_(init.max_gather), inline_bytes_(init.inline_bytes), signal_all_(init.signal_all),
      receiver_(context, this, rail, init) {
    ADAPTIB_INVARIANT(send_cq_ != nullptr && max_gather_ <= kMaxGather,
                      "a queue pair has a completion queue and short gather lists", send_cq_,
                      max_gather_);
}

Status LocalQueuePair::enter() {
    ADAPTIB_INVARIANT(entry_ == nullptr, "a queue pair enters the table once", number_);
    const Status status = context_.queue_pairs().add(this, number_);
    if (status.ok()) {
        entry_ = queue_pairs_of(context_.segment().base()) + qp_index(number_);
        receiver_.open(number_, entry_);
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
    receiver_.forget();
    entry_->word.store(0, std::memory_order_release);
    context_.queue_pairs().remove(number_);
    context_.deactivate(this);
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
        receiver_.restart();
        epoch_ = context_.consumer().reserved();
    }
    apply_attributes(attributes, mask, attributes_);
    receiver_.set_key(attributes_.access_key);
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
    ADAPTIB_INVARIANT(to == QpState::error || to == QpState::reset || to == state_ ||
                          static_cast<int>(to) == static_cast<int>(state_) + 1,
                      "a queue pair moves to the next state, to ERR or to RESET", state_, to);
    ADAPTIB_INVARIANT(state_ == QpState::error || !broken_, "a queue pair is broken only in ERR",
                      state_);
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
    if (busy_initiator().peer != nullptr) {
        context_.fence_queue_pair();
    }
}

void LocalQueuePair::reset() {
    set_state(QpState::reset);
    publish();
    fence();
    drop_sends();
    disconnect();
    send_cq_->forget(this);
    receiver_.reset();
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
    receiver_.flush();
}

// -------------------------------------------------------------------------------------------------
// Completions

void LocalQueuePair::complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                                   std::uint64_t release) {
    ADAPTIB_INVARIANT(released_ < release && release <= posted_,
                      "a request completes once, in the order of posting", released_, release,
                      posted_);
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = status;
    completion.kind = work_kind(opcode);
    completion.qp_number = number_;
    send_cq_->push(completion, this, release);
}

bool LocalQueuePair::progress() {
    if (receives() && receiver_.drain() == Receiver::Taken::broken) {
        enter_error();
    }
    return progress_sends();
}

// -------------------------------------------------------------------------------------------------
// Receiving

bool LocalQueuePair::deliver(const RecordView& record) {
    if (!receives() || record.position < epoch_ || !accepts(record)) {
        ++context_.counters().dropped_target;
        if (record.fields.type == RecordType::request) {
            context_.turn_away(record);
        }
        return true;
    }
    switch (record.fields.type) {
    case RecordType::request: serve(record); return true;
    case RecordType::broken:
        context_.raise(EventKind::qp_fatal, rail_, number_);
        enter_error();
        return true;
    default: break;
    }
    const Receiver::Taken taken = receiver_.deliver(record);
    if (taken == Receiver::Taken::broken) {
        enter_error();
    }
    return taken != Receiver::Taken::no_room;
}

Status LocalQueuePair::post_receive_impl(const ReceiveWork& work) {
    if (!receiver_.allows(work)) {
        return Status::error(Reason::bad_argument);
    }
    if (state_ == QpState::reset) {
        return Status::error(Reason::bad_state);
    }
    if (state_ == QpState::error) {
        receiver_.complete_flushed(work.wr_id);
        return kOk;
    }
    return receiver_.post(work);
}

} // namespace adaptib::shm
