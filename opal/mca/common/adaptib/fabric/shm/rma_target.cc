// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/shm/rma_target.h"

#include <cstring>

#include "base/copy.h"
#include "fabric/capability.h"

namespace adaptib::shm {

const RegionView* RmaTarget::find(const QpAttributes& qp, std::uint32_t key, std::uint64_t address,
                                  Bytes length, std::uint32_t access) const {
    const RegionView* region = regions_.find(key);
    const bool allowed = region != nullptr && region_rail(region->tag) == rail_ &&
                         region->allows(access) && (qp.access & access) == access &&
                         region->covers(address, length);
    return allowed ? region : nullptr;
}

BounceAnswer RmaTarget::serve(const QpAttributes& qp, const BounceRequest& request, std::byte* data,
                              std::uint64_t& old) const {
    const auto opcode = static_cast<Opcode>(request.opcode);
    const bool atomic = opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
    const bool write = opcode == Opcode::write || opcode == Opcode::write_imm;
    if (!atomic && !write && opcode != Opcode::read) {
        return BounceAnswer::invalid_request;
    }
    if ((!write && qp.max_target_reads == 0) ||
        (atomic && (request.length != 8 || request.remote_address % 8 != 0))) {
        return BounceAnswer::invalid_request;
    }
    const RegionView* region = find(qp, request.remote_key, request.remote_address, request.length,
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
BounceAnswer RmaTarget::serve_checked(const BounceRequest& request, std::byte* data) const {
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

BounceAnswer RmaTarget::serve_atomic(const BounceRequest& request, bool shared,
                                     std::uint64_t& old) const {
    AtomicLock lock(segment_.base(), own_pid(), AtomicLock::kOwner);
    for (std::uint32_t i = 0; !shared && !lock.try_lock(); ++i) {
        if (i == kLockSpins) {
            lock.break_dead();
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
        lock.unlock();
    }
    return answer;
}

// REQUIRES: the lock of the atomics is held. False: the memory is not mapped.
bool RmaTarget::atomic_checked(const BounceRequest& request, std::uint64_t& old) const {
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
