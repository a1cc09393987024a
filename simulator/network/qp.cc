// SPDX-License-Identifier: BSD-3-Clause
// States, receives and completions of simulated queue pairs (simulator/network/qp.h), and their
// queues.
#include "simulator/network/qp.h"

#include <algorithm>
#include <cstring>

#include "fabric/qp_rules.h"

namespace adaptib::sim {

Nanoseconds wire_time(Bytes bytes, BytesPerSecond rate) {
    if (rate.value == 0) {
        return Nanoseconds{0};
    }
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(bytes) * 1'000'000'000u + rate.value - 1;
    return Nanoseconds{static_cast<std::int64_t>(product / rate.value)};
}

void copy_gather(std::span<const Gather> from, std::span<const Gather> to) {
    std::size_t i = 0;
    Bytes used = 0; // of to[i]
    for (const Gather& source : from) {
        for (Bytes done = 0; done < source.length;) {
            if (used == to[i].length) {
                ++i;
                used = 0;
                continue;
            }
            const Bytes part = std::min(source.length - done, to[i].length - used);
            std::memcpy(static_cast<std::byte*>(to[i].address) + used,
                        static_cast<const std::byte*>(source.address) + done, part);
            done += part;
            used += part;
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Queues

void SimCompletionQueue::push(const WorkCompletion& completion, const SimQueuePair* qp,
                              Bytes copied) {
    Entry& entry = entries_.push();
    entry.completion = completion;
    entry.qp = qp;
    entry.copied = copied;
    rail_.process().add_unseen();
}

void SimCompletionQueue::forget(const SimQueuePair* qp) {
    const std::size_t before = entries_.size();
    entries_.remove_if([qp](const Entry& entry) { return entry.qp == qp; });
    rail_.process().seen(before - entries_.size());
}

SimCompletionQueue::~SimCompletionQueue() { rail_.process().seen(entries_.size()); }

std::size_t SimCompletionQueue::poll_impl(std::span<WorkCompletion> out) {
    Process& process = rail_.process();
    const MachineModel& machine = rail_.world().machine();
    if (process.dead()) {
        return 0;
    }
    std::size_t count = 0;
    while (count < out.size() && !entries_.empty()) {
        const Entry& entry = entries_.front();
        out[count++] = entry.completion;
        process.charge(machine.processor.poll_completion);
        if (entry.copied > 0) {
            process.charge(machine.processor.copy_start +
                           wire_time(entry.copied, machine.processor.copy_rate));
        }
        entries_.pop();
    }
    process.seen(count);
    if (count == 0) {
        process.charge(machine.processor.poll_empty);
    }
    return count;
}

Status SimSharedReceiveQueue::post_impl(const ReceiveWork& work) {
    if (const Status status = receives_.post(work); !status.ok()) {
        return status;
    }
    rail_.process().charge(rail_.world().machine().processor.post_receive);
    if (!waiting_.empty()) {
        SimQueuePair* first = waiting_.front();
        waiting_.erase(waiting_.begin());
        first->receive_posted();
    }
    return kOk;
}

void SimSharedReceiveQueue::drop() {
    receives_.drop();
    check_limit();
}

void SimSharedReceiveQueue::wait_for_post(SimQueuePair* qp) {
    if (std::find(waiting_.begin(), waiting_.end(), qp) == waiting_.end()) {
        waiting_.push_back(qp);
    }
}

Status SimSharedReceiveQueue::arm_limit_impl(std::uint32_t limit) {
    if (limit > depth_) {
        return Status::error(Reason::bad_argument);
    }
    limit_ = limit;
    check_limit();
    return kOk;
}

void SimSharedReceiveQueue::check_limit() {
    if (limit_ != 0 && receives_.size() < limit_) {
        limit_ = 0;
        rail_.raise(EventKind::srq_limit, 0, this);
    }
}

// -------------------------------------------------------------------------------------------------
// Queue pair

SimQueuePair::SimQueuePair(SimRail& rail, const QpInit& init)
    : QueuePair(init.type), rail_(rail), world_(rail.world()), machine_(rail.world().machine()),
      simulator_(rail.world().simulator()), send_depth_(init.send_depth),
      engine_(world_.engine(rail.port(), world_.next_engine(rail.port()))),
      send_cq_(*static_cast<SimCompletionQueue*>(init.send_cq)),
      receive_cq_(*static_cast<SimCompletionQueue*>(init.receive_cq)),
      srq_(static_cast<SimSharedReceiveQueue*>(init.srq)), max_gather_(init.max_gather),
      inline_bytes_(init.inline_bytes), signal_all_(init.signal_all),
      receives_(init.srq != nullptr ? 0 : init.receive_depth) {
    constexpr Bytes kRequest = 64;
    queue_bytes_ = kRequest * init.send_depth;
}

Status SimQueuePair::enter() { return world_.adapter_of(rail_.port()).add(this, number_); }

SimQueuePair::~SimQueuePair() {
    world_.late_packets().place_all(rail_, number_);
    send_cq_.forget(this);
    receive_cq_.forget(this);
    if (srq_ != nullptr) {
        srq_->forget(this);
    }
    if (number_ != 0) {
        world_.adapter_of(rail_.port()).remove(this, number_);
    }
}

Status SimQueuePair::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    QpState to = state_;
    if (const Status status = check_transition(type(), state_, attributes, mask,
                                               rail_.info().has(Capability::migration), to);
        !status.ok()) {
        return status;
    }
    if (to == QpState::error) {
        enter_error();
        return kOk;
    }
    if (to == QpState::reset) {
        reset();
        return kOk;
    }
    if (to == QpState::ready_to_receive && state_ != to) {
        if (const Status status = connect(attributes); !status.ok()) {
            return status;
        }
    }
    if ((mask & (kQpMigration | kQpAlternatePath)) != 0) {
        if (const Status status = migrate_to(attributes, mask); !status.ok()) {
            return status;
        }
    }
    apply_attributes(attributes, mask & ~static_cast<std::uint32_t>(kQpAlternatePath), attributes_);
    state_ = to;
    return kOk;
}

QpAttributes SimQueuePair::query_impl() const {
    QpAttributes out = attributes_;
    out.state = state_;
    return out;
}

bool SimQueuePair::usable_impl() const {
    return state_ == QpState::ready_to_send && rail_.state() == PortState::active &&
           !world_.network().port_slowed(rail_.port());
}

void SimQueuePair::reset() {
    world_.late_packets().place_all(rail_, number_);
    stop_sending();
    forget_sends();
    receives_.clear();
    send_cq_.forget(this);
    receive_cq_.forget(this);
    if (srq_ != nullptr) {
        srq_->forget(this);
    }
    attributes_ = {};
    state_ = QpState::reset;
}

void SimQueuePair::enter_error() {
    if (state_ == QpState::error) {
        return;
    }
    state_ = QpState::error;
    stop_sending();
    flush_sends();
    flush_receives();
}

void SimQueuePair::fatal() {
    rail_.raise(EventKind::qp_fatal, number_);
    enter_error();
}

void SimQueuePair::process_died() {
    stop_sending();
    forget_sends();
}

void SimQueuePair::push(SimCompletionQueue& cq, const WorkCompletion& completion, Bytes copied) {
    if (world_.trace) {
        world_.tell("%s qp %u %s length %llu: %s", rail_.info().name.c_str(), number_,
                    &cq == &receive_cq_ && completion.kind >= WorkKind::receive ? "receive"
                                                                                : "send",
                    static_cast<unsigned long long>(completion.length),
                    work_status_text(completion.status));
    }
    cq.push(completion, this, copied);
}

void SimQueuePair::complete_send(std::uint64_t wr_id, Opcode opcode, WorkStatus status,
                                 Bytes copied) {
    WorkCompletion completion;
    completion.wr_id = wr_id;
    completion.status = status;
    completion.kind = work_kind(opcode);
    completion.qp_number = number_;
    push(send_cq_, completion, copied);
}

void SimQueuePair::complete_receive(const WorkCompletion& completion, Bytes copied) {
    push(receive_cq_, completion, copied);
}

// -------------------------------------------------------------------------------------------------
// Receiving

Status SimQueuePair::post_receive_impl(const ReceiveWork& work) {
    if (srq_ != nullptr || type() == QpType::dc_initiator || work.scatter_count > max_gather_) {
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
        complete_receive(completion, 0);
        return kOk;
    }
    const Status status = receives_.post(work);
    if (status.ok()) {
        process().charge(machine_.processor.post_receive);
        on_receive_posted();
    }
    return status;
}

const QueuedReceive* SimQueuePair::next_receive() {
    return srq_ != nullptr ? srq_->peek() : receives_.peek();
}

void SimQueuePair::drop_receive() {
    if (srq_ != nullptr) {
        srq_->drop();
    } else {
        receives_.drop();
    }
}

void SimQueuePair::wait_for_receive() {
    if (srq_ != nullptr) {
        srq_->wait_for_post(this);
    }
}

void SimQueuePair::receive_posted() { on_receive_posted(); }

SimQueuePair::Answer SimQueuePair::take(const Message& message) {
    const QueuedReceive* receive = next_receive();
    if (receive == nullptr) {
        return Answer::no_receive;
    }
    if (receive->room() < message.length) {
        return Answer::too_long;
    }
    Bytes copied = 0;
    if (!rail_.regions().allows(receive->list(), kLocalWrite, copied)) {
        return Answer::no_access;
    }
    copy_gather(message.source, receive->list());
    WorkCompletion completion;
    completion.wr_id = receive->wr_id;
    completion.kind = message.immediate ? WorkKind::receive_imm : WorkKind::receive;
    completion.qp_number = number_;
    completion.length = message.length;
    completion.immediate = message.value;
    completion.source_qp = message.source_qp;
    drop_receive();
    complete_receive(completion, copied > 0 ? message.length : 0);
    return Answer::taken;
}

SimQueuePair::Answer SimQueuePair::take_notice(Bytes written, std::uint32_t value) {
    const QueuedReceive* receive = next_receive();
    if (receive == nullptr) {
        return Answer::no_receive;
    }
    WorkCompletion completion;
    completion.wr_id = receive->wr_id;
    completion.kind = WorkKind::receive_imm;
    completion.qp_number = number_;
    completion.length = written;
    completion.immediate = value;
    drop_receive();
    complete_receive(completion, 0);
    return Answer::taken;
}

void SimQueuePair::refuse_receive(WorkStatus status) {
    WorkCompletion completion;
    completion.wr_id = next_receive()->wr_id;
    completion.status = status;
    completion.kind = WorkKind::receive;
    completion.qp_number = number_;
    drop_receive();
    complete_receive(completion, 0);
    enter_error();
}

void SimQueuePair::flush_receives() {
    while (const QueuedReceive* receive = receives_.peek()) {
        WorkCompletion completion;
        completion.wr_id = receive->wr_id;
        completion.status = WorkStatus::flushed;
        completion.kind = WorkKind::receive;
        completion.qp_number = number_;
        receives_.drop();
        complete_receive(completion, 0);
    }
}

// -------------------------------------------------------------------------------------------------
// Posting

Status SimQueuePair::check_list(const SendWork& work, Bytes& length) const {
    const RailInfo& info = rail_.info();
    return check_gather(work, max_gather_, inline_bytes_,
                        type() == QpType::ud ? info.datagram_bytes : info.max_message_bytes,
                        length);
}

Bytes SimQueuePair::staged(std::span<const Gather> pieces) const {
    Bytes bytes = 0;
    if (machine_.processor.stages) [[unlikely]] {
        for (const Gather& piece : pieces) {
            const bool inside = rail_.regions().is_allocated(piece.address, piece.length);
            bytes += inside ? piece.length : 0;
        }
    }
    return bytes;
}

// Charges the copy, too, if the process has copied the message into memory of the rail, or
// publishes it. Of a published message in several pieces, it has written only the first and the
// last one.
Nanoseconds SimQueuePair::post(const SendWork& work) {
    Bytes copied = 0;
    const bool published = (work.flags & kPublish) != 0;
    const bool sends = work.opcode == Opcode::send || work.opcode == Opcode::send_imm;
    const bool gathered = published && work.gather_count > 1;
    if ((work.flags & kInline) == 0 && (published || sends)) {
        for (std::uint32_t i = 0; i < work.gather_count; ++i) {
            const Gather& entry = work.gather[i];
            const Region* region = rail_.regions().find(entry.local_key);
            const bool written = !gathered || i == 0 || i + 1 == work.gather_count;
            copied += (published && written) || (region != nullptr && region->allocated)
                          ? entry.length
                          : 0;
        }
    } else if ((work.flags & kInline) == 0 && work.opcode == Opcode::write) {
        copied = staged({work.gather, work.gather_count});
    }
    process().charge(machine_.processor.post);
    if (wants_completion(work.flags)) {
        process().charge(machine_.processor.signal);
    }
    if (copied > 0) {
        process().charge(machine_.processor.copy_start +
                         wire_time(copied, machine_.processor.copy_rate));
    }
    return process().now() + machine_.adapter.doorbell;
}

SimQueuePair::Passage SimQueuePair::send_packet(Path& path, Bytes bytes, Nanoseconds ready,
                                                std::uint32_t target) {
    BytesPerSecond rate = path.rate.value != 0 ? path.rate : machine_.adapter.port_rate;
    if (machine_.adapter.engine_rate.value != 0) {
        rate = std::min(rate, machine_.adapter.engine_rate);
    }
    const Nanoseconds time = wire_time(bytes, rate);
    Wire& out = world_.wire_out(path.from);
    Wire& in = world_.wire_in(path.to);
    const Nanoseconds more = dc_work();
    const Nanoseconds work =
        machine_.adapter.work_request + more + world_.adapter_of(rail_.port()).use(number_);
    Nanoseconds start{0};
    if (type() == QpType::dc_initiator) {
        const Nanoseconds begin = std::max({ready, engine_.inside_until, simulator_.now()});
        start = begin + work;
        engine_.inside_until = start + time;
        engine_.free_at = std::max(engine_.free_at, begin) + work + time;
        out.free_at = std::max(out.free_at, start) + time;
    } else {
        start = std::max({ready, engine_.free_at, simulator_.now()}) + work;
        start = std::max(start, out.free_at);
        out.free_at = engine_.free_at = start + time;
    }
    in.free_at = std::max(start + path.latency, in.free_at) + time;
    in.handled_at = std::max(in.free_at, in.handled_at) + machine_.adapter.receive_work + more +
                    world_.adapter_of(path.to).use(target);
    return {start + time, in.handled_at};
}

} // namespace adaptib::sim
