// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel (channel/datagram.h).
#include "channel/datagram.h"

#include <algorithm>

namespace adaptib {

namespace {

constexpr std::uint32_t kSendSlots = 64;
constexpr std::uint32_t kReceiveSlots = 64;
constexpr std::uint64_t kSendTag = std::uint64_t{1} << 32; // wr_id: a send slot, not a receive slot
// The Q_Key only keeps strangers' datagrams out of the queue; the 64-bit keys in the header decide.
constexpr std::uint32_t kQueueKey = 0x1adab;

} // namespace

Status DatagramChannel::create(Rail& rail, const Identity& identity, Counters& counters,
                               std::unique_ptr<DatagramChannel>& out) {
    if (!rail.info().has(Capability::ud) || !rail.info().has(Capability::reliable_ud)) {
        return Status::error(Reason::not_supported);
    }
    std::unique_ptr<DatagramChannel> channel(new DatagramChannel(rail, identity, counters));
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
    memory_.resize((kSendSlots + kReceiveSlots) * slot_bytes_ + kCacheLine);
    auto base = round_up(reinterpret_cast<std::uintptr_t>(memory_.data()), kCacheLine);
    auto* start = reinterpret_cast<std::byte*>(base);
    Status status = rail_.register_memory(start, kSendSlots * slot_bytes_, 0, send_memory_);
    if (status.ok()) {
        status = rail_.register_memory(start + kSendSlots * slot_bytes_,
                                       kReceiveSlots * slot_bytes_, kLocalWrite, receive_memory_);
    }
    if (status.ok()) {
        status = rail_.create_cq(kSendSlots + kReceiveSlots, cq_);
    }
    if (!status.ok()) {
        return status;
    }
    QpInit init;
    init.type = QpType::ud;
    init.send_cq = cq_.get();
    init.receive_cq = cq_.get();
    init.send_depth = kSendSlots;
    init.receive_depth = kReceiveSlots;
    if (status = rail_.create_qp(init, qp_); !status.ok()) {
        return status;
    }
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access_key = kQueueKey;
    status = qp_->modify(attributes, kQpState | kQpKey);
    attributes.state = QpState::ready_to_receive;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState);
    }
    attributes.state = QpState::ready_to_send;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState | kQpSendPsn);
    }
    for (std::uint32_t i = 0; i < kReceiveSlots && status.ok(); ++i) {
        status = post_receive(i);
    }
    for (std::uint32_t i = 0; i < kSendSlots; ++i) {
        free_sends_.push_back(i);
    }
    sent_to_.resize(kSendSlots);
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
    auto* base = static_cast<std::byte*>(send_memory_->address());
    return base + free_sends_.back() * slot_bytes_ + sizeof(DatagramHeader) + sizeof(MessageHeader);
}

Status DatagramChannel::commit(const DatagramTarget& target, const MessageHeader& header) {
    if (target.handle == nullptr) {
        return Status::error(Reason::unreachable);
    }
    const std::uint32_t slot = free_sends_.back();
    auto* at = static_cast<std::byte*>(send_memory_->address()) + slot * slot_bytes_;
    DatagramHeader prefix;
    prefix.target_key = target.key;
    prefix.source = identity_.name;
    prefix.source_key = identity_.key;
    std::memcpy(at, &prefix, sizeof prefix);
    std::memcpy(at + sizeof prefix, &header, sizeof header);
    const Gather gather{at, sizeof prefix + sizeof header + header.length,
                        send_memory_->local_key()};
    SendWork work;
    work.wr_id = kSendTag | slot;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = &gather;
    work.gather_count = 1;
    work.address_handle = target.handle.get();
    work.remote_qp = target.qp;
    work.remote_access_key = kQueueKey;
    const Status status = qp_->post_send(work);
    if (status.ok()) {
        free_sends_.pop_back();
        sent_to_[slot] = target.name;
    }
    return status;
}

void DatagramChannel::handle_receive(const WorkCompletion& completion, const Receiver& receiver) {
    const auto index = static_cast<std::uint32_t>(completion.wr_id);
    const auto* at =
        static_cast<const std::byte*>(receive_memory_->address()) + index * slot_bytes_;
    DatagramHeader prefix;
    MessageHeader header;
    if (completion.length < sizeof prefix + sizeof header) {
        ++counters_.bad_packets;
        return;
    }
    std::memcpy(&prefix, at, sizeof prefix);
    std::memcpy(&header, at + sizeof prefix, sizeof header);
    const std::byte* body = at + sizeof prefix + sizeof header;
    if (prefix.magic != kHeaderMagic || prefix.version != kWireVersion ||
        prefix.target_key != identity_.key ||
        !check_message(header, body, completion.length - sizeof prefix - sizeof header)) {
        ++counters_.bad_packets;
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
                free_sends_.push_back(slot);
                if (completion.status != WorkStatus::success && failure_) [[unlikely]] {
                    failure_(sent_to_[slot], completion.status);
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
