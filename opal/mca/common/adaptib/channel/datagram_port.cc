// SPDX-License-Identifier: BSD-3-Clause
// The queue pair of a datagram channel on one rail (channel/datagram_port.h).
#include "channel/datagram_port.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr Nanoseconds kMendEvery{10'000'000};

} // namespace

Status DatagramPort::open(Rail& rail, const Sends& sends, const Receives& receives,
                          std::uint64_t key, Counters& counters) {
    rail_ = &rail;
    counters_ = &counters;
    key_ = key;
    pieces_ = std::clamp(rail.info().max_gather, 1u, sends.pieces);
    ADAPTIB_INVARIANT(receives.first > 0 && receives.first <= receives.most,
                      "a port has receives, and at first no more than its bound", receives.first,
                      receives.most);
    block_ = receives.first;
    most_receives_ = receives.most;
    if (rail.info().max_send_depth > 0) { // receive queues are about as deep
        most_receives_ = std::min(most_receives_, rail.info().max_send_depth);
    }
    // Providers round depths up, to twice as much at most; the completion queue has room for all.
    if (const std::uint32_t most = rail.info().max_cq_depth / 2; most > 0) {
        most_receives_ = std::min(most_receives_, most - std::min(most, sends.most));
    }
    most_receives_ = std::max(most_receives_, block_);
    receive_bytes_ = round_up(rail.info().datagram_bytes, kCacheLine);
    Status status = add_block();
    if (status.ok()) {
        status = rail.create_cq(sends.most + most_receives_, cq_);
    }
    if (!status.ok()) {
        return status;
    }
    most_sends_ = sends.most;
    if (status = make_queue_pair(); !status.ok()) {
        return status;
    }
    return start();
}

Status DatagramPort::make_queue_pair() {
    QpInit init;
    init.type = QpType::ud;
    init.send_cq = cq_.get();
    init.receive_cq = cq_.get();
    init.send_depth = most_sends_;
    init.max_gather = pieces_;
    init.receive_depth = std::max(most_receives_, receives_);
    return rail_->create_qp(init, qp_);
}

Status DatagramPort::make_anew() {
    renew();
    return make_queue_pair();
}

Status DatagramPort::add_block() {
    std::unique_ptr<MemoryRegion> memory;
    const Status status = rail_->allocate(block_ * receive_bytes_, kLocalWrite, memory);
    if (status.ok()) {
        ++counters_->buffers;
        counters_->buffers_bytes += memory->length();
        receive_memory_.push_back(std::move(memory));
        receives_ += block_;
        ADAPTIB_INVARIANT(
            receives_ == receive_memory_.size() * block_ && receives_ <= most_receives_,
            "receives come in blocks, up to a bound", receives_, block_, most_receives_);
    }
    return status;
}

// A receive that cannot be posted means a broken queue pair, whose restart posts all.
void DatagramPort::want_receives(std::uint32_t count) {
    count = std::min(count, most_receives_);
    while (receives_ < count && receives_ + block_ <= most_receives_) {
        const std::uint32_t first = receives_;
        if (!add_block().ok()) {
            most_receives_ = receives_; // does not ask again
            return;
        }
        for (std::uint32_t i = first; i < receives_; ++i) {
            broken_ = !post_receive(i).ok() || broken_;
        }
    }
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
    const Status status = qp_->modify(attributes, kQpState);
    // A device that was lost may have had no room for a queue pair when it was back.
    broken_ = !status.ok() && !(status.reason() == Reason::no_device && make_queue_pair().ok());
    mend_at_ = now + kMendEvery; // in case the device is gone
    if (broken_) {
        return false;
    }
    ++life_;
    return true;
}

// Some devices take no queue pair into use again (irdma): then another one, with another number.
void DatagramPort::start_again() {
    broken_ = !start().ok() && !(make_queue_pair().ok() && start().ok());
    mend_at_ = broken_ ? mend_at_ : Nanoseconds{0};
}

Status DatagramPort::post_receive(std::uint32_t index) {
    const Gather scatter{place_of(index), rail_->info().datagram_bytes,
                         receive_memory_[index / block_]->local_key()};
    ReceiveWork work;
    work.wr_id = life_tag() | index;
    work.scatter = &scatter;
    work.scatter_count = 1;
    return qp_->post_receive(work);
}

Status DatagramPort::post(const AddressHandle& handle, std::uint32_t remote_qp,
                          std::uint64_t remote_key, std::span<const Gather> pieces,
                          std::uint32_t slot) {
    ADAPTIB_INVARIANT(!pieces.empty() && pieces.size() <= pieces_,
                      "a datagram has no more pieces than the queue pair takes", pieces.size(),
                      pieces_);
    SendWork work;
    work.wr_id = life_tag() | kSendTag | slot;
    work.opcode = Opcode::send;
    work.flags = kSignaled;
    work.gather = pieces.data();
    work.gather_count = static_cast<std::uint32_t>(pieces.size());
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
    ADAPTIB_INVARIANT(retired_.empty() || retired_.back().posts <= posts_,
                      "handles are retired in the order of the posts", posts_);
    retired_.push_back({std::move(handle), posts_});
    drop_retired();
}

void DatagramPort::drop_retired() {
    std::erase_if(retired_, [this](const Retired& retired) { return retired.posts <= ended_; });
}

} // namespace adaptib
