// SPDX-License-Identifier: BSD-3-Clause
// RC writes, reads and atomics. The initiator accesses memory of the target's segment directly and
// its private memory by cross-memory attach, or by the copy pipeline where attach is forbidden or
// cannot reach the memory.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/invariant.h"
#include "fabric/shm/rc.h"

namespace adaptib::shm {

namespace {

constexpr std::uint32_t needed_access(Opcode opcode) {
    switch (opcode) {
    case Opcode::read: return kRemoteRead;
    case Opcode::compare_swap:
    case Opcode::fetch_add: return kRemoteAtomic;
    default: return kRemoteWrite;
    }
}

// Number of bytes at the end that must become visible last.
constexpr Bytes tail_of(const SendWork& work, Bytes length) {
    const bool whole = (work.remote_address + length) % 8 == 0 && length >= 8;
    return (work.flags & kPublish) != 0 && whole && work.opcode != Opcode::read ? 8 : 0;
}

constexpr Direction direction_of(Opcode opcode) {
    return opcode == Opcode::read ? Direction::from_peer : Direction::to_peer;
}

SendWork request_of(const RmaWork& work, const Gather& gather) {
    SendWork request;
    request.opcode = work.opcode;
    request.gather = &gather;
    request.gather_count = 1;
    request.remote_address = work.remote_address;
    request.compare_add = work.compare_add;
    request.swap = work.swap;
    return request;
}

void copy_shared(const SendWork& work, std::byte* remote, Bytes offset, Bytes part, Bytes tail) {
    const std::span<const Gather> gather{work.gather, work.gather_count};
    if (work.opcode == Opcode::read) {
        scatter_in(gather, offset, remote, part);
        return;
    }
    if (part > 0) {
        gather_out(gather, offset, remote, part);
    }
    if (tail != 0) {
        std::uint64_t last = 0;
        gather_out(gather, offset + part, reinterpret_cast<std::byte*>(&last), 8);
        std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(remote + part))
            .store(last, std::memory_order_release);
    }
}

[[gnu::noinline]] CopyResult copy_private(std::uint32_t pid, const SendWork& work, Bytes offset,
                                          Bytes length) {
    return copy_memory(direction_of(work.opcode), pid, work.remote_address + offset,
                       {work.gather, work.gather_count}, offset, length);
}

// REQUIRES: the lock of the target's atomics is held. Not ok: the word is unchanged.
CopyResult atomic_private(std::uint32_t pid, const SendWork& work, std::uint64_t& old) {
    std::uint64_t fresh = 0;
    const Gather old_word{&old, 8, 0};
    const Gather new_word{&fresh, 8, 0};
    const CopyResult result =
        copy_memory(Direction::from_peer, pid, work.remote_address, {&old_word, 1}, 0, 8);
    if (result != CopyResult::ok) {
        return result;
    }
    const bool add = work.opcode == Opcode::fetch_add;
    fresh = add ? old + work.compare_add : work.swap;
    if (!add && old != work.compare_add) {
        return CopyResult::ok;
    }
    return copy_memory(Direction::to_peer, pid, work.remote_address, {&new_word, 1}, 0, 8);
}

} // namespace

Status RcQueuePair::find_key_impl(const RemoteRange& range, std::uint32_t& key) {
    if (state_ != QpState::ready_to_send || !peer_.connected()) {
        return Status::error(Reason::bad_state);
    }
    if (peer_.find(range.address, range.length, key, range.access)) {
        return kOk;
    }
    const std::uint32_t found = peer_.find_key(range);
    if (found == 0) {
        return Status::error(Reason::bad_key);
    }
    key = found;
    return kOk;
}

// Fails a request with an error that the target's queue pair shares.
Step RcQueuePair::remote_error(WorkStatus which, WorkStatus& status) {
    RecordFields fields;
    fields.type = RecordType::broken;
    fields.target_qp = peer_.number();
    fields.source_qp = number_;
    context_.owe(peer_.shared_segment(), fields);
    status = which;
    return Step::over;
}

// Sets `bounce` if the copy pipeline has to do the request.
Step RcQueuePair::handle_copy_error(CopyResult result, Attempt& a, WorkStatus& status,
                                    bool& bounce) {
    switch (result) {
    case CopyResult::ok: break;
    case CopyResult::fault:
        // Concerns this request alone. The target finds out whether the memory is there.
        a.unpinned = true;
        bounce = true;
        return Step::wait;
    case CopyResult::gone:
        // A process loses its memory before the system says that it has ended.
        peer_.segment().mark_ended();
        status = WorkStatus::retry_exceeded;
        return Step::over;
    case CopyResult::forbidden:
        context_.single_copy().forbid(
            &peer_.segment(), "the system forbids it for process " +
                                  std::to_string(peer_.segment().pid()) +
                                  why_not_attach(own_visibility(), peer_.segment().visibility()));
        bounce = true;
        return Step::wait;
    case CopyResult::failed: return remote_error(WorkStatus::remote_operation_error, status);
    }
    return Step::wait;
}

// -------------------------------------------------------------------------------------------------
// Writes and reads

Step RcQueuePair::transfer_data(const SendWork& work, Bytes length, Attempt& a,
                                WorkStatus& status) {
    const Bytes tail = tail_of(work, length);
    const Bytes body = length - tail;
    bool through_pipeline = false;
    while (a.moved < length || length == 0) {
        begin_touching();
        if (!peer_.reachable()) {
            end_touching();
            return stall(a, status);
        }
        a.give_up = kNever;
        if (length == 0) {
            end_touching();
            break;
        }
        const bool no_reads = work.opcode == Opcode::read && !peer_.serves_reads();
        if (no_reads ||
            !peer_.find(work.remote_address, length, work.remote_key, needed_access(work.opcode))) {
            end_touching();
            return remote_error(no_reads ? WorkStatus::remote_invalid_request
                                         : WorkStatus::remote_access_error,
                                status);
        }
        const Bytes part = a.moved < body ? std::min(body - a.moved, kCopyPiece) : 0;
        const Bytes last = a.moved + part == body ? tail : 0;
        if (peer_.region().offset != kPrivate) {
            copy_shared(work, peer_.in_segment(work.remote_address) + a.moved, a.moved, part, last);
            end_touching();
            a.moved += part + last;
            continue;
        }
        CopyResult result = CopyResult::forbidden;
        if (pipeline_.empty() && !a.unpinned && context_.single_copy().allowed() &&
            peer_.segment().single_copy) {
            result = part > 0 ? copy_private(peer_.segment().pid(), work, a.moved, part)
                              : CopyResult::ok;
            if (result == CopyResult::ok && last > 0) {
                result = copy_private(peer_.segment().pid(), work, a.moved + part, last);
            }
        } else {
            through_pipeline = true;
        }
        end_touching();
        if (result != CopyResult::ok) {
            const Step step = through_pipeline
                                  ? Step::wait
                                  : handle_copy_error(result, a, status, through_pipeline);
            return through_pipeline ? bounce(work, length, a, status) : step;
        }
        a.moved += part + last;
    }
    ADAPTIB_INVARIANT(a.moved == length, "a transfer that is over has moved its length", a.moved,
                      length);
    if (!pipeline_.empty()) {
        return bounce(work, length, a, status);
    }
    status = a.outcome();
    return Step::over;
}

// -------------------------------------------------------------------------------------------------
// Atomics

Step RcQueuePair::do_atomic(const SendWork& work, Attempt& a, WorkStatus& status) {
    if (!pipeline_.empty()) {
        return bounce(work, 8, a, status);
    }
    begin_touching();
    if (!peer_.reachable()) {
        end_touching();
        return stall(a, status);
    }
    a.give_up = kNever;
    if (work.remote_address % 8 != 0 || !peer_.serves_reads()) {
        end_touching();
        return remote_error(WorkStatus::remote_invalid_request, status);
    }
    if (!peer_.find(work.remote_address, 8, work.remote_key, kRemoteAtomic)) {
        end_touching();
        return remote_error(WorkStatus::remote_access_error, status);
    }
    if (peer_.region().offset == kPrivate) {
        if (a.unpinned || !context_.single_copy().allowed() || !peer_.segment().single_copy) {
            end_touching();
            return bounce(work, 8, a, status);
        }
        if (!lock_atomics(a)) {
            end_touching();
            return Step::wait;
        }
        std::uint64_t old = 0;
        const CopyResult result = atomic_private(peer_.segment().pid(), work, old);
        peer_.atomic_lock().unlock();
        end_touching();
        if (result != CopyResult::ok) {
            bool through_pipeline = false;
            const Step step = handle_copy_error(result, a, status, through_pipeline);
            return through_pipeline ? bounce(work, 8, a, status) : step;
        }
        std::memcpy(work.gather[0].address, &old, 8);
    } else {
        const std::uint64_t old = peer_.atomic_in_segment(work);
        end_touching();
        std::memcpy(work.gather[0].address, &old, 8);
    }
    status = WorkStatus::success;
    return Step::over;
}

bool RcQueuePair::lock_atomics(Attempt& a) {
    AtomicLock lock = peer_.atomic_lock();
    for (std::uint32_t i = 0; i < kLockSpins; ++i) {
        if (lock.try_lock()) {
            return true;
        }
    }
    // The lock has been held for long: has its holder ended? Reads /proc, so not at every try.
    if (++a.lock_waits % 16 == 1) {
        lock.break_dead();
    }
    return false;
}

// -------------------------------------------------------------------------------------------------
// The copy pipeline

Step RcQueuePair::bounce(const SendWork& work, Bytes length, Attempt& a, WorkStatus& status) {
    if (!pipeline_.reap(work, a, status)) {
        return status == WorkStatus::local_protection_error ? Step::over
                                                            : remote_error(status, status);
    }
    if (!peer_.reachable()) {
        return stall(a, status);
    }
    a.give_up = kNever;
    if (!a.faulted && !pipeline_.request(work, length, number_, a)) {
        status = WorkStatus::local_protection_error;
        return Step::over;
    }
    // After a fault, too, the target must have done all that it was asked for.
    if ((!a.faulted && a.moved < length) || !pipeline_.empty()) {
        return Step::wait;
    }
    status = a.outcome();
    return Step::over;
}

// -------------------------------------------------------------------------------------------------
// Execution inside the call, if nothing is in the way. post_send handles everything else, errors
// included.

// Fast path: a write or read of private memory with the keys of the last one. Tags and words tell
// whether the facts found then still hold. rma_now_any does everything else, including facts that
// no longer hold.
template <Opcode kOpcode>
[[gnu::always_inline]] inline bool RcQueuePair::rma_now_known(const RmaWork& work) {
    KnownTransfer& known = known_.of(kOpcode);
    if (state_ != QpState::ready_to_send || work.length - 1 >= kCopyPiece ||
        work.local_key != known.local_key || work.remote_key != known.remote_key ||
        !known.local.covers(reinterpret_cast<std::uintptr_t>(work.local), work.length) ||
        !known.remote.covers(work.remote_address, work.length) ||
        context_.regions().tag(work.local_key) != known.local.tag) [[unlikely]] {
        return rma_now_any(work);
    }
    begin_touching();
    const QueuePairEntry& target = peer_.entry();
    if (peer_.rails_word() != 0 || target.word.load(std::memory_order_seq_cst) != known.word ||
        !peer_.names_this_process(target) ||
        peer_.region_tag(known.remote_key) != known.remote.tag ||
        (kOpcode == Opcode::read && target.target_reads.load(std::memory_order_acquire) == 0))
        [[unlikely]] {
        end_touching();
        return rma_now_any(work);
    }
    const bool done = copy_piece(direction_of(kOpcode), peer_.pid(), work.remote_address,
                                 work.local, work.length) == work.length;
    end_touching();
    if (!done) [[unlikely]] {
        known = {};
    }
    return done;
}

Status RcQueuePair::rma_now_impl(const RmaWork& work) {
    const bool done = work.opcode == Opcode::write  ? rma_now_known<Opcode::write>(work)
                      : work.opcode == Opcode::read ? rma_now_known<Opcode::read>(work)
                                                    : rma_now_any(work);
    return done ? kOk : Status::again(Reason::none);
}

// Checks everything that this process knows itself.
inline bool RcQueuePair::may_rma_now(const RmaWork& work) const {
    return state_ == QpState::ready_to_send && ops_.empty() && work.opcode >= Opcode::write &&
           work.opcode != Opcode::write_imm && work.opcode <= Opcode::fetch_add &&
           work.length > 0 && work.length <= kCopyPiece &&
           context_.regions().allows({work.local, work.length, work.local_key}, rail_,
                                     work.opcode == Opcode::write ? 0u : +kLocalWrite);
}

// REQUIRES: begin_touching.
inline bool RcQueuePair::finds_target_of(const RmaWork& work) {
    return peer_.rails_word() == 0 && peer_.connected() &&
           (work.opcode == Opcode::write || peer_.serves_reads()) &&
           peer_.find(work.remote_address, work.length, work.remote_key,
                      needed_access(work.opcode));
}

bool RcQueuePair::rma_now_any(const RmaWork& work) {
    const bool atomic = work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add;
    if ((atomic && (work.length != 8 || work.remote_address % 8 != 0)) || !may_rma_now(work)) {
        return false;
    }
    begin_touching();
    const bool done =
        finds_target_of(work) &&
        (peer_.region().offset != kPrivate ? rma_now_shared(work) : rma_now_private(work));
    end_touching();
    return done;
}

// A read of the peer is a write here. Memory of the peer's segment is refused: the processor would
// copy it, and the addresses that the peer names need not be mapped.
Status RcQueuePair::serve_copy_impl(const RmaWork& work) {
    const bool peer_reads = work.opcode == Opcode::write;
    const auto address = reinterpret_cast<std::uintptr_t>(work.local);
    if ((!peer_reads && work.opcode != Opcode::read) || !may_rma_now(work) ||
        (peer_reads && attributes_.max_target_reads == 0) ||
        target_.find(attributes_, work.local_key, address, work.length,
                     peer_reads ? kRemoteRead : kRemoteWrite) == nullptr) {
        return Status::again(Reason::none);
    }
    begin_touching();
    const bool done =
        finds_target_of(work) && peer_.region().offset == kPrivate && rma_now_private(work);
    end_touching();
    return done ? kOk : Status::again(Reason::none);
}

// REQUIRES: peer_ found memory in the target's segment.
bool RcQueuePair::rma_now_shared(const RmaWork& work) {
    const Gather gather{work.local, work.length, work.local_key};
    const SendWork request = request_of(work, gather);
    if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
        copy_shared(request, peer_.in_segment(work.remote_address), 0, work.length, 0);
    } else {
        const std::uint64_t old = peer_.atomic_in_segment(request);
        std::memcpy(work.local, &old, sizeof old);
    }
    return true;
}

// REQUIRES: peer_ found memory outside the segment.
bool RcQueuePair::rma_now_private(const RmaWork& work) {
    if (!context_.single_copy().allowed() || !peer_.segment().single_copy) {
        return false;
    }
    if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
        const bool done = copy_piece(direction_of(work.opcode), peer_.segment().pid(),
                                     work.remote_address, work.local, work.length) == work.length;
        const std::uint64_t word = peer_.entry().word.load(std::memory_order_acquire);
        if (done && peer_.is_expected(word) &&
            (qp_word_access(word) & needed_access(work.opcode)) != 0) {
            const RegionView* const local = context_.regions().find(work.local_key);
            ADAPTIB_INVARIANT(local != nullptr, "the local region of a transfer is in the table",
                              work.local_key);
            known_.of(work.opcode) = {work.local_key, work.remote_key, word, *local,
                                      peer_.region()};
        }
        return done;
    }
    AtomicLock lock = peer_.atomic_lock();
    if (!lock.try_lock()) {
        return false;
    }
    const Gather gather{work.local, work.length, work.local_key};
    std::uint64_t old = 0;
    const CopyResult result = atomic_private(peer_.segment().pid(), request_of(work, gather), old);
    lock.unlock();
    if (result == CopyResult::ok) {
        std::memcpy(work.local, &old, sizeof old);
    }
    return result == CopyResult::ok;
}

// -------------------------------------------------------------------------------------------------
// Mapping

void* RcQueuePair::map_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    if (state_ != QpState::ready_to_send || length == 0 || (peer_.rail_word() & kRailClosed) != 0 ||
        !peer_.connected() || !peer_.find(address, length, key, kRemoteWrite) ||
        peer_.region().offset == kPrivate) {
        return nullptr;
    }
    return peer_.in_segment(address);
}

Status RcQueuePair::commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    if (map_impl(address, length, key) == nullptr) {
        return Status::error(Reason::bad_key);
    }
    return peer_.commit(address, length);
}

} // namespace adaptib::shm
