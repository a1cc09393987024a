// SPDX-License-Identifier: BSD-3-Clause
// Datagrams: sending and receiving (simulator/network/ud.h).
#include "simulator/network/ud.h"

#include <algorithm>
#include <utility>

namespace adaptib::sim {

void Datagram::happen() {
    SimQueuePair* qp = world_.adapter_of(path->to).find(target);
    if (qp == nullptr || qp->type() != QpType::ud) {
        world_.datagrams().release(this);
        return;
    }
    static_cast<UdQueuePair*>(qp)->arrive(this);
}

UdQueuePair::UdQueuePair(SimRail& rail, const QpInit& init)
    : SimQueuePair(rail, init), sends_(init.send_depth) {}

UdQueuePair::~UdQueuePair() { drop_queued(); }

// -------------------------------------------------------------------------------------------------
// Sending

Status UdQueuePair::post_send_impl(const SendWork& work) {
    if (state_ == QpState::error) {
        complete_send(work.wr_id, work.opcode, WorkStatus::flushed);
        return kOk;
    }
    if (state_ != QpState::ready_to_send) {
        return Status::error(Reason::bad_state);
    }
    Bytes length = 0;
    if ((work.opcode != Opcode::send && work.opcode != Opcode::send_imm) ||
        work.address_handle == nullptr) {
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = check_list(work, length); !status.ok()) {
        return status;
    }
    settle_sends();
    if (sends_.full()) {
        return Status::again(Reason::queue_full);
    }
    Path& path = static_cast<const SimAddressHandle*>(work.address_handle)->path();
    if (machine_.offers.reliable_ud) {
        auto* target = static_cast<UdQueuePair*>(world_.adapter_of(path.to).find(work.remote_qp));
        if (target != nullptr && target->type() == QpType::ud && target->inbound_ >= kMostInbound) {
            auto& blocked = target->blocked_;
            if (std::find(blocked.begin(), blocked.end(), &process()) == blocked.end()) {
                blocked.push_back(&process());
            }
            return Status::again(Reason::queue_full);
        }
    }
    const Nanoseconds ready = post(work);
    Bytes allocated = 0;
    if ((work.flags & kInline) == 0 &&
        !rail_.regions().allows({work.gather, work.gather_count}, 0, allocated)) {
        complete_send(work.wr_id, work.opcode, WorkStatus::local_protection_error);
        enter_error();
        return kOk;
    }
    Send& send = sends_.push();
    send = {work.wr_id, work.opcode, wants_completion(work.flags),
            transmit(work, length, path, ready)};
    if (send.tells && !settles_.scheduled()) {
        simulator_.schedule(settles_, send.leaves);
    }
    return kOk;
}

Nanoseconds UdQueuePair::transmit(const SendWork& work, Bytes length, Path& path,
                                  Nanoseconds ready) {
    const Passage passage = send_packet(path, length, ready, work.remote_qp);
    if (!world_.network().up(path) || process().dead()) {
        world_.note_fault();
        return passage.left;
    }
    const WorldOptions& odds = world_.options();
    const auto happens = [&](double odd) {
        const bool does = !machine_.offers.reliable_ud && odd > 0 && world_.random().unit() < odd;
        if (does) {
            world_.note_fault();
        }
        return does;
    };
    const Fate fate = odds.fate ? odds.fate() : Fate{};
    if (fate.lost || fate.twice || fate.later.count() > 0) {
        world_.note_fault();
    }
    if (happens(odds.datagram_loss) || fate.lost) {
        return passage.left;
    }
    const int chance = happens(odds.datagram_twice) ? 2 : 1;
    for (int copies = chance + (fate.twice ? 1 : 0); copies > 0; --copies) {
        Datagram* datagram = world_.datagrams().take(world_);
        datagram->path = &path;
        datagram->target = work.remote_qp;
        datagram->source = number_;
        datagram->key = work.remote_access_key;
        datagram->value = work.immediate;
        datagram->immediate = work.opcode == Opcode::send_imm;
        datagram->payload.resize(length);
        const Gather whole{datagram->payload.data(), length, 0};
        copy_gather({work.gather, work.gather_count}, {&whole, 1});
        Nanoseconds when = passage.arrives + fate.later;
        if (fate.twice && copies == 1) {
            when += fate.second;
        }
        if (happens(odds.datagram_late)) {
            when += odds.late_by;
        }
        if (odds.detour) {
            when += odds.detour({datagram->payload.data(), length}, world_.random());
        }
        auto* target = world_.adapter_of(path.to).find(work.remote_qp);
        if (target != nullptr && target->type() == QpType::ud) {
            ++static_cast<UdQueuePair*>(target)->inbound_;
        }
        simulator_.schedule(*datagram, when);
    }
    return passage.left;
}

void UdQueuePair::settle_sends() {
    while (!sends_.empty() && sends_.front().leaves <= simulator_.now()) {
        const Send send = sends_.front();
        sends_.pop();
        if (send.tells) {
            complete_send(send.wr_id, send.opcode, WorkStatus::success);
        }
    }
    for (std::size_t i = 0; i < sends_.size(); ++i) {
        if (sends_[i].tells) {
            simulator_.schedule(settles_, sends_[i].leaves);
            return;
        }
    }
}

void UdQueuePair::flush_sends() {
    while (!sends_.empty()) {
        const Send send = sends_.front();
        sends_.pop();
        complete_send(send.wr_id, send.opcode, WorkStatus::flushed);
    }
}

void UdQueuePair::forget_sends() {
    sends_.clear();
    drop_queued();
}

// -------------------------------------------------------------------------------------------------
// Receiving

void UdQueuePair::arrive(Datagram* datagram) {
    if (world_.trace) {
        world_.tell("%s qp %u datagram of %zu bytes from qp %u", rail_.info().name.c_str(), number_,
                    datagram->payload.size(), datagram->source);
    }
    if (!receives() || datagram->key != attributes_.access_key ||
        !world_.network().up(*datagram->path)) {
        world_.datagrams().release(datagram);
        left(1);
        return;
    }
    if (queued_.empty() && deliver(datagram)) {
        left(1);
    } else if (machine_.offers.reliable_ud) {
        queued_.push_back(datagram);
        wait_for_receive();
    } else {
        world_.datagrams().release(datagram);
        left(1);
    }
}

// Returns false if there is no receive. A receive that is too short or not writable fails, and the
// datagram is lost.
bool UdQueuePair::deliver(Datagram* datagram) {
    const Gather whole{datagram->payload.data(), datagram->payload.size(), 0};
    Message message;
    message.source = {&whole, 1};
    message.length = datagram->payload.size();
    message.immediate = datagram->immediate;
    message.value = datagram->value;
    message.source_qp = datagram->source;
    switch (take(message)) {
    case Answer::no_receive: return false;
    case Answer::too_long: refuse_receive(WorkStatus::local_length_error); break;
    case Answer::no_access: refuse_receive(WorkStatus::local_protection_error); break;
    case Answer::taken: break;
    }
    world_.datagrams().release(datagram);
    return true;
}

void UdQueuePair::on_receive_posted() {
    while (!queued_.empty() && receives()) {
        Datagram* first = queued_.front();
        queued_.pop_front();
        if (!deliver(first)) {
            queued_.push_front(first);
            wait_for_receive();
            return;
        }
        left(1);
    }
}

void UdQueuePair::drop_queued() {
    for (Datagram* datagram : queued_) {
        world_.datagrams().release(datagram);
    }
    left(queued_.size());
    queued_.clear();
}

void UdQueuePair::left(std::size_t count) {
    inbound_ -= std::min(inbound_, count);
    if (inbound_ < kMostInbound && !blocked_.empty()) {
        for (Process* process : std::exchange(blocked_, {})) {
            process->wake();
        }
    }
}

} // namespace adaptib::sim
