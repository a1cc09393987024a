// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel (channel/datagram.h).
#include "channel/datagram.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr std::uint32_t kSendSlots = 64;
constexpr std::uint32_t kReceiveSlots = 64;
constexpr std::uint32_t kLostReceiveSlots = 256; // where a datagram without a receive is lost
constexpr std::uint64_t kSendTag = std::uint64_t{1} << 32; // wr_id: a send slot, not a receive slot

} // namespace

Status DatagramChannel::create(Rail& rail, const Identity& identity, const Clock& clock,
                               Counters& counters, std::unique_ptr<DatagramChannel>& out) {
    if (!rail.info().has(Capability::ud)) {
        return Status::error(Reason::not_supported);
    }
    std::unique_ptr<DatagramChannel> channel(new DatagramChannel(rail, identity, clock, counters));
    if (Status status = channel->open(); !status.ok()) {
        return status;
    }
    out = std::move(channel);
    return kOk;
}

DatagramChannel::~DatagramChannel() { qp_.reset(); }

Status DatagramChannel::open() {
    slot_bytes_ = round_up(rail_.info().datagram_bytes, kCacheLine);
    capacity_ = rail_.info().datagram_bytes - sizeof(DatagramHeader) - sizeof(MessageHeader);
    const std::uint32_t receive_slots = reliable_ ? kReceiveSlots : kLostReceiveSlots;
    Status status = rail_.allocate(kSendSlots * slot_bytes_, 0, send_memory_);
    if (status.ok()) {
        status = rail_.allocate(receive_slots * slot_bytes_, kLocalWrite, receive_memory_);
    }
    if (status.ok()) {
        status = rail_.create_cq(kSendSlots + receive_slots, cq_);
    }
    if (!status.ok()) {
        return status;
    }
    counters_.buffers += 2;
    counters_.buffers_bytes += send_memory_->length() + receive_memory_->length();
    QpInit init;
    init.type = QpType::ud;
    init.send_cq = cq_.get();
    init.receive_cq = cq_.get();
    init.send_depth = kSendSlots;
    init.receive_depth = receive_slots;
    if (status = rail_.create_qp(init, qp_); !status.ok()) {
        return status;
    }
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access_key = identity_.key;
    status = qp_->modify(attributes, kQpState | kQpKey);
    attributes.state = QpState::ready_to_receive;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState);
    }
    attributes.state = QpState::ready_to_send;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState | kQpSendPsn);
    }
    for (std::uint32_t i = 0; i < receive_slots && status.ok(); ++i) {
        status = post_receive(i);
    }
    for (std::uint32_t i = 0; i < kSendSlots; ++i) {
        free_sends_.push_back(i);
    }
    sends_.resize(kSendSlots);
    return status;
}

Status DatagramChannel::post_receive(std::uint32_t index) {
    auto* base = static_cast<std::byte*>(receive_memory_->address());
    const Gather scatter{base + index * slot_bytes_, rail_.info().datagram_bytes,
                         receive_memory_->local_key()};
    ReceiveWork work;
    work.wr_id = index;
    work.scatter = &scatter;
    work.scatter_count = 1;
    return qp_->post_receive(work);
}

std::byte* DatagramChannel::reserve(Bytes) {
    if (free_sends_.empty()) {
        return nullptr;
    }
    return slot_at(free_sends_.back()) + sizeof(DatagramHeader) + sizeof(MessageHeader);
}

// Without a number.
DatagramHeader DatagramChannel::prefix_for(const DatagramTarget& target) const {
    DatagramHeader prefix;
    prefix.target_key = target.key;
    prefix.source = identity_.name;
    prefix.source_key = identity_.key;
    if (target.link != nullptr) {
        prefix.expected = target.link->expected();
        prefix.arrived = target.link->bits();
    }
    return prefix;
}

Status DatagramChannel::commit(DatagramTarget& target, const MessageHeader& header) {
    if (target.handle == nullptr) {
        return Status::error(Reason::unreachable);
    }
    if (!reliable_) {
        if (target.link == nullptr) {
            target.link = std::make_unique<DatagramLink>(target);
        }
        if (!target.link->may_send()) {
            return Status::again(Reason::no_credit);
        }
    }
    const std::uint32_t slot = free_sends_.back();
    std::byte* at = slot_at(slot);
    DatagramHeader prefix = prefix_for(target);
    DatagramLink* link = target.link.get();
    if (link != nullptr) {
        prefix.number = link->add(slot, clock_.now());
    }
    std::memcpy(at, &prefix, sizeof prefix);
    std::memcpy(at + sizeof prefix, &header, sizeof header);
    sends_[slot] = {target.name,
                    static_cast<std::uint32_t>(sizeof prefix + sizeof header + header.length),
                    false, link != nullptr};
    const Status status = post(target, slot);
    if (status.ok()) {
        free_sends_.pop_back();
        if (link != nullptr) {
            link->told();
            mind(*link);
        }
    } else if (link != nullptr) {
        sends_[slot].kept = false;
        link->take_back();
    }
    return status;
}

Status DatagramChannel::post(const DatagramTarget& target, std::uint32_t slot) {
    const Gather gather{slot_at(slot), sends_[slot].bytes, send_memory_->local_key()};
    SendWork work;
    work.wr_id = kSendTag | slot;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = &gather;
    work.gather_count = 1;
    work.address_handle = target.handle.get();
    work.remote_qp = target.qp;
    work.remote_access_key = target.key;
    const Status status = qp_->post_send(work);
    sends_[slot].under_way = status.ok();
    return status;
}

void DatagramChannel::release(std::uint32_t slot) {
    if (!sends_[slot].under_way && !sends_[slot].kept) {
        free_sends_.push_back(slot);
    }
}

// ---------------------------------------------------------------------------------------------------
// Where datagrams get lost

void DatagramChannel::mind(DatagramLink& link) {
    const bool minded = link.timer_link.linked();
    const bool busy = link.deadline() != Nanoseconds::max();
    if (busy && !minded) {
        minded_.push_back(link);
    } else if (!busy && minded) {
        minded_.remove(link);
    }
}

Nanoseconds DatagramChannel::deadline() const {
    Nanoseconds next = Nanoseconds::max();
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        next = std::min(next, link->deadline());
    }
    return next;
}

bool DatagramChannel::unacknowledged() const {
    for (DatagramLink* link = minded_.front(); link != nullptr; link = minded_.next(*link)) {
        if (link->unacknowledged()) {
            return true;
        }
    }
    return false;
}

void DatagramChannel::run_timers() {
    if (minded_.empty()) {
        return;
    }
    const Nanoseconds now = clock_.now();
    for (std::size_t left = minded_.size(); left > 0 && !minded_.empty(); --left) {
        DatagramLink& link = *minded_.pop_front(); // in turns: slots may run out
        std::uint32_t tries = 0;
        const std::uint32_t slot = link.to_repeat(now, tries);
        if (slot != DatagramLink::kNone) {
            repeat(link, slot, now);
        }
        if (link.ack_due(now)) {
            acknowledge(link.target);
        }
        if (!link.timer_link.linked()) {
            mind(link);
        }
    }
}

// Whoever computes for long answers nobody: patience is a matter of time, not of tries.
void DatagramChannel::repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now) {
    DatagramTarget& target = link.target;
    if (now - link.oldest() > patience_ || target.handle == nullptr) {
        forget(target);
        if (failure_) {
            failure_(target.name, WorkStatus::retry_exceeded);
        }
        return;
    }
    if (sends_[slot].under_way) {
        return; // the adapter has not even sent it
    }
    std::byte* at = slot_at(slot);
    const std::uint32_t had[2] = {link.expected(), link.bits()};
    std::memcpy(at + offsetof(DatagramHeader, expected), had, sizeof had);
    if (post(target, slot).ok()) {
        ++counters_.datagram_repeated;
        link.told();
    }
}

void DatagramChannel::acknowledge(DatagramTarget& target) {
    if (free_sends_.empty() || target.handle == nullptr) {
        return; // it stays due
    }
    const std::uint32_t slot = free_sends_.back();
    const DatagramHeader prefix = prefix_for(target);
    std::memcpy(slot_at(slot), &prefix, sizeof prefix);
    sends_[slot] = {target.name, sizeof prefix, false, false};
    if (post(target, slot).ok()) {
        free_sends_.pop_back();
        target.link->told();
        ++counters_.datagram_acknowledgements;
    }
}

void DatagramChannel::forget(DatagramTarget& target) {
    if (target.link == nullptr) {
        return;
    }
    if (target.link->timer_link.linked()) {
        minded_.remove(*target.link);
    }
    target.link->drop_all([this](std::uint32_t slot) {
        sends_[slot].kept = false;
        release(slot);
    });
}

// Whether what arrived is to be handed on.
bool DatagramChannel::accept(const DatagramHeader& prefix, bool acknowledges) {
    DatagramTarget* target = resolver_ ? resolver_(prefix.source, prefix.source_key) : nullptr;
    if (target == nullptr) {
        return false;
    }
    if (target->link == nullptr) {
        target->link = std::make_unique<DatagramLink>(*target);
    }
    DatagramLink& link = *target->link;
    const Nanoseconds now = clock_.now();
    link.acknowledged(prefix.expected, prefix.arrived, now, [this](std::uint32_t slot) {
        sends_[slot].kept = false;
        release(slot);
    });
    bool is_new = false;
    if (!acknowledges) {
        is_new = link.arrived(prefix.number, now);
        counters_.datagram_doubled += is_new ? 0 : 1;
    }
    mind(link);
    return is_new;
}

// ---------------------------------------------------------------------------------------------------
// Arriving

void DatagramChannel::handle_receive(const WorkCompletion& completion, const Receiver& receiver) {
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    const auto* at =
        static_cast<const std::byte*>(receive_memory_->address()) + index * slot_bytes_;
    DatagramHeader prefix;
    MessageHeader header;
    if (completion.length < sizeof prefix) {
        ++counters_.bad_packets;
        return;
    }
    std::memcpy(&prefix, at, sizeof prefix);
    const Bytes rest = completion.length - sizeof prefix;
    const bool acknowledges = !reliable_ && rest == 0; // and nothing else
    if (prefix.magic != kHeaderMagic || prefix.version != kWireVersion ||
        prefix.target_key != identity_.key || (!acknowledges && rest < sizeof header)) {
        ++counters_.bad_packets;
        return;
    }
    if (acknowledges) {
        static_cast<void>(accept(prefix, acknowledges));
        return;
    }
    const std::byte* body = at + sizeof prefix + sizeof header;
    std::memcpy(&header, at + sizeof prefix, sizeof header);
    if (!check_message(header, body, rest - sizeof header)) {
        ++counters_.bad_packets;
        return;
    }
    if (!reliable_ && !accept(prefix, acknowledges)) {
        return;
    }
    if (is_sequenced(header.type)) {
        ++counters_.datagram_received;
    }
    receiver(prefix.source, prefix.source_key, header, body);
}

std::size_t DatagramChannel::poll(const Receiver& receiver, std::size_t limit) {
    std::size_t taken = 0;
    while (taken < limit) {
        const std::size_t room = std::min(batch_.size(), limit - taken);
        const std::size_t count = cq_->poll(std::span(batch_).first(room));
        for (std::size_t i = 0; i < count; ++i) {
            const WorkCompletion& completion = batch_[i];
            if ((completion.wr_id & kSendTag) != 0) {
                const auto slot = static_cast<std::uint32_t>(completion.wr_id);
                sends_[slot].under_way = false;
                release(slot);
                if (completion.status != WorkStatus::success && failure_) [[unlikely]] {
                    failure_(sends_[slot].to, completion.status);
                }
                continue;
            }
            if (completion.status == WorkStatus::success) {
                handle_receive(completion, receiver);
            }
            // Posting what was just taken finds room; a queue pair in error is past help here.
            if (!post_receive(static_cast<std::uint32_t>(completion.wr_id)).ok()) {
                ++counters_.bad_packets;
            }
        }
        taken += count;
        if (count < room) {
            break;
        }
    }
    return taken;
}

} // namespace adaptib
