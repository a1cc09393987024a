// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair and completions.
#include "fabric/shm/local_qp.h"

#include <array>

namespace adaptib::shm {

namespace {

struct Transition {
    QpType type;
    QpState from;
    QpState to;
    std::uint32_t required;
    std::uint32_t optional;
};

constexpr std::uint32_t kMigrationMask = kQpAlternatePath | kQpMigration;

constexpr std::array kTransitions{
    Transition{QpType::rc, QpState::reset, QpState::init, kQpAccess, 0},
    Transition{QpType::rc, QpState::init, QpState::init, 0, kQpAccess},
    Transition{QpType::rc, QpState::init, QpState::ready_to_receive,
               kQpPath | kQpRemote | kQpReceiveLimits, kQpAccess | kQpAlternatePath},
    Transition{QpType::rc, QpState::ready_to_receive, QpState::ready_to_send,
               kQpRetry | kQpSendPsn | kQpSendLimits, kQpAccess | kMigrationMask},
    Transition{QpType::rc, QpState::ready_to_send, QpState::ready_to_send, 0,
               kQpAccess | kMigrationMask},
    Transition{QpType::ud, QpState::reset, QpState::init, kQpKey, 0},
    Transition{QpType::ud, QpState::init, QpState::init, 0, kQpKey},
    Transition{QpType::ud, QpState::init, QpState::ready_to_receive, 0, kQpKey},
    Transition{QpType::ud, QpState::ready_to_receive, QpState::ready_to_send, kQpSendPsn, kQpKey},
    Transition{QpType::ud, QpState::ready_to_send, QpState::ready_to_send, 0, kQpKey},
};

const Transition* find_transition(QpType type, QpState from, QpState to) {
    for (const Transition& t : kTransitions) {
        if (t.type == type && t.from == from && t.to == to) {
            return &t;
        }
    }
    return nullptr;
}

WorkKind kind_of(Opcode opcode) {
    switch (opcode) {
    case Opcode::send:
    case Opcode::send_imm: return WorkKind::send;
    case Opcode::write:
    case Opcode::write_imm: return WorkKind::write;
    case Opcode::read: return WorkKind::read;
    case Opcode::compare_swap: return WorkKind::compare_swap;
    case Opcode::fetch_add: return WorkKind::fetch_add;
    }
    return WorkKind::send;
}

} // namespace

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
    // The derived part is gone: it has called disconnect() and drop_sends() itself.
    send_cq_->forget(this);
    receive_cq_->forget(this);
    if (srq_ != nullptr) {
        srq_->forget(this);
    }
    entry_->word.store(0, std::memory_order_release);
    context_.remove_qp(this);
}

// ---------------------------------------------------------------------------------------------------
// States

Status LocalQueuePair::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    const QpState to = (mask & kQpState) != 0 ? attributes.state : state_;
    const std::uint32_t rest = mask & ~static_cast<std::uint32_t>(kQpState);
    if (to > QpState::error) {
        return Status::error(Reason::bad_argument);
    }
    if (to == QpState::error || to == QpState::reset) {
        if (rest != 0) {
            return Status::error(Reason::bad_argument);
        }
        if (to == QpState::reset) {
            reset();
        } else {
            enter_error();
        }
        return kOk;
    }
    const Transition* t = find_transition(type(), state_, to);
    if (t == nullptr) {
        return Status::error(Reason::bad_state);
    }
    if ((rest & t->required) != t->required || (rest & ~(t->required | t->optional)) != 0) {
        return Status::error(Reason::bad_argument);
    }
    if ((rest & kMigrationMask) != 0) {
        return Status::error(Reason::not_supported);
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
    apply(attributes, mask);
    if (to == QpState::ready_to_send) {
        ready_to_send();
    }
    state_ = to;
    publish();
    return kOk;
}

void LocalQueuePair::apply(const QpAttributes& a, std::uint32_t mask) {
    if ((mask & kQpAccess) != 0) {
        attributes_.access = a.access;
    }
    if ((mask & kQpKey) != 0) {
        attributes_.access_key = a.access_key;
    }
    if ((mask & kQpPath) != 0) {
        attributes_.path = a.path;
    }
    if ((mask & kQpRemote) != 0) {
        attributes_.remote_qp = a.remote_qp;
        attributes_.receive_psn = a.receive_psn;
    }
    if ((mask & kQpReceiveLimits) != 0) {
        attributes_.max_target_reads = a.max_target_reads;
        attributes_.rnr_timer = a.rnr_timer;
        entry_->rnr_timer.store(a.rnr_timer, std::memory_order_relaxed);
        entry_->target_reads.store(a.max_target_reads, std::memory_order_relaxed);
    }
    if ((mask & kQpRetry) != 0) {
        attributes_.timeout = a.timeout;
        attributes_.retry_count = a.retry_count;
        attributes_.rnr_retry = a.rnr_retry;
    }
    if ((mask & kQpSendPsn) != 0) {
        attributes_.send_psn = a.send_psn;
    }
    if ((mask & kQpSendLimits) != 0) {
        attributes_.max_reads = a.max_reads;
    }
}

QpAttributes LocalQueuePair::query_impl() const {
    QpAttributes out = attributes_;
    out.state = state_;
    return out;
}

void LocalQueuePair::publish() {
    entry_->word.store(
        qp_word(number_, remote_number(), attributes_.receive_psn, attributes_.access, receives()),
        std::memory_order_seq_cst);
}

// After the entry says that we do not receive: until the peer, should it be copying, is done.
void LocalQueuePair::fence() {
    if (peer_is_busy()) {
        context_.wait_for_initiators();
    }
}

void LocalQueuePair::reset() {
    state_ = QpState::reset;
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
    held_.clear();
    held_bytes_ = 0;
    assembling_ = false;
    overrun_ = false;
    posted_ = released_ = 0;
    attributes_ = {};
    publish();
}

void LocalQueuePair::enter_error() {
    if (state_ == QpState::error) {
        return;
    }
    state_ = QpState::error;
    publish();
    fence();
    flush_sends();
    flush_receives();
}

// ---------------------------------------------------------------------------------------------------
// Completions

void LocalQueuePair::complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                                   std::uint64_t release) {
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = status;
    completion.kind = kind_of(opcode);
    completion.qp_number = number_;
    if (!send_cq_->push(completion, this, release)) {
        overrun();
    }
}

void LocalQueuePair::complete_receive(const WorkCompletion& completion) {
    if (!receive_cq_->push(completion, this, 0)) {
        overrun();
    }
}

// A completion was lost: the queue pair cannot go on, and an event says so.
void LocalQueuePair::overrun() {
    if (overrun_) {
        return;
    }
    overrun_ = true;
    context_.raise(EventKind::qp_fatal, rail_, number_);
    enter_error();
}

Status LocalQueuePair::check_gather(const SendWork& work, Bytes& length) const {
    if (work.gather_count > max_gather_ || (work.gather_count > 0 && work.gather == nullptr)) {
        return Status::error(Reason::bad_argument);
    }
    length = 0;
    for (std::uint32_t i = 0; i < work.gather_count; ++i) {
        if (work.gather[i].length > kMaxMessage) {
            return Status::error(Reason::bad_argument);
        }
        length += work.gather[i].length;
    }
    if ((work.flags & kInline) != 0 && length > inline_bytes_) {
        return Status::error(Reason::bad_argument);
    }
    return kOk;
}

bool LocalQueuePair::progress() {
    drain_held();
    return progress_sends();
}

// ---------------------------------------------------------------------------------------------------
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
        if (!held_.empty()) {
            context_.activate(this);
        }
    }
    return status;
}

const PostedReceive* LocalQueuePair::peek_receive() {
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
    held_.clear();
    held_bytes_ = 0;
    if (srq_ != nullptr) {
        srq_->forget(this);
        return;
    }
    while (const PostedReceive* receive = receives_queue_.peek()) {
        completion.wr_id = receive->wr_id;
        receives_queue_.drop();
        complete_receive(completion);
    }
}

} // namespace adaptib::shm
