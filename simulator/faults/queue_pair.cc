// SPDX-License-Identifier: BSD-3-Clause
// A queue pair with faults: its calls, and the upkeep of its list (queue_pair.h).
#include "simulator/faults/queue_pair.h"

#include "fabric/qp_rules.h"

namespace adaptib::fault {

namespace {

// Time until the first unanswered request of a rail fails (fabric/README.md, Errors).
Nanoseconds patience(const QpAttributes& attributes) {
    if (attributes.timeout == 0) {
        return Nanoseconds::max();
    }
    return Nanoseconds{std::int64_t{4096} << attributes.timeout} * (attributes.retry_count + 1);
}

} // namespace

FaultQp::FaultQp(Node& node, Rail& rail, std::uint32_t rail_index, const QpInit& init,
                 std::unique_ptr<QueuePair> below)
    : QueuePair(init.type), node_(node), rail_(rail), rail_index_(rail_index),
      below_(std::move(below)), send_cq_(static_cast<FaultCq*>(init.send_cq)),
      receive_cq_(static_cast<FaultCq*>(init.receive_cq)), srq_(static_cast<FaultSrq*>(init.srq)),
      send_depth_(init.send_depth), signal_all_(init.signal_all) {
    number_ = below_->number();
    queue_bytes_ = below_->queue_bytes();
    node_.enter(rail_index_, number_, *this);
}

FaultQp::~FaultQp() {
    below_.reset(); // before the copies that it sends
    node_.leave(rail_index_, number_);
    forget_all();
}

void FaultQp::forget_all() {
    sends_.clear();
    receives_.clear();
    late_.clear();
    withheld_ = 0;
    failing_ = broken_ = mute_ = false;
    for (FaultCq* cq : {send_cq_, receive_cq_}) {
        cq->forget(number_);
    }
}

Status FaultQp::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    if (node_.dead()) {
        return kOk;
    }
    const bool moves = (mask & kQpState) != 0;
    const bool to_reset = moves && attributes.state == QpState::reset;
    const bool to_error = moves && attributes.state == QpState::error;
    if (!to_reset && !to_error) {
        if (const Status status = node_.refuse(Site::modify, rail_index_); !status.ok()) {
            return status;
        }
    }
    const Status status = below_->modify(attributes, mask);
    if (!status.ok()) {
        return status;
    }
    if ((mask & kQpRetry) != 0) {
        timeout_ = patience(attributes);
    }
    if (to_reset) {
        forget_all();
    } else if (to_error) {
        broken_ = true;
        advance();
    }
    return kOk;
}

// Uses the queue pairs' numbers as packet sequence numbers, since no connection service exchanges
// any.
Status FaultQp::cm_connect_impl(const QpAttributes& attributes, std::uint32_t mask,
                                const CmConnectParams& params) {
    if (!node_.plan().cm_connects || type() != QpType::rc) {
        return Status::error(Reason::not_supported);
    }
    if (node_.dead()) {
        return kOk;
    }
    cm_failed_.reset();
    if (params.initiates && below_->query().state == QpState::ready_to_send) {
        // An earlier attempt succeeded late.
        node_.add_event({EventKind::cm_connected, rail_index_, number_, nullptr});
        return kOk;
    }
    if (const PlannedFault* fault =
            params.initiates ? node_.draw(Site::cm_connect, rail_index_) : nullptr;
        fault != nullptr) {
        node_.note(fault->fault, rail_index_);
        cm_failed_ = node_.due(fault->delay);
        node_.wait(rail_index_, number_, *this);
        node_.wake(cm_failed_->time);
        return kOk;
    }
    QpAttributes a = attributes;
    a.receive_psn = attributes.remote_qp;
    a.send_psn = number_;
    a.state = QpState::ready_to_receive;
    Status status = modify_impl(a, kQpState | kQpPath | kQpRemote | kQpReceiveLimits);
    if (status.ok()) {
        a.state = QpState::ready_to_send;
        status = modify_impl(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits |
                                    (mask & kCmConnectOptional));
    }
    if (status.ok() && params.initiates) {
        node_.add_event({EventKind::cm_connected, rail_index_, number_, nullptr});
    }
    return status;
}

Status FaultQp::post_receive_impl(const ReceiveWork& work) {
    if (node_.dead_at_post(rail_index_)) {
        return kOk;
    }
    if (const Status status = node_.refuse(Site::receive, rail_index_); !status.ok()) {
        return status;
    }
    ReceiveWork below = work;
    below.wr_id = tagged(kReceiveTag, receives_.next());
    const Status status = below_->post_receive(below);
    if (status.ok()) {
        receives_.add(work.wr_id);
    }
    return status;
}

// True if no planned fault could hit a request: one that is done within a call cannot fail as a
// posted one does.
bool FaultQp::allows_rma_now() {
    return usable_impl() && !node_.planned(Site::request) && !node_.planned(Site::send) &&
           !node_.planned(Site::node);
}

Status FaultQp::rma_now_impl(const RmaWork& work) {
    if (node_.plan().at_rma_now) {
        node_.plan().at_rma_now();
    }
    return allows_rma_now() ? below_->rma_now(work) : Status::again(Reason::none);
}

Status FaultQp::serve_copy_impl(const RmaWork& work) {
    return allows_rma_now() ? below_->serve_copy(work) : Status::again(Reason::none);
}

void* FaultQp::map_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    const bool direct = (node_.plan().lacks & static_cast<std::uint32_t>(Capability::direct)) == 0;
    return direct ? below_->map(address, length, key) : nullptr;
}

Status FaultQp::commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    const Status status = node_.refuse(Site::commit, rail_index_);
    return status.ok() ? below_->commit(address, length, key) : status;
}

bool FaultQp::usable_impl() const {
    return !node_.dead() && !broken_ && !mute_ && !has_to_wait() && below_->usable();
}

// -------------------------------------------------------------------------------------------------
// The list

FaultQp::Sent& FaultQp::add(const SendWork& work, Where where) {
    Sent& sent = sends_.emplace_back();
    sent.completion.wr_id = work.wr_id;
    sent.completion.kind = work_kind(work.opcode);
    sent.completion.qp_number = number_;
    sent.where = where;
    sent.wanted = signal_all_ || (work.flags & kSignaled) != 0;
    return sent;
}

Status FaultQp::pass(const SendWork& work) {
    SendWork below = work;
    below.wr_id = tagged(kSendTag, next_send_);
    const Status status = below_->post_send(below);
    if (status.ok()) {
        add(work, Where::below).number = next_send_++;
    }
    return status;
}

Status FaultQp::pass(std::unique_ptr<KeptWork>& kept) {
    const Status status = pass(kept->work);
    if (status.ok()) {
        sends_.back().kept = std::move(kept);
    }
    return status;
}

void FaultQp::withhold(const SendWork& work, WorkStatus fate, bool barred) {
    Sent& sent = add(work, Where::withheld);
    sent.fate = fate;
    sent.barred = barred;
    sent.posted = node_.now();
    sent.kept = keep(work);
    ++withheld_;
    failing_ = failing_ || fate != WorkStatus::success;
    node_.wait(rail_index_, number_, *this);
    advance();
}

void FaultQp::drop(const SendWork& work) {
    add(work, Where::over);
    advance();
}

void FaultQp::on_completion(const WorkCompletion& completion) {
    if (mute_ || node_.silent(rail_index_)) {
        return;
    }
    if (tag_of(completion.wr_id) == kSendTag) {
        on_send(completion);
    } else {
        on_receive(completion);
    }
}

void FaultQp::on_receive(WorkCompletion completion) {
    const std::uint64_t number = number_of(completion.wr_id);
    if (tag_of(completion.wr_id) == kSharedTag) {
        if (srq_ == nullptr || !srq_->take(number, completion.wr_id)) {
            return;
        }
    } else if (!receives_.take(number, completion.wr_id)) {
        return; // from before a RESET
    }
    receive_cq_->push(completion);
}

void FaultQp::on_send(const WorkCompletion& completion) {
    const std::uint64_t number = number_of(completion.wr_id);
    const auto found = std::find_if(sends_.begin(), sends_.end(), [&](const Sent& sent) {
        return sent.where == Where::below && sent.number == number;
    });
    if (found == sends_.end()) {
        return; // from before a RESET
    }
    found->completion.status = completion.status;
    found->completion.vendor_error = completion.vendor_error;
    if (completion.status == WorkStatus::success) {
        found->completion.status = found->fate;
        found->completion.length = completion.length;
    }
    found->where = Where::over;
    advance();
}

// Reports requests that are over, oldest first. An injected failure breaks the queue pair; for
// other failures the state below tells (not every fabric breaks it when a datagram fails).
void FaultQp::advance() {
    while (!sends_.empty() && !mute_) {
        Sent& first = sends_.front();
        if (first.where == Where::withheld && (first.barred || broken_)) {
            first.completion.status = broken_ ? WorkStatus::flushed : first.fate;
            first.where = Where::over;
            --withheld_;
        }
        if (first.where != Where::over) {
            return;
        }
        const WorkCompletion completion = first.completion;
        const bool failed = completion.status != WorkStatus::success;
        const bool injected = failed && completion.status == first.fate;
        const bool told = !first.doubled && (first.wanted || failed);
        sends_.pop_front();
        if (told) {
            send_cq_->push(completion);
        }
        if (injected && !broken_) {
            QpAttributes attributes;
            attributes.state = QpState::error;
            static_cast<void>(below_->modify(attributes, kQpState)); // legal from every state
        }
        broken_ = broken_ || (failed && !ready());
    }
}

// -------------------------------------------------------------------------------------------------
// Later work

bool FaultQp::progress() {
    late_.send([this](const Due& due) { return node_.reached(due); },
               [this](std::unique_ptr<KeptWork>& kept) { return send_copy(kept); });
    if (withheld_ > 0) {
        if (!ready()) {
            broken_ = true;
        } else if (node_.down(rail_index_)) {
            give_up();
        } else {
            release_withheld();
        }
        advance();
    }
    report_cm_failed();
    return withheld_ == 0 && late_.empty() && !cm_failed_;
}

void FaultQp::report_cm_failed() {
    if (cm_failed_ && node_.reached(*cm_failed_)) {
        cm_failed_.reset();
        node_.add_event({EventKind::cm_failed, rail_index_, number_, nullptr});
    }
}

Nanoseconds FaultQp::next_look() const {
    Nanoseconds next = cm_failed_ ? std::max(cm_failed_->time, node_.now()) : Nanoseconds::max();
    next = std::min(next, late_.next(node_.now()));
    if (withheld_ > 0 && node_.down(rail_index_) && timeout_ != Nanoseconds::max() &&
        sends_.front().where == Where::withheld) {
        next = std::min(next, sends_.front().posted + timeout_);
    }
    return next;
}

void FaultQp::release_withheld() {
    for (Sent& sent : sends_) {
        if (sent.where == Where::withheld) {
            if (sent.barred) {
                return;
            }
            SendWork below = sent.kept->work;
            below.wr_id = tagged(kSendTag, next_send_);
            const Status status = below_->post_send(below);
            if (status.is_error()) {
                sent.barred = true;
                sent.fate = WorkStatus::local_qp_error;
            }
            if (!status.ok()) {
                return;
            }
            sent.where = Where::below;
            sent.number = next_send_++;
            --withheld_;
        }
        if (sent.fate != WorkStatus::success) {
            return;
        }
    }
}

// Called while the rail is down: the first request gets no answer once it has waited for the
// timeout.
void FaultQp::give_up() {
    Sent& first = sends_.front();
    if (first.where == Where::withheld && !first.barred && node_.now() - first.posted >= timeout_) {
        first.barred = true;
        first.fate = WorkStatus::retry_exceeded;
        failing_ = true;
    }
}

} // namespace adaptib::fault
