// SPDX-License-Identifier: BSD-3-Clause
// RC: carries out a request at its target (fabric/sim/rc.h).
#include <algorithm>
#include <cstring>

#include "fabric/sim/rc.h"

namespace adaptib::sim {

// Returns the queue pair that takes our requests now; null: none.
RcQueuePair* RcQueuePair::target() const {
    if (path_ == nullptr) {
        return nullptr;
    }
    SimQueuePair* found = world_.adapter_of(path_->to).find(remote());
    if (found == nullptr || found->type() != (is_initiator() ? QpType::dc_target : QpType::rc)) {
        return nullptr;
    }
    auto* at = static_cast<RcQueuePair*>(found);
    if (at->port() != path_->to || !at->receives()) {
        return nullptr;
    }
    if (is_initiator()) {
        return at;
    }
    const bool ours = at->attributes_.remote_qp == number_ && at->path_ != nullptr &&
                      at->path_->to == port() &&
                      at->attributes_.receive_psn == attributes_.send_psn;
    return ours ? at : nullptr;
}

// Lets the peer try again if it waits for a receive of ours.
void RcQueuePair::let_requester_go() {
    if (type() != QpType::rc || path_ == nullptr) {
        return;
    }
    SimQueuePair* found = world_.adapter_of(path_->to).find(attributes_.remote_qp);
    if (found == nullptr || found->type() != QpType::rc) {
        return;
    }
    auto* from = static_cast<RcQueuePair*>(found);
    if (from->attributes_.remote_qp == number_ && from->pause_ == Pause::no_receive &&
        !from->resumes_.scheduled()) {
        simulator_.schedule(from->resumes_, std::max(simulator_.now(), from->rnr_until_));
    }
}

Path* RcQueuePair::way_back(const RcQueuePair& at) const {
    return is_initiator()
               ? world_.network().path(path_->to, world_.topology().ports[rail_.port()].lid)
               : at.path_;
}

// A DC target has no path of its own: its responses go back to the initiator of the request.
std::span<const LinkIndex> RcQueuePair::links_back(const RcQueuePair& at) {
    if (!is_initiator()) {
        return at.links_;
    }
    list_links(at.engine_, *way_back(at), links_back_);
    return links_back_;
}

void RcQueuePair::on_receive_posted() { let_requester_go(); }

RcQueuePair::Outcome RcQueuePair::carry_out(RcQueuePair& at, Request& request,
                                            WorkStatus& refusal) {
    if (is_initiator()) {
        if (request.work.remote_access_key != at.attributes_.access_key) {
            return Outcome::nobody;
        }
        if (!get_served(at)) {
            return Outcome::busy;
        }
    }
    switch (request.work.opcode) {
    case Opcode::send:
    case Opcode::send_imm: return carry_out_send(at, request, refusal);
    case Opcode::write:
    case Opcode::write_imm: return carry_out_write(at, request, refusal);
    case Opcode::read: return carry_out_read(at, request, refusal);
    case Opcode::compare_swap:
    case Opcode::fetch_add: return carry_out_atomic(at, request, refusal);
    }
    return Outcome::nobody;
}

RcQueuePair::Outcome RcQueuePair::refuse(RcQueuePair& at, WorkStatus status, WorkStatus& refusal) {
    refusal = status;
    at.fatal();
    return Outcome::refused;
}

RcQueuePair::Outcome RcQueuePair::carry_out_send(RcQueuePair& at, Request& request,
                                                 WorkStatus& refusal) {
    Message message;
    message.source = request.list();
    message.length = request.length;
    message.immediate = request.work.opcode == Opcode::send_imm;
    message.value = request.work.immediate;
    switch (at.take(message)) {
    case Answer::taken: return Outcome::done;
    case Answer::no_receive: return Outcome::no_receive;
    case Answer::too_long:
        refusal = WorkStatus::remote_invalid_request;
        at.refuse_receive(WorkStatus::local_length_error);
        return Outcome::refused;
    case Answer::no_access:
        refusal = WorkStatus::remote_operation_error;
        at.refuse_receive(WorkStatus::local_protection_error);
        return Outcome::refused;
    }
    return Outcome::nobody;
}

RcQueuePair::Outcome RcQueuePair::carry_out_write(RcQueuePair& at, Request& request,
                                                  WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (request.length > 0 && ((at.attributes_.access & kRemoteWrite) == 0 ||
                               at.rail_.regions().find(work.remote_key, work.remote_address,
                                                       request.length, kRemoteWrite) == nullptr)) {
        return refuse(at, WorkStatus::remote_access_error, refusal);
    }
    if (work.opcode == Opcode::write_imm && at.next_receive() == nullptr) {
        return Outcome::no_receive;
    }
    if (request.length > 0) {
        const Gather whole{reinterpret_cast<void*>(work.remote_address), request.length, 0};
        copy_gather(request.list(), {&whole, 1});
    }
    if (work.opcode == Opcode::write_imm) {
        static_cast<void>(at.take_notice(request.length, work.immediate));
    }
    if ((work.flags & kPublish) != 0) { // the process polls there
        at.process().owe(machine_.processor.copy_start +
                         wire_time(request.length, machine_.processor.copy_rate));
        at.process().wake();
    }
    return Outcome::done;
}

RcQueuePair::Outcome RcQueuePair::carry_out_read(RcQueuePair& at, Request& request,
                                                 WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (at.attributes_.max_target_reads == 0) {
        return refuse(at, WorkStatus::remote_invalid_request, refusal);
    }
    if (request.length == 0) {
        return Outcome::done;
    }
    if ((at.attributes_.access & kRemoteRead) == 0 ||
        at.rail_.regions().find(work.remote_key, work.remote_address, request.length,
                                kRemoteRead) == nullptr) {
        return refuse(at, WorkStatus::remote_access_error, refusal);
    }
    const Gather whole{reinterpret_cast<void*>(work.remote_address), request.length, 0};
    copy_gather({&whole, 1}, request.list());
    return Outcome::done;
}

RcQueuePair::Outcome RcQueuePair::carry_out_atomic(RcQueuePair& at, Request& request,
                                                   WorkStatus& refusal) {
    const SendWork& work = request.work;
    if (at.attributes_.max_target_reads == 0 || work.remote_address % sizeof(std::uint64_t) != 0) {
        return refuse(at, WorkStatus::remote_invalid_request, refusal);
    }
    if ((at.attributes_.access & kRemoteAtomic) == 0 ||
        at.rail_.regions().find(work.remote_key, work.remote_address, sizeof(std::uint64_t),
                                kRemoteAtomic) == nullptr) {
        return refuse(at, WorkStatus::remote_access_error, refusal);
    }
    auto* word = reinterpret_cast<std::uint64_t*>(work.remote_address);
    request.old_value = *word;
    if (work.opcode == Opcode::fetch_add) {
        *word += work.compare_add;
    } else if (*word == work.compare_add) {
        *word = work.swap;
    }
    return Outcome::done;
}

} // namespace adaptib::sim
