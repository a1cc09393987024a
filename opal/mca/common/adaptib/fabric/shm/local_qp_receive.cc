// SPDX-License-Identifier: BSD-3-Clause
// Takes records from the process's queue into posted receives.
#include <algorithm>

#include "fabric/shm/local_qp.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

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
    if (queued_.empty() && take(record.fields, record.payload) == Taken::yes) {
        return true;
    }
    return queue_record(record);
}

bool LocalQueuePair::queue_record(const RecordView& record) {
    // The receives that an RC sender saw bound what it sends; nothing bounds datagrams.
    if (type() == QpType::ud && queued_bytes_ + record.payload_bytes > kMaxQueuedBytes) {
        return false;
    }
    queued_.push_back({record.fields, {record.payload, record.payload + record.payload_bytes}});
    queued_bytes_ += record.payload_bytes + sizeof(QueuedRecord);
    wait_for_receive();
    return true;
}

void LocalQueuePair::wait_for_receive() {
    if (srq_ == nullptr) {
        return; // post_receive activates the queue pair
    }
    if (srq_->peek() != nullptr) {
        context_.activate(this);
    } else {
        srq_->wait_for_post(this);
    }
}

void LocalQueuePair::drain_queued() {
    while (!queued_.empty() && receives()) {
        QueuedRecord& first = queued_.front();
        if (take(first.fields, first.payload.data()) == Taken::no_receive) {
            wait_for_receive();
            return;
        }
        if (queued_.empty()) {
            return; // take() moved the queue pair to ERR
        }
        queued_bytes_ -= first.payload.size() + sizeof(QueuedRecord);
        queued_.pop_front();
    }
}

LocalQueuePair::Taken LocalQueuePair::take(const RecordFields& fields, const std::byte* payload) {
    switch (fields.type) {
    case RecordType::datagram: return take_datagram(fields, payload);
    case RecordType::message: return take_message(fields, payload);
    case RecordType::notice: return take_notice(fields);
    default: ++context_.counters().dropped_garbage; return Taken::yes;
    }
}

LocalQueuePair::Taken LocalQueuePair::take_datagram(const RecordFields& fields,
                                                    const std::byte* payload) {
    if (fields.key != static_cast<std::uint32_t>(attributes_.access_key)) {
        ++context_.counters().dropped_key;
        return Taken::yes;
    }
    const QueuedReceive* receive = peek_receive();
    if (receive == nullptr) {
        return Taken::no_receive;
    }
    if (fields.length > receive->room()) {
        ++context_.counters().dropped_target;
        return Taken::yes;
    }
    WorkCompletion completion;
    completion.wr_id = receive->wr_id;
    completion.qp_number = number_;
    if (!context_.regions().allows(receive->list(), rail_, kLocalWrite)) {
        completion.status = WorkStatus::local_protection_error;
        completion.kind = WorkKind::receive;
        drop_receive();
        complete_receive(completion);
        enter_error();
        return Taken::yes;
    }
    scatter_in(receive->list(), 0, payload, fields.length);
    drop_receive();
    const bool immediate = (fields.flags & kRecordImmediate) != 0;
    completion.kind = immediate ? WorkKind::receive_imm : WorkKind::receive;
    completion.length = fields.length;
    completion.immediate = fields.immediate;
    completion.source_qp = fields.source_qp;
    complete_receive(completion);
    return Taken::yes;
}

LocalQueuePair::Taken LocalQueuePair::take_message(const RecordFields& fields,
                                                   const std::byte* payload) {
    if ((fields.flags & kRecordFirst) != 0) {
        const QueuedReceive* receive = peek_receive();
        if (receive == nullptr) {
            return Taken::no_receive;
        }
        arriving_ = *receive;
        arrived_ = 0;
        assembling_ = true;
        drop_receive();
    } else if (!assembling_) {
        ++context_.counters().dropped_garbage;
        return Taken::yes;
    }
    if (fields.length > arriving_.room() - arrived_) {
        assembling_ = false;
        refuse(arriving_.wr_id, WorkStatus::local_length_error, WorkStatus::remote_invalid_request);
        return Taken::yes;
    }
    if ((fields.flags & kRecordFirst) != 0 &&
        !context_.regions().allows(arriving_.list(), rail_, kLocalWrite)) {
        assembling_ = false;
        refuse(arriving_.wr_id, WorkStatus::local_protection_error,
               WorkStatus::remote_operation_error);
        return Taken::yes;
    }
    scatter_in(arriving_.list(), arrived_, payload, fields.length);
    arrived_ += fields.length;
    if ((fields.flags & kRecordLast) == 0) {
        return Taken::yes;
    }
    assembling_ = false;
    const bool immediate = (fields.flags & kRecordImmediate) != 0;
    WorkCompletion completion;
    completion.wr_id = arriving_.wr_id;
    completion.kind = immediate ? WorkKind::receive_imm : WorkKind::receive;
    completion.qp_number = number_;
    completion.length = arrived_;
    completion.immediate = fields.immediate;
    acknowledge();
    complete_receive(completion);
    return Taken::yes;
}

LocalQueuePair::Taken LocalQueuePair::take_notice(const RecordFields& fields) {
    const QueuedReceive* receive = peek_receive();
    if (receive == nullptr) {
        return Taken::no_receive;
    }
    WorkCompletion completion;
    completion.wr_id = receive->wr_id;
    completion.kind = WorkKind::receive_imm;
    completion.qp_number = number_;
    completion.length = fields.length;
    completion.immediate = fields.immediate;
    drop_receive();
    acknowledge();
    complete_receive(completion);
    return Taken::yes;
}

void LocalQueuePair::acknowledge() {
    entry_->acknowledged.store(++acknowledged_, std::memory_order_release);
}

// Refuses the message that is arriving: an error here and at its sender.
void LocalQueuePair::refuse(std::uint64_t wr_id, WorkStatus here, WorkStatus at_sender) {
    entry_->refused.store((acknowledged_ + 1) << 8 | static_cast<std::uint64_t>(at_sender),
                          std::memory_order_release);
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = here;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    complete_receive(completion);
    enter_error();
}

} // namespace adaptib::shm
