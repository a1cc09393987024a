// SPDX-License-Identifier: BSD-3-Clause
// The copy pipeline: RC writes, reads and atomics on private memory without cross-memory attach;
// and the target's side of a request that the initiator sent by a message (serve).
//
// It also carries single requests whose memory cross-memory attach cannot reach (Attempt::unpinned)
// because the kernel cannot pin it: each end copies its own part through its own page tables.
// Unmapped memory fails the same way at first, so both ends let the system check each address
// (copy_checked, process.h).
//
// The initiator's half cuts a request into pieces of a bounce slot and keeps a few in flight. The
// target's half executes a piece while its completion queues are polled, and checks everything
// again.
#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "fabric/shm/rc.h"

namespace adaptib::shm {

// -------------------------------------------------------------------------------------------------
// Initiator

RcQueuePair::Step RcQueuePair::bounce(const SendWork& work, Bytes length, Attempt& a,
                                      WorkStatus& status) {
    if (!reap(work, a, status)) {
        return status == WorkStatus::local_protection_error ? Step::over
                                                            : remote_error(status, status);
    }
    if (!reachable()) {
        return stall(a, status);
    }
    a.give_up = kNever;
    Asked asked = Asked::yes;
    while (asked == Asked::yes && a.moved < length && pieces_.size() < kBounceSlotsPerQp) {
        asked = request_piece(work, length, a);
    }
    if (asked == Asked::local_fault) {
        status = WorkStatus::local_protection_error;
        return Step::over;
    }
    if (a.moved < length || !pieces_.empty()) {
        return Step::wait;
    }
    status = WorkStatus::success;
    return Step::over;
}

// Takes the answers that have arrived, in order. False: one of them was an error.
bool RcQueuePair::reap(const SendWork& work, Attempt& a, WorkStatus& status) {
    std::size_t done = 0;
    bool good = true;
    for (; done < pieces_.size() && good; ++done) {
        const Piece& piece = pieces_[done];
        const BounceAnswer answer = context_.bounce().answer(piece.slot);
        if (answer == BounceAnswer::none) {
            break;
        }
        switch (answer) {
        case BounceAnswer::done:
            good = empty_slot(work, piece, a);
            status = good ? status : WorkStatus::local_protection_error;
            break;
        case BounceAnswer::not_ready: a.moved = std::min(a.moved, piece.offset); break;
        case BounceAnswer::invalid_request:
            status = WorkStatus::remote_invalid_request;
            good = false;
            break;
        default:
            status = WorkStatus::remote_access_error;
            good = false;
            break;
        }
        context_.bounce().give(piece.slot);
    }
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(done));
    return good;
}

// Copies the data of a read, or the old value of an atomic, to its destination. False: local memory
// is not mapped.
bool RcQueuePair::empty_slot(const SendWork& work, const Piece& piece, const Attempt& a) const {
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if (work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add) {
        std::memcpy(gather[0].address, &context_.bounce().header(piece.slot)->result, 8);
    } else if (work.opcode == Opcode::read && a.unpinned) {
        return copy_checked(Direction::from_peer, own_pid(), context_.bounce().data(piece.slot),
                            gather, piece.offset, piece.length) == CopyResult::ok;
    } else if (work.opcode == Opcode::read) {
        scatter_in(gather, piece.offset, context_.bounce().data(piece.slot), piece.length);
    }
    return true;
}

// Copies the data of a write into the slot. False: local memory is not mapped.
bool RcQueuePair::fill_slot(const SendWork& work, Bytes length, const Attempt& a,
                            std::byte* slot) const {
    if (work.opcode != Opcode::write && work.opcode != Opcode::write_imm) {
        return true;
    }
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if (a.unpinned) {
        return copy_checked(Direction::to_peer, own_pid(), slot, gather, a.moved, length) ==
               CopyResult::ok;
    }
    gather_out(gather, a.moved, slot, length);
    return true;
}

// Sends the next piece. later: there is no slot, or no room in the target's queue.
RcQueuePair::Asked RcQueuePair::request_piece(const SendWork& work, Bytes length, Attempt& a) {
    BouncePool& pool = context_.bounce();
    std::uint32_t slot = 0;
    if (!pool.take(slot)) {
        return Asked::later;
    }
    // The last 8 bytes of a published write stay in one piece: pieces before it end on multiples of
    // 8.
    const Bytes part = std::min(length - a.moved, kBounceBytes);
    const bool last = a.moved + part == length;
    const bool publish = last && (work.flags & kPublish) != 0 && part >= 8 &&
                         (work.remote_address + length) % 8 == 0;
    if (!fill_slot(work, part, a, pool.data(slot))) {
        pool.give(slot);
        return Asked::local_fault;
    }
    BounceRequest request{};
    request.slot_offset = pool.offset(slot);
    request.tag = pool.tag(slot);
    request.remote_address = work.remote_address + a.moved;
    request.compare_add = work.compare_add;
    request.swap = work.swap;
    request.remote_key = work.remote_key;
    request.length = static_cast<std::uint32_t>(part);
    request.opcode = static_cast<std::uint32_t>(work.opcode);
    request.flags = (publish ? +kBouncePublish : 0u) | (a.unpinned ? +kBounceChecked : 0u);
    RecordFields fields;
    fields.type = RecordType::request;
    fields.length = sizeof request;
    fields.target_qp = remote_number_;
    fields.source_qp = number_;
    const Push push = peer_->producer().push(fields, sizeof request, [&](std::byte* payload) {
        std::memcpy(payload, &request, sizeof request);
    });
    if (push != Push::ok) {
        pool.give(slot);
        return Asked::later;
    }
    pieces_.push_back({slot, a.moved, part});
    a.moved += part;
    return Asked::yes;
}

void RcQueuePair::abandon_pieces() {
    for (const Piece& piece : pieces_) {
        context_.bounce().abandon(piece.slot, peer_);
    }
    pieces_.clear();
}

// -------------------------------------------------------------------------------------------------
// Target

void RcQueuePair::serve(const RecordView& record) {
    BounceRequest request{};
    std::byte* slot = nullptr;
    if (record.payload_bytes == sizeof request) {
        std::memcpy(&request, record.payload, sizeof request);
        slot = find_slot(*peer_, request);
    }
    if (slot == nullptr) {
        ++context_.counters().dropped_garbage;
        return;
    }
    auto* header = reinterpret_cast<BounceHeader*>(slot);
    const BounceAnswer answer = serve_request(request, slot + sizeof *header, header->result);
    header->answer.store(request.tag << 8 | static_cast<std::uint64_t>(answer),
                         std::memory_order_release);
}

Status RcQueuePair::serve_rma_impl(const SendWork& work) {
    if (work.gather_count != 1 || work.gather[0].length == 0 || !usable_impl()) {
        return Status::again(Reason::none);
    }
    BounceRequest request{};
    request.remote_address = work.remote_address;
    request.compare_add = work.compare_add;
    request.swap = work.swap;
    request.remote_key = work.remote_key;
    request.length = static_cast<std::uint32_t>(work.gather[0].length);
    request.opcode = static_cast<std::uint32_t>(work.opcode);
    auto* data = static_cast<std::byte*>(work.gather[0].address);
    std::uint64_t old = 0;
    if (serve_request(request, data, old) != BounceAnswer::done) {
        return Status::again(Reason::none);
    }
    if (work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add) {
        std::memcpy(data, &old, sizeof old);
    }
    return kOk;
}

// Finds a region of this process that grants the peer the access; null: there is none.
const RegionView* RcQueuePair::find_served(std::uint32_t key, std::uint64_t address, Bytes length,
                                           std::uint32_t access) const {
    const RegionView* region = context_.regions().find(key);
    const bool allowed = region != nullptr && region_rail(region->tag) == rail_ &&
                         region->allows(access) && (attributes_.access & access) == access &&
                         region->covers(address, length);
    return allowed ? region : nullptr;
}

BounceAnswer RcQueuePair::serve_request(const BounceRequest& request, std::byte* data,
                                        std::uint64_t& old) {
    const auto opcode = static_cast<Opcode>(request.opcode);
    const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    const bool write = opcode == Opcode::write || opcode == Opcode::write_imm;
    if (!atomic && !write && opcode != Opcode::read) {
        return BounceAnswer::invalid_request;
    }
    if ((!write && attributes_.max_target_reads == 0) ||
        (atomic && (request.length != 8 || request.remote_address % 8 != 0))) {
        return BounceAnswer::invalid_request;
    }
    const RegionView* region =
        find_served(request.remote_key, request.remote_address, request.length,
                    atomic  ? kRemoteAtomic
                    : write ? kRemoteWrite
                            : kRemoteRead);
    if (region == nullptr) {
        return BounceAnswer::access_error;
    }
    auto* memory = reinterpret_cast<std::byte*>(request.remote_address);
    if (atomic) {
        return serve_atomic(request, region->offset != kPrivate, old);
    }
    if (region->length == kWholeMemory ||
        ((request.flags & kBounceChecked) != 0 && region->offset == kPrivate)) {
        return serve_checked(request, data);
    }
    if (opcode == Opcode::read) {
        copy_small(data, memory, request.length);
    } else if ((request.flags & kBouncePublish) != 0 && request.length >= 8 &&
               (request.remote_address + request.length) % 8 == 0) {
        const Bytes body = request.length - 8;
        std::uint64_t last = 0;
        copy_small(memory, data, body);
        std::memcpy(&last, data + body, 8);
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(memory + body))
            .store(last, std::memory_order_release);
    } else {
        copy_small(memory, data, request.length);
    }
    return BounceAnswer::done;
}

// Copies through the system, because an access to an unmapped address must not end the process.
BounceAnswer RcQueuePair::serve_checked(const BounceRequest& request, std::byte* data) const {
    const bool read = static_cast<Opcode>(request.opcode) == Opcode::read;
    const Bytes tail = (request.flags & kBouncePublish) != 0 && request.length >= 8 ? 8 : 0;
    const Gather memory{reinterpret_cast<void*>(request.remote_address), request.length, 0};
    const auto copy = [&](Bytes offset, Bytes length) {
        return copy_checked(read ? Direction::to_peer : Direction::from_peer, own_pid(),
                            data + offset, {&memory, 1}, offset, length) == CopyResult::ok;
    };
    const bool good = copy(0, request.length - tail) && copy(request.length - tail, tail);
    return good ? BounceAnswer::done : BounceAnswer::access_error;
}

namespace {

void atomic_at(const BounceRequest& request, std::uint64_t& old) {
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(request.remote_address));
    old = request.compare_add;
    if (static_cast<Opcode>(request.opcode) == Opcode::fetch_add) {
        old = word.fetch_add(request.compare_add);
    } else {
        word.compare_exchange_strong(old, request.swap);
    }
}

} // namespace

BounceAnswer RcQueuePair::serve_atomic(const BounceRequest& request, bool shared,
                                       std::uint64_t& old) {
    std::atomic<std::uint64_t>& lock = context_.segment().header()->atomic_lock;
    const std::uint64_t name =
        static_cast<std::uint64_t>(context_.segment().header()->pid) << 32 | kLockOwner;
    std::uint64_t free = 0;
    for (std::uint32_t i = 0;
         !shared && !lock.compare_exchange_strong(free, name, std::memory_order_acquire); ++i) {
        free = 0;
        if (i == kLockSpins) {
            Context::break_dead_lock(context_.segment().base());
            return BounceAnswer::not_ready;
        }
    }
    BounceAnswer answer = BounceAnswer::done;
    if ((request.flags & kBounceChecked) != 0 && !shared) {
        answer = atomic_checked(request, old) ? answer : BounceAnswer::access_error;
    } else {
        atomic_at(request, old);
    }
    if (!shared) {
        lock.store(0, std::memory_order_release);
    }
    return answer;
}

// REQUIRES: the lock of the atomics is held. False: the memory is not mapped.
bool RcQueuePair::atomic_checked(const BounceRequest& request, std::uint64_t& old) const {
    const Gather memory{reinterpret_cast<void*>(request.remote_address), 8, 0};
    const std::span<const Gather> word{&memory, 1};
    std::uint64_t value = 0;
    if (copy_checked(Direction::to_peer, own_pid(), &value, word, 0, 8) != CopyResult::ok) {
        return false;
    }
    old = value;
    if (static_cast<Opcode>(request.opcode) == Opcode::fetch_add) {
        value += request.compare_add;
    } else if (value == request.compare_add) {
        value = request.swap;
    } else {
        return true;
    }
    return copy_checked(Direction::from_peer, own_pid(), &value, word, 0, 8) == CopyResult::ok;
}

} // namespace adaptib::shm
