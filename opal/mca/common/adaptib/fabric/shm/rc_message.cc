// SPDX-License-Identifier: BSD-3-Clause
// RC sends and notices of writes with immediate: sent through the target's queue, which
// acknowledges.
#include <algorithm>

#include "fabric/qp_rules.h"
#include "fabric/shm/rc.h"

namespace adaptib::shm {

// State of message number `message`. Valid even if the target is in ERR by now.
WorkStatus RcQueuePair::message_state(std::uint64_t message, bool& over) const {
    const std::uint64_t word = peer_entry_->word.load(std::memory_order_acquire);
    over = false;
    if (qp_word_number(word) != remote_number_ || (rails_word() & kRailDown) != 0) {
        return WorkStatus::success;
    }
    if (peer_entry_->acknowledged.load(std::memory_order_acquire) >= message) {
        over = true;
        return WorkStatus::success;
    }
    const std::uint64_t refused = peer_entry_->refused.load(std::memory_order_acquire);
    if (refused >> 8 == message) {
        over = true;
        const auto status = static_cast<WorkStatus>(refused & 0xff);
        return status == WorkStatus::remote_invalid_request ? status
                                                            : WorkStatus::remote_operation_error;
    }
    return WorkStatus::success;
}

// Returns true if the target has a receive for the next message; otherwise `step` says how to go
// on.
bool RcQueuePair::receive_ready(Attempt& a, WorkStatus& status, Step& step) {
    const std::uint32_t srq = peer_entry_->srq.load(std::memory_order_acquire);
    bool ready = false;
    if (srq == 0) {
        ready = peer_entry_->posted.load(std::memory_order_acquire) > messages_;
    } else {
        const std::uint64_t on_the_way =
            messages_ - peer_entry_->acknowledged.load(std::memory_order_acquire);
        ready = srq <= kMaxSrqs && srqs_of(peer_->base())[srq - 1].available.load(
                                       std::memory_order_acquire) > on_the_way;
    }
    if (ready) {
        a.rnr_since = kNever;
        return true;
    }
    step = Step::wait;
    if (attributes_.rnr_retry < 7) {
        const Nanoseconds now = context_.now();
        if (a.rnr_since == kNever) {
            a.rnr_since = now;
        }
        const auto timer = rnr_time(peer_entry_->rnr_timer.load(std::memory_order_acquire));
        // This message can only be refused after the target has taken all earlier ones.
        const bool turn = peer_entry_->acknowledged.load(std::memory_order_acquire) >= messages_;
        if (turn && now - a.rnr_since >= timer * attributes_.rnr_retry) {
            status = WorkStatus::rnr_retry_exceeded;
            step = Step::over;
        }
    }
    return false;
}

RcQueuePair::Step RcQueuePair::wait_for_room(Push push, Attempt& a, WorkStatus& status) {
    if (push == Push::no_memory) {
        status = WorkStatus::remote_operation_error;
        return Step::over;
    }
    a.give_up = kNever;
    return Step::wait;
}

RcQueuePair::Step RcQueuePair::send_message(const SendWork& work, Bytes length, Attempt& a,
                                            WorkStatus& status) {
    if (!reachable()) {
        return stall(a, status);
    }
    a.give_up = kNever;
    Step step = Step::wait;
    if (a.moved == 0 && !receive_ready(a, status, step)) {
        return step;
    }
    const std::span<const Gather> gather{work.gather, work.gather_count};
    const bool immediate = work.opcode == Opcode::send_imm;
    do {
        const Bytes part = std::min(length - a.moved, kDatagramBytes);
        const bool last = a.moved + part == length;
        RecordFields fields;
        fields.type = RecordType::message;
        fields.flags =
            static_cast<std::uint8_t>((a.moved == 0 ? kRecordFirst : 0) | (last ? kRecordLast : 0) |
                                      (immediate && last ? kRecordImmediate : 0));
        fields.length = static_cast<std::uint32_t>(part);
        fields.target_qp = remote_number_;
        fields.source_qp = number_;
        fields.immediate = work.immediate;
        const Push push = peer_->producer().push(
            fields, part, [&](std::byte* payload) { gather_out(gather, a.moved, payload, part); });
        if (push != Push::ok) {
            return wait_for_room(push, a, status);
        }
        a.moved += part;
    } while (a.moved < length);
    a.message = ++messages_;
    return Step::issued;
}

RcQueuePair::Step RcQueuePair::send_notice(const SendWork& work, Bytes length, Attempt& a,
                                           WorkStatus& status) {
    if (!reachable()) {
        return stall(a, status);
    }
    a.give_up = kNever;
    Step step = Step::wait;
    if (!receive_ready(a, status, step)) {
        return step;
    }
    RecordFields fields;
    fields.type = RecordType::notice;
    fields.flags = kRecordFirst | kRecordLast | kRecordImmediate;
    fields.length = static_cast<std::uint32_t>(length);
    fields.target_qp = remote_number_;
    fields.source_qp = number_;
    fields.immediate = work.immediate;
    const Push push = peer_->producer().push(fields, 0, [](std::byte*) {});
    if (push != Push::ok) {
        return wait_for_room(push, a, status);
    }
    a.message = ++messages_;
    return Step::issued;
}

} // namespace adaptib::shm
