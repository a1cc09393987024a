// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/message_sender.h"

#include <algorithm>

#include "base/invariant.h"
#include "fabric/qp_rules.h"

namespace adaptib::shm {

WorkStatus MessageSender::state(std::uint64_t message, bool& over) const {
    ADAPTIB_INVARIANT(message != 0 && message <= sent_,
                      "a message whose state is asked for was sent", message, sent_);
    const std::uint64_t word = peer_.entry().word.load(std::memory_order_acquire);
    over = false;
    if (qp_word_number(word) != peer_.number() || (peer_.rails_word() & kRailDown) != 0) {
        return WorkStatus::success;
    }
    if (peer_.entry().acknowledged.load(std::memory_order_acquire) >= message) {
        over = true;
        return WorkStatus::success;
    }
    const std::uint64_t refused = peer_.entry().refused.load(std::memory_order_acquire);
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
bool MessageSender::receive_ready(std::uint8_t rnr_retry, Attempt& a, WorkStatus& status,
                                  Step& step) {
    const std::uint32_t srq = peer_.entry().srq.load(std::memory_order_acquire);
    bool ready = false;
    if (srq == 0) {
        ready = peer_.entry().posted.load(std::memory_order_acquire) > sent_;
    } else {
        const std::uint64_t on_the_way =
            sent_ - peer_.entry().acknowledged.load(std::memory_order_acquire);
        ready = srq <= kMaxSrqs && srqs_of(peer_.segment().base())[srq - 1].available.load(
                                       std::memory_order_acquire) > on_the_way;
    }
    if (ready) {
        a.rnr_since = kNever;
        return true;
    }
    step = Step::wait;
    if (rnr_retry < 7) {
        const Nanoseconds now = clock_.now();
        if (a.rnr_since == kNever) {
            a.rnr_since = now;
        }
        const auto timer = rnr_time(peer_.entry().rnr_timer.load(std::memory_order_acquire));
        // This message can only be refused after the target has taken all earlier ones.
        const bool turn = peer_.entry().acknowledged.load(std::memory_order_acquire) >= sent_;
        if (turn && now - a.rnr_since >= timer * rnr_retry) {
            status = WorkStatus::rnr_retry_exceeded;
            step = Step::over;
        }
    }
    return false;
}

Step MessageSender::wait_for_room(Push push, Attempt& a, WorkStatus& status) {
    if (push == Push::no_memory) {
        status = WorkStatus::remote_operation_error;
        return Step::over;
    }
    a.give_up = kNever;
    return Step::wait;
}

Step MessageSender::send(const SendWork& work, Bytes length, std::uint8_t rnr_retry, Attempt& a,
                         WorkStatus& status) {
    a.give_up = kNever;
    ADAPTIB_INVARIANT(a.message == 0 && a.moved <= length,
                      "a message is sent once, and no more than its length", a.message, a.moved,
                      length);
    Step step = Step::wait;
    if (a.moved == 0 && !receive_ready(rnr_retry, a, status, step)) {
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
        fields.target_qp = peer_.number();
        fields.source_qp = own_number_;
        fields.immediate = work.immediate;
        const Push push = peer_.segment().producer().push(
            fields, part, [&](std::byte* payload) { gather_out(gather, a.moved, payload, part); });
        if (push != Push::ok) {
            return wait_for_room(push, a, status);
        }
        a.moved += part;
    } while (a.moved < length);
    a.message = ++sent_;
    return Step::issued;
}

Step MessageSender::send_notice(const SendWork& work, Bytes length, std::uint8_t rnr_retry,
                                Attempt& a, WorkStatus& status) {
    a.give_up = kNever;
    ADAPTIB_INVARIANT(a.message == 0 && a.data_done,
                      "the notice of a write is sent once, behind the data", a.message,
                      a.data_done);
    Step step = Step::wait;
    if (!receive_ready(rnr_retry, a, status, step)) {
        return step;
    }
    RecordFields fields;
    fields.type = RecordType::notice;
    fields.flags = kRecordFirst | kRecordLast | kRecordImmediate;
    fields.length = static_cast<std::uint32_t>(length);
    fields.target_qp = peer_.number();
    fields.source_qp = own_number_;
    fields.immediate = work.immediate;
    const Push push = peer_.segment().producer().push(fields, 0, [](std::byte*) {});
    if (push != Push::ok) {
        return wait_for_room(push, a, status);
    }
    a.message = ++sent_;
    return Step::issued;
}

} // namespace adaptib::shm
