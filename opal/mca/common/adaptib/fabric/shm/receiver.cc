// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/receiver.h"

#include <algorithm>

#include "base/invariant.h"
#include "fabric/shm/context.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

Receiver::Receiver(Context& context, LocalQueuePair* owner, std::uint32_t rail, const QpInit& init)
    : context_(context), owner_(owner), cq_(static_cast<ShmCompletionQueue*>(init.receive_cq)),
      srq_(static_cast<ShmSharedReceiveQueue*>(init.srq)), rail_(rail),
      max_gather_(init.max_gather), takes_datagrams_(init.type == QpType::ud),
      receives_(srq_ != nullptr ? 0 : init.receive_depth) {}

void Receiver::restart() {
    ADAPTIB_INVARIANT(queued_.empty() && !assembling_, "a connection begins without records",
                      queued_.size(), assembling_);
    acknowledged_ = 0;
    entry_->acknowledged.store(0, std::memory_order_relaxed);
    entry_->refused.store(0, std::memory_order_relaxed);
    entry_->srq.store(srq_ == nullptr ? 0 : srq_->index() + 1, std::memory_order_relaxed);
}

// -------------------------------------------------------------------------------------------------
// Records

Receiver::Taken Receiver::queue_record(const RecordView& record) {
    // The receives that an RC sender saw bound what it sends; nothing bounds datagrams.
    if (takes_datagrams_ && queued_bytes_ + record.payload_bytes > kMaxQueuedBytes) {
        return Taken::no_room;
    }
    queued_.push_back({record.fields, {record.payload, record.payload + record.payload_bytes}});
    queued_bytes_ += record.payload_bytes + sizeof(QueuedRecord);
    wait_for_receive();
    return Taken::yes;
}

void Receiver::wait_for_receive() {
    if (srq_ == nullptr) {
        return; // post() activates the queue pair
    }
    if (srq_->peek() != nullptr) {
        context_.activate(owner_);
    } else {
        srq_->wait_for_post(owner_);
    }
}

Receiver::Taken Receiver::drain() {
    while (!queued_.empty()) {
        QueuedRecord& first = queued_.front();
        const Taken taken = take(first.fields, first.payload.data());
        if (taken == Taken::no_receive) {
            wait_for_receive();
        }
        if (taken != Taken::yes) {
            return taken;
        }
        ADAPTIB_INVARIANT(first.payload.size() + sizeof(QueuedRecord) <= queued_bytes_,
                          "a record is part of what is queued", first.payload.size(),
                          queued_bytes_);
        queued_bytes_ -= first.payload.size() + sizeof(QueuedRecord);
        queued_.pop_front();
    }
    ADAPTIB_INVARIANT(queued_bytes_ == 0, "no record takes room where none is queued",
                      queued_bytes_);
    return Taken::yes;
}

Receiver::Taken Receiver::take(const RecordFields& fields, const std::byte* payload) {
    switch (fields.type) {
    case RecordType::datagram: return take_datagram(fields, payload);
    case RecordType::message: return take_message(fields, payload);
    case RecordType::notice: return take_notice(fields);
    default: ++context_.counters().dropped_garbage; return Taken::yes;
    }
}

Receiver::Taken Receiver::take_datagram(const RecordFields& fields, const std::byte* payload) {
    if (fields.key != key_) {
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
        complete(completion);
        return Taken::broken;
    }
    scatter_in(receive->list(), 0, payload, fields.length);
    drop_receive();
    const bool immediate = (fields.flags & kRecordImmediate) != 0;
    completion.kind = immediate ? WorkKind::receive_imm : WorkKind::receive;
    completion.length = fields.length;
    completion.immediate = fields.immediate;
    completion.source_qp = fields.source_qp;
    complete(completion);
    return Taken::yes;
}

Receiver::Taken Receiver::take_message(const RecordFields& fields, const std::byte* payload) {
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
    ADAPTIB_AUDIT(arrived_ <= arriving_.room(), "a message has room for what has arrived of it",
                  arrived_, arriving_.wr_id);
    if (fields.length > arriving_.room() - arrived_) {
        assembling_ = false;
        return refuse(arriving_.wr_id, WorkStatus::local_length_error,
                      WorkStatus::remote_invalid_request);
    }
    if ((fields.flags & kRecordFirst) != 0 &&
        !context_.regions().allows(arriving_.list(), rail_, kLocalWrite)) {
        assembling_ = false;
        return refuse(arriving_.wr_id, WorkStatus::local_protection_error,
                      WorkStatus::remote_operation_error);
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
    complete(completion);
    return Taken::yes;
}

Receiver::Taken Receiver::take_notice(const RecordFields& fields) {
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
    complete(completion);
    return Taken::yes;
}

void Receiver::acknowledge() {
    ++acknowledged_;
    ADAPTIB_INVARIANT(srq_ != nullptr || acknowledged_ <= posted_,
                      "each message takes a receive that was posted", acknowledged_, posted_);
    entry_->acknowledged.store(acknowledged_, std::memory_order_release);
}

// Refuses the message that is arriving: an error here and at its sender.
Receiver::Taken Receiver::refuse(std::uint64_t wr_id, WorkStatus here, WorkStatus at_sender) {
    entry_->refused.store((acknowledged_ + 1) << 8 | static_cast<std::uint64_t>(at_sender),
                          std::memory_order_release);
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = here;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    complete(completion);
    return Taken::broken;
}

// -------------------------------------------------------------------------------------------------
// The receive queue

void Receiver::complete(const WorkCompletion& completion) { cq_->push(completion, owner_, 0); }

Status Receiver::post(const ReceiveWork& work) {
    ADAPTIB_INVARIANT(allows(work), "a receive is posted to the queue pair's own queue",
                      work.scatter_count, max_gather_);
    const Status status = receives_.post(work);
    if (status.ok()) {
        entry_->posted.store(++posted_, std::memory_order_release);
        if (!queued_.empty()) {
            context_.activate(owner_);
        }
    }
    return status;
}

void Receiver::complete_flushed(std::uint64_t wr_id) {
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = WorkStatus::flushed;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    complete(completion);
}

const QueuedReceive* Receiver::peek_receive() {
    return srq_ != nullptr ? srq_->peek() : receives_.peek();
}

void Receiver::drop_receive() {
    if (srq_ != nullptr) {
        srq_->drop();
    } else {
        receives_.drop();
    }
}

void Receiver::flush() {
    WorkCompletion completion;
    completion.status = WorkStatus::flushed;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    if (assembling_) {
        assembling_ = false;
        completion.wr_id = arriving_.wr_id;
        complete(completion);
    }
    queued_.clear();
    queued_bytes_ = 0;
    if (srq_ != nullptr) {
        srq_->forget(owner_);
        return;
    }
    while (const QueuedReceive* receive = receives_.peek()) {
        completion.wr_id = receive->wr_id;
        receives_.drop();
        complete(completion);
    }
}

void Receiver::reset() {
    receives_.clear();
    posted_ = 0;
    entry_->posted.store(0, std::memory_order_relaxed);
    forget();
    queued_.clear();
    queued_bytes_ = 0;
    assembling_ = false;
    key_ = 0;
}

void Receiver::forget() {
    cq_->forget(owner_);
    if (srq_ != nullptr) {
        srq_->forget(owner_);
    }
}

} // namespace adaptib::shm
