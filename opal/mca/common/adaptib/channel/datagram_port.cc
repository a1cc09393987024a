// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a datagram channel on one rail (channel/datagram_port.h).
#include "channel/datagram_port.h"

#include <utility>

namespace adaptib {

namespace {

constexpr Nanoseconds kMendEvery{10'000'000};

} // namespace

Status DatagramPort::open(Rail& rail, std::uint32_t sends, std::uint32_t receives,
                          std::uint64_t key, Counters& counters) {
    rail_ = &rail;
    key_ = key;
    receives_ = receives;
    receive_bytes_ = round_up(rail.info().datagram_bytes, kCacheLine);
    Status status = rail.allocate(receives * receive_bytes_, kLocalWrite, receive_memory_);
    if (status.ok()) {
        ++counters.buffers;
        counters.buffers_bytes += receive_memory_->length();
        status = rail.create_cq(sends + receives, cq_);
    }
    if (!status.ok()) {
        return status;
    }
    QpInit init;
    init.type = QpType::ud;
    init.send_cq = cq_.get();
    init.receive_cq = cq_.get();
    init.send_depth = sends;
    init.receive_depth = receives;
    if (status = rail.create_qp(init, qp_); !status.ok()) {
        return status;
    }
    return start();
}

// Brings the queue pair from RESET to RTS and posts its receives.
Status DatagramPort::start() {
    QpAttributes attributes;
    attributes.state = QpState::init;
    attributes.access_key = key_;
    Status status = qp_->modify(attributes, kQpState | kQpKey);
    attributes.state = QpState::ready_to_receive;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState);
    }
    attributes.state = QpState::ready_to_send;
    if (status.ok()) {
        status = qp_->modify(attributes, kQpState | kQpSendPsn);
    }
    for (std::uint32_t i = 0; i < receives_ && status.ok(); ++i) {
        status = post_receive(i);
    }
    return status;
}

bool DatagramPort::reset(Nanoseconds now) {
    QpAttributes attributes;
    attributes.state = QpState::reset;
    broken_ = !qp_->modify(attributes, kQpState).ok();
    mend_at_ = now + kMendEvery; // in case the device is gone
    if (broken_) {
        return false;
    }
    ++life_;
    return true;
}

void DatagramPort::start_again() {
    broken_ = !start().ok();
    mend_at_ = broken_ ? mend_at_ : Nanoseconds{0};
}

Status DatagramPort::post_receive(std::uint32_t index) {
    auto* base = static_cast<std::byte*>(receive_memory_->address());
    const Gather scatter{base + index * receive_bytes_, rail_->info().datagram_bytes,
                         receive_memory_->local_key()};
    ReceiveWork work;
    work.wr_id = life_tag() | index;
    work.scatter = &scatter;
    work.scatter_count = 1;
    return qp_->post_receive(work);
}

Status DatagramPort::post(const AddressHandle& handle, std::uint32_t remote_qp,
                          std::uint64_t remote_key, const Gather& gather, std::uint32_t slot) {
    SendWork work;
    work.wr_id = life_tag() | kSendTag | slot;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = &gather;
    work.gather_count = 1;
    work.address_handle = &handle;
    work.remote_qp = remote_qp;
    work.remote_access_key = remote_key;
    const Status status = qp_->post_send(work);
    if (status.ok()) {
        ++posts_;
    }
    return status;
}

void DatagramPort::retire(std::unique_ptr<AddressHandle> handle) {
    retired_.push_back({std::move(handle), posts_});
    drop_retired();
}

void DatagramPort::drop_retired() {
    std::erase_if(retired_, [this](const Retired& retired) { return retired.posts <= ended_; });
}

} // namespace adaptib
