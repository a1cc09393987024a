// SPDX-License-Identifier: BSD-3-Clause
// Posting of requests and datagrams (queue_pair.h).
#include "simulator/faults/queue_pair.h"

namespace adaptib::fault {

namespace {

// Each changed byte differs from its original, even if it is changed twice.
void corrupt(std::vector<std::byte>& bytes, std::uint64_t count, Random& random) {
    const std::vector<std::byte> before = bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t at = static_cast<std::size_t>(random.below(bytes.size()));
        bytes[at] = before[at] ^ static_cast<std::byte>(1 + random.below(255));
    }
}

Bytes length_of(const SendWork& work) {
    Bytes bytes = 0;
    for (std::uint32_t i = 0; i < work.gather_count; ++i) {
        bytes += work.gather[i].length;
    }
    return bytes;
}

} // namespace

Status FaultQp::post_send_impl(const SendWork& work) {
    if (node_.dead_at_post(rail_index_)) {
        return kOk;
    }
    if (const Status status = node_.refuse(Site::send, rail_index_); !status.ok()) {
        return status;
    }
    if (mute_ || node_.silent(rail_index_)) {
        return swallow(work);
    }
    if (broken_ || !ready()) {
        return pass(work);
    }
    return type() == QpType::ud ? post_datagram(work) : post_request(work);
}

// Accepts a request that stays under way for ever.
Status FaultQp::swallow(const SendWork& work) {
    mute_ = true;
    if (sends_.size() >= send_depth_) {
        return Status::again(Reason::queue_full);
    }
    add(work, Where::below).number = next_send_++;
    return kOk;
}

Status FaultQp::post_request(const SendWork& work) {
    const bool wait = has_to_wait();
    if (wait && sends_.size() >= send_depth_) {
        return Status::again(Reason::queue_full);
    }
    const PlannedFault* fault = failing_ ? nullptr : node_.draw(Site::request, rail_index_);
    if (fault == nullptr) {
        if (!wait) {
            return pass(work);
        }
        withhold(work, WorkStatus::success, false);
        return kOk;
    }
    if (fault->fault == Fault::request_fails || wait) {
        node_.note(fault->fault, rail_index_);
        withhold(work, fault->status, fault->fault == Fault::request_fails);
        return kOk;
    }
    const Status status = pass(work);
    if (status.ok()) {
        node_.note(fault->fault, rail_index_);
        sends_.back().fate = fault->status;
        failing_ = true;
    }
    return status;
}

Status FaultQp::post_datagram(const SendWork& work) {
    if (failing_) {
        if (sends_.size() >= send_depth_) {
            return Status::again(Reason::queue_full);
        }
        withhold(work, WorkStatus::success, false);
        return kOk;
    }
    if (node_.down(rail_index_) || length_of(work) > node_.plan().peers_datagram_bytes ||
        node_.is_stale(work.address_handle, rail_index_)) {
        drop(work); // it left, as far as the node knows
        return kOk;
    }
    const PlannedFault* fault = node_.draw(Site::datagram, rail_index_);
    return fault == nullptr ? pass(work) : inject(*fault, work);
}

Status FaultQp::inject(const PlannedFault& fault, const SendWork& work) {
    bool done = true;
    Status status;
    std::unique_ptr<KeptWork> kept;
    switch (fault.fault) {
    case Fault::datagram_lost: drop(work); break;
    case Fault::datagram_doubled:
        status = pass(work);
        done = status.ok() && pass(work).ok();
        if (done) {
            sends_.back().doubled = true;
        }
        break;
    case Fault::datagram_delayed:
        kept = keep_copy(work, rail_);
        done = kept != nullptr;
        if (done) {
            late_.add(std::move(kept), node_.due(fault.delay));
            node_.wait(rail_index_, number_, *this);
            drop(work);
        }
        break;
    case Fault::datagram_corrupted:
        kept = keep_copy(work, rail_);
        done = kept != nullptr && !kept->bytes.empty();
        if (done) {
            corrupt(kept->bytes, 1 + node_.random().below(std::max(fault.bytes, 1u)),
                    node_.random());
            status = pass(kept);
            done = status.ok();
        }
        break;
    default: withhold(work, fault.status, true); break;
    }
    if (done) {
        node_.note(fault.fault, rail_index_);
        return status;
    }
    return status.ok() && fault.fault != Fault::datagram_doubled ? pass(work) : status;
}

// Sends a late datagram. The node was told long ago that it left.
bool FaultQp::send_copy(std::unique_ptr<KeptWork>& kept) {
    if (broken_ || node_.down(rail_index_)) {
        return true; // lost
    }
    const Status status = pass(kept);
    if (status.ok()) {
        sends_.back().doubled = true;
    }
    return !status.is_again();
}

} // namespace adaptib::fault
