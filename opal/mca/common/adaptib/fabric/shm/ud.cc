// SPDX-License-Identifier: BSD-3-Clause
// Sending datagrams.
#include "fabric/shm/ud.h"

#include <algorithm>

#include "base/invariant.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

namespace {

// Full queues between two checks of the target's process.
constexpr std::uint32_t kFullsPerLook = 256;

} // namespace

bool ShmAddressHandle::shares_processor_impl() const {
    const int own = only_processor(0);
    return own >= 0 && own == only_processor(peer->pid());
}

Status ShmAddressHandle::standing_impl(std::string& text) const {
    if (const Obstacle refusal = peer->refusal(); refusal.reason != Reason::none) {
        text = refusal.text(peer->own_pid(), false);
        return Status::error(refusal.reason);
    }
    return peer->left()   ? Status::error(Reason::no_device)
           : peer->gone() ? Status::error(Reason::peer_gone)
                          : kOk;
}

UdQueuePair::~UdQueuePair() { state_ = QpState::reset; }

bool UdQueuePair::usable_impl() const {
    return state_ == QpState::ready_to_send && context_.rails().word(rail_) == 0;
}

Status UdQueuePair::post_send_impl(const SendWork& work) {
    if (state_ != QpState::ready_to_send && state_ != QpState::error) {
        return Status::error(Reason::bad_state);
    }
    Bytes length = 0;
    if (const Status status = check_list(work, kDatagramBytes, length); !status.ok()) {
        return status;
    }
    const auto* handle = static_cast<const ShmAddressHandle*>(work.address_handle);
    if ((work.opcode != Opcode::send && work.opcode != Opcode::send_imm) || handle == nullptr ||
        handle->rail != rail_) {
        return Status::error(Reason::bad_argument);
    }
    if (send_queue_full()) {
        return Status::again(Reason::queue_full);
    }
    if (state_ == QpState::error) {
        complete_send(work.wr_id, work.opcode, WorkStatus::flushed, ++posted_);
        return kOk;
    }
    const std::uint64_t word = rails_word(*handle->peer, handle->peer_rail);
    if (!ops_.empty() || (word != 0 && (word & (kRailDown | kRailClosed)) == 0)) {
        ++posted_;
        enqueue(work, length, *handle);
        return kOk;
    }
    const Sent sent = send(work, length, *handle->peer, handle->peer_rail);
    switch (sent) {
    case Sent::full: return Status::again(Reason::queue_full);
    case Sent::gone: return Status::error(Reason::peer_gone);
    case Sent::no_memory: return Status::error(Reason::no_memory);
    default: conclude(work, sent, ++posted_); return kOk;
    }
}

UdQueuePair::Sent UdQueuePair::send(const SendWork& work, Bytes length, PeerSegment& peer,
                                    std::uint32_t peer_rail) {
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if ((work.flags & kInline) == 0 && !context_.regions().allows(gather, rail_, 0)) {
        return Sent::bad_key;
    }
    const std::uint64_t word = rails_word(peer, peer_rail);
    if ((word & kRailClosed) != 0) {
        return Sent::gone;
    }
    if ((word & kRailDown) != 0) {
        return Sent::yes; // the datagram vanishes
    }
    RecordFields fields;
    fields.type = RecordType::datagram;
    fields.flags = work.opcode == Opcode::send_imm ? kRecordImmediate : 0;
    fields.length = static_cast<std::uint32_t>(length);
    fields.target_qp = work.remote_qp;
    fields.source_qp = number_;
    fields.immediate = work.immediate;
    fields.key = static_cast<std::uint32_t>(work.remote_access_key);
    const Push push = peer.producer().push(
        fields, length, [&](std::byte* payload) { gather_out(gather, 0, payload, length); });
    switch (push) {
    case Push::ok: return Sent::yes;
    case Push::no_memory: return Sent::no_memory;
    case Push::full: break;
    }
    if (++found_full_ % kFullsPerLook == 0 && !peer.check_alive()) {
        return Sent::gone;
    }
    return Sent::full;
}

void UdQueuePair::enqueue(const SendWork& work, Bytes length, const ShmAddressHandle& handle) {
    ADAPTIB_INVARIANT(state_ == QpState::ready_to_send, "a datagram waits only in RTS", state_);
    ADAPTIB_INVARIANT(!ops_.full(), "the send queue has room for what it takes", ops_.size());
    Op& op = ops_.push();
    op.work = work;
    op.length = length;
    op.release = posted_;
    op.peer = handle.peer;
    op.peer_rail = handle.peer_rail;
    std::copy_n(work.gather, work.gather_count, op.gather.begin());
    if ((work.flags & kInline) != 0 && length > 0) {
        op.inline_data.resize(length);
        gather_out({work.gather, work.gather_count}, 0, op.inline_data.data(), length);
        op.gather[0] = {nullptr, length, 0};
        op.work.gather_count = 1;
    }
    const std::uint64_t peer_word =
        handle.peer->header()->rail[handle.peer_rail].word.load(std::memory_order_acquire);
    op.ready_at = context_.rails().pace(rail_, peer_word, length, context_.clock());
    context_.activate(this);
}

void UdQueuePair::conclude(const SendWork& work, Sent sent, std::uint64_t release) {
    WorkStatus status = WorkStatus::success;
    switch (sent) {
    case Sent::bad_key: status = WorkStatus::local_protection_error; break;
    case Sent::gone: status = WorkStatus::retry_exceeded; break;
    case Sent::no_memory: status = WorkStatus::remote_operation_error; break;
    default: break;
    }
    if (status != WorkStatus::success || wants_completion(work.flags)) {
        complete_send(work.wr_id, work.opcode, status, release);
    }
    if (sent == Sent::bad_key) {
        enter_error();
    }
}

bool UdQueuePair::progress_sends() {
    ADAPTIB_INVARIANT(ops_.empty() || state_ == QpState::ready_to_send,
                      "datagrams wait only in RTS", ops_.size(), state_);
    while (!ops_.empty()) {
        Op& op = ops_.front();
        ADAPTIB_INVARIANT(op.peer != nullptr, "a datagram that waits has a target", op.release);
        const std::uint64_t word = rails_word(*op.peer, op.peer_rail);
        const bool slowed = (word & kRailRateMask) != 0 && (word & (kRailDown | kRailClosed)) == 0;
        if (slowed && context_.now() < op.ready_at) {
            return true;
        }
        op.work.gather = op.gather.data();
        if ((op.work.flags & kInline) != 0) {
            op.gather[0].address = op.inline_data.data();
        }
        const Sent sent = send(op.work, op.length, *op.peer, op.peer_rail);
        if (sent == Sent::full) {
            return true;
        }
        const SendWork work = op.work;
        const std::uint64_t release = op.release;
        op.peer.reset();
        ops_.pop();
        conclude(work, sent, release);
    }
    return false;
}

void UdQueuePair::flush_sends() {
    while (!ops_.empty()) {
        Op& op = ops_.front();
        const std::uint64_t wr_id = op.work.wr_id;
        const Opcode opcode = op.work.opcode;
        const std::uint64_t release = op.release;
        op.peer.reset();
        ops_.pop();
        complete_send(wr_id, opcode, WorkStatus::flushed, release);
    }
}

} // namespace adaptib::shm
