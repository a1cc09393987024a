// SPDX-License-Identifier: BSD-3-Clause
// RC: posting, states, completions (simulator/network/rc.h).
#include "simulator/network/rc.h"

#include <algorithm>
#include <cstring>

namespace adaptib::sim {

RcQueuePair::RcQueuePair(SimRail& rail, const QpInit& init)
    : ServingQueuePair(rail, init), requests_(init.send_depth) {}

RcQueuePair::~RcQueuePair() {
    leave_behind();
    disconnect();
    let_requester_go();
}

Status RcQueuePair::connect(const QpAttributes& attributes) {
    if (type() == QpType::dc_initiator || type() == QpType::dc_target) {
        return kOk;
    }
    Path* path = rail_.path(attributes.path);
    if (path == nullptr) {
        return Status::error(Reason::unreachable);
    }
    path_.use(engine_, *path);
    return kOk;
}

Status RcQueuePair::check(const SendWork& work, Bytes& length) const {
    const bool atomic = work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add;
    const bool reads = atomic || work.opcode == Opcode::read;
    if (work.opcode > Opcode::fetch_add || (reads && (work.flags & kInline) != 0) ||
        (is_initiator() && work.address_handle == nullptr)) {
        return Status::error(Reason::bad_argument);
    }
    if ((atomic && !rail_.info().has(Capability::atomic64)) ||
        (work.opcode == Opcode::read && !rail_.info().has(Capability::rdma_read))) {
        return Status::error(Reason::not_supported);
    }
    if (const Status status = check_list(work, length); !status.ok()) {
        return status;
    }
    return atomic && (length != sizeof(std::uint64_t) || work.gather_count != 1)
               ? Status::error(Reason::bad_argument)
               : kOk;
}

Status RcQueuePair::post_send_impl(const SendWork& work) {
    if (state_ == QpState::error) {
        complete_send(work.wr_id, work.opcode, WorkStatus::flushed);
        return kOk;
    }
    if (state_ != QpState::ready_to_send) {
        return Status::error(Reason::bad_state);
    }
    Bytes length = 0;
    if (const Status status = check(work, length); !status.ok()) {
        return status;
    }
    if (requests_.full()) {
        settle();
        if (requests_.full()) {
            return Status::again(Reason::queue_full);
        }
    }
    Request& request = requests_.push();
    request.work = work;
    request.length = length;
    request.arrives = Nanoseconds{0};
    request.known = false;
    request.carried_out = false;
    request.status = WorkStatus::success;
    if ((work.flags & kInline) != 0) {
        request.inlined.resize(length);
        const Gather whole{request.inlined.data(), length, 0};
        copy_gather({work.gather, work.gather_count}, {&whole, 1});
        request.gather[0] = whole;
        request.work.gather_count = 1;
    } else {
        std::copy_n(work.gather, work.gather_count, request.gather.begin());
    }
    request.ready = post(work);
    pump();
    return kOk;
}

// -------------------------------------------------------------------------------------------------
// Completions

void RcQueuePair::finish_first(WorkStatus status) {
    Request& request = requests_.front();
    if (status == WorkStatus::success && request.returns_data() &&
        request.work.opcode != Opcode::read) {
        std::memcpy(request.gather[0].address, &request.old_value, sizeof request.old_value);
    }
    const std::uint64_t wr_id = request.work.wr_id;
    const Opcode opcode = request.work.opcode;
    const Bytes copied = opcode == Opcode::read ? staged(request.list()) : 0;
    const bool told = status != WorkStatus::success || wants_completion(request.work.flags);
    requests_.pop();
    if (told) {
        complete_send(wr_id, opcode, status, copied);
    }
}

// Completes the requests that have been answered by now.
void RcQueuePair::settle() {
    while (!requests_.empty() && requests_.front().known &&
           requests_.front().answered <= simulator_.now()) {
        if (requests_.front().status != WorkStatus::success) {
            fail(requests_.front().status);
            return;
        }
        finish_first(WorkStatus::success);
    }
    if (is_initiator() && requests_.empty()) {
        let_others_be_served();
    }
    plan_settling();
    pump();
}

// Schedules nothing for requests that nobody waits for: they are settled with the next one that
// tells().
void RcQueuePair::plan_settling() {
    if (settles_.scheduled()) {
        return;
    }
    Nanoseconds when{0};
    if (requests_.next_to_tell([this](const Request& request) { return tells(request); }, when)) {
        simulator_.schedule(settles_, when);
    }
}

void RcQueuePair::fail(WorkStatus status) {
    finish_first(status);
    enter_error();
}

// The network may keep what an initiator has sent.
void RcQueuePair::leave_behind() {
    for (std::size_t i = 0; is_initiator() && i < requests_.size(); ++i) {
        const bool left = requests_[i].arrives.count() > 0; // perhaps to be sent again
        if (left && requests_[i].work.opcode == Opcode::write && requests_[i].length > 0) {
            world_.late_packets().outlive(*path_, remote(), requests_[i].work, requests_[i].list());
        }
    }
}

void RcQueuePair::stop_sending() {
    leave_behind();
    simulator_.cancel(arrives_);
    simulator_.cancel(settles_);
    retries_.cancel();
    migration_.cancel();
    outgoing_.stop();
    if (response_.active()) {
        world_.network().flows().stop(response_);
    }
    disconnect();
    let_requester_go();
}

void RcQueuePair::flush_sends() {
    while (!requests_.empty() && requests_.front().known &&
           requests_.front().answered <= simulator_.now() &&
           requests_.front().status == WorkStatus::success) {
        finish_first(WorkStatus::success);
    }
    while (!requests_.empty()) {
        finish_first(WorkStatus::flushed);
    }
}

void RcQueuePair::forget_sends() {
    requests_.clear();
    retries_.answered();
    path_.clear();
    migration_.forget_alternate();
}

// -------------------------------------------------------------------------------------------------
// Migration

Status RcQueuePair::migrate_to(const QpAttributes& attributes, std::uint32_t mask) {
    return migration_.modify(attributes, mask);
}

PathMigration* RcQueuePair::peer_migration() {
    RcQueuePair* peer = target();
    return peer == nullptr ? nullptr : &peer->migration_;
}

void RcQueuePair::take_path(Path& path, Nanoseconds done) {
    take_back_unanswered();
    path_.use(engine_, path);
    retries_.wait(Pause::target_busy, done);
}

} // namespace adaptib::sim
