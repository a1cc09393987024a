// SPDX-License-Identifier: BSD-3-Clause
// RC writes, reads and atomics. The initiator accesses memory of the target's segment directly and
// its private memory by cross-memory attach, or by the copy pipeline where attach is forbidden or
// cannot reach the memory.
#include <algorithm>
#include <cstring>
#include <string>

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

} // namespace

// Looks the key up and checks that the region, its rail and the target queue pair allow the access;
// on success region_ is the region. REQUIRES: begin_touching.
bool RcQueuePair::find_remote(std::uint64_t address, Bytes length, std::uint32_t key,
                              std::uint32_t access) {
    const std::uint64_t tag = peer_regions_[region_index(key)].tag.load(std::memory_order_seq_cst);
    // A tag comes back after some ten thousand others; the range is another one then.
    bool covered = tag == region_.tag && region_.covers(address, length);
    if (!covered) {
        region_.mapped = nullptr;
        if (!read_region(peer_regions_, key, region_)) {
            region_.tag = 0;
            return false;
        }
        covered = region_.covers(address, length);
    }
    const std::uint32_t qp_access =
        qp_word_access(peer_entry_->word.load(std::memory_order_acquire));
    if ((qp_access & access) != access || !region_is(region_.tag, key, peer_rail_, access) ||
        !covered) {
        return false;
    }
    if (region_.offset != kPrivate && region_.mapped == nullptr) {
        region_.mapped = peer_->at(region_.offset, region_.length);
    }
    return region_.offset == kPrivate || region_.mapped != nullptr;
}

Status RcQueuePair::find_key_impl(const RemoteRange& range, std::uint32_t& key) {
    if (state_ != QpState::ready_to_send || !connected()) {
        return Status::error(Reason::bad_state);
    }
    if (find_remote(range.address, range.length, key, range.access)) {
        return kOk;
    }
    const std::uint32_t found = find_region(peer_->base(), peer_rail_, range);
    if (found == 0) {
        return Status::error(Reason::bad_key);
    }
    key = found;
    return kOk;
}

// Fails a request with an error that the target's queue pair shares.
RcQueuePair::Step RcQueuePair::remote_error(WorkStatus which, WorkStatus& status) {
    RecordFields fields;
    fields.type = RecordType::broken;
    fields.target_qp = remote_number_;
    fields.source_qp = number_;
    context_.owe(peer_, fields);
    status = which;
    return Step::over;
}

// Sets `bounce` if the copy pipeline has to do the request.
RcQueuePair::Step RcQueuePair::handle_copy_error(CopyResult result, Attempt& a, WorkStatus& status,
                                                 bool& bounce) {
    switch (result) {
    case CopyResult::ok: break;
    case CopyResult::fault:
        // Concerns this request alone. The target finds out whether the memory is there.
        a.unpinned = true;
        bounce = true;
        return Step::wait;
    case CopyResult::gone: status = WorkStatus::retry_exceeded; return Step::over;
    case CopyResult::forbidden:
        context_.forbid_single_copy(
            peer_.get(), "the system forbids it for process " + std::to_string(peer_->pid()) +
                             why_not_attach(own_visibility(), peer_->visibility()));
        bounce = true;
        return Step::wait;
    case CopyResult::failed: return remote_error(WorkStatus::remote_operation_error, status);
    }
    return Step::wait;
}

// -------------------------------------------------------------------------------------------------
// Writes and reads

void RcQueuePair::copy_shared(const SendWork& work, std::byte* remote, Bytes offset, Bytes part,
                              Bytes tail) {
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

CopyResult RcQueuePair::copy_private(const SendWork& work, Bytes offset, Bytes length) {
    return copy_memory(direction_of(work.opcode), peer_->pid(), work.remote_address + offset,
                       {work.gather, work.gather_count}, offset, length);
}

RcQueuePair::Step RcQueuePair::transfer_data(const SendWork& work, Bytes length, Attempt& a,
                                             WorkStatus& status) {
    const Bytes tail = tail_of(work, length);
    const Bytes body = length - tail;
    bool through_pipeline = false;
    while (a.moved < length || length == 0) {
        begin_touching();
        if (!reachable()) {
            end_touching();
            return stall(a, status);
        }
        a.give_up = kNever;
        if (length == 0) {
            end_touching();
            break;
        }
        const bool no_reads = work.opcode == Opcode::read &&
                              peer_entry_->target_reads.load(std::memory_order_acquire) == 0;
        if (no_reads || !find_remote(work.remote_address, length, work.remote_key,
                                     needed_access(work.opcode))) {
            end_touching();
            return remote_error(no_reads ? WorkStatus::remote_invalid_request
                                         : WorkStatus::remote_access_error,
                                status);
        }
        const Bytes part = a.moved < body ? std::min(body - a.moved, kCopyPiece) : 0;
        const Bytes last = a.moved + part == body ? tail : 0;
        if (region_.offset != kPrivate) {
            copy_shared(work, in_segment(work.remote_address) + a.moved, a.moved, part, last);
            end_touching();
            a.moved += part + last;
            continue;
        }
        CopyResult result = CopyResult::forbidden;
        if (pieces_.empty() && !a.unpinned && context_.single_copy() && peer_->single_copy) {
            result = part > 0 ? copy_private(work, a.moved, part) : CopyResult::ok;
            if (result == CopyResult::ok && last > 0) {
                result = copy_private(work, a.moved + part, last);
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
    if (!pieces_.empty()) {
        return bounce(work, length, a, status);
    }
    status = WorkStatus::success;
    return Step::over;
}

// -------------------------------------------------------------------------------------------------
// Atomics

RcQueuePair::Step RcQueuePair::do_atomic(const SendWork& work, Attempt& a, WorkStatus& status) {
    if (!pieces_.empty()) {
        return bounce(work, 8, a, status);
    }
    begin_touching();
    if (!reachable()) {
        end_touching();
        return stall(a, status);
    }
    a.give_up = kNever;
    if (work.remote_address % 8 != 0 ||
        peer_entry_->target_reads.load(std::memory_order_acquire) == 0) {
        end_touching();
        return remote_error(WorkStatus::remote_invalid_request, status);
    }
    if (!find_remote(work.remote_address, 8, work.remote_key, kRemoteAtomic)) {
        end_touching();
        return remote_error(WorkStatus::remote_access_error, status);
    }
    if (region_.offset == kPrivate) {
        if (a.unpinned || !context_.single_copy() || !peer_->single_copy) {
            end_touching();
            return bounce(work, 8, a, status);
        }
        if (!lock_atomics(a)) {
            end_touching();
            return Step::wait;
        }
        std::uint64_t old = 0;
        const CopyResult result = atomic_private(work, old);
        unlock_atomics();
        end_touching();
        if (result != CopyResult::ok) {
            bool through_pipeline = false;
            const Step step = handle_copy_error(result, a, status, through_pipeline);
            return through_pipeline ? bounce(work, 8, a, status) : step;
        }
        std::memcpy(work.gather[0].address, &old, 8);
    } else {
        const std::uint64_t old = atomic_shared(work);
        end_touching();
        std::memcpy(work.gather[0].address, &old, 8);
    }
    status = WorkStatus::success;
    return Step::over;
}

std::uint64_t RcQueuePair::atomic_shared(const SendWork& work) {
    std::atomic_ref<std::uint64_t> word(
        *reinterpret_cast<std::uint64_t*>(in_segment(work.remote_address)));
    if (work.opcode == Opcode::fetch_add) {
        return word.fetch_add(work.compare_add, std::memory_order_seq_cst);
    }
    std::uint64_t old = work.compare_add;
    word.compare_exchange_strong(old, work.swap, std::memory_order_seq_cst);
    return old;
}

// REQUIRES: begin_touching, lock_atomics. Not ok: the word is unchanged.
CopyResult RcQueuePair::atomic_private(const SendWork& work, std::uint64_t& old) {
    std::uint64_t fresh = 0;
    const Gather old_word{&old, 8, 0};
    const Gather new_word{&fresh, 8, 0};
    const CopyResult result =
        copy_memory(Direction::from_peer, peer_->pid(), work.remote_address, {&old_word, 1}, 0, 8);
    if (result != CopyResult::ok) {
        return result;
    }
    const bool add = work.opcode == Opcode::fetch_add;
    fresh = add ? old + work.compare_add : work.swap;
    if (!add && old != work.compare_add) {
        return CopyResult::ok;
    }
    return copy_memory(Direction::to_peer, peer_->pid(), work.remote_address, {&new_word, 1}, 0, 8);
}

bool RcQueuePair::try_lock_atomics() {
    std::atomic<std::uint64_t>& lock = peer_->header()->atomic_lock;
    std::uint64_t free = 0;
    return lock.compare_exchange_strong(free, Context::lock_name(*peer_), std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

bool RcQueuePair::lock_atomics(Attempt& a) {
    for (std::uint32_t i = 0; i < kLockSpins; ++i) {
        if (try_lock_atomics()) {
            return true;
        }
    }
    // The lock has been held for long: has its holder ended? Reads /proc, so not at every try.
    if (++a.lock_waits % 16 == 1) {
        Context::break_dead_lock(peer_->base());
    }
    return false;
}

void RcQueuePair::unlock_atomics() {
    peer_->header()->atomic_lock.store(0, std::memory_order_release);
}

// -------------------------------------------------------------------------------------------------
// Execution inside the call, if nothing is in the way. post_send handles everything else, errors
// included.

// Fast path: a write or read of private memory with the keys of the last one. Tags and words tell
// whether the facts found then still hold. rma_now_any does everything else, including facts that
// no longer hold.
template <Opcode kOpcode>
[[gnu::always_inline]] inline bool RcQueuePair::rma_now_known(const RmaWork& work) {
    Known& known = known_of(kOpcode);
    if (state_ != QpState::ready_to_send || work.length - 1 >= kCopyPiece ||
        work.local_key != known.local_key || work.remote_key != known.remote_key ||
        !known.local.covers(reinterpret_cast<std::uintptr_t>(work.local), work.length) ||
        !known.remote.covers(work.remote_address, work.length) ||
        context_.regions().tag(work.local_key) != known.local.tag) [[unlikely]] {
        return rma_now_any(work);
    }
    begin_touching();
    const QueuePairEntry& target = *peer_entry_;
    if (rails_word() != 0 || target.word.load(std::memory_order_seq_cst) != known.word ||
        target.remote_cookie.load(std::memory_order_acquire) != own_cookie_ ||
        peer_regions_[region_index(known.remote_key)].tag.load(std::memory_order_seq_cst) !=
            known.remote.tag ||
        (kOpcode == Opcode::read && target.target_reads.load(std::memory_order_acquire) == 0))
        [[unlikely]] {
        end_touching();
        return rma_now_any(work);
    }
    const bool done = copy_piece(direction_of(kOpcode), peer_pid_, work.remote_address, work.local,
                                 work.length) == work.length;
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
    return rails_word() == 0 && connected() &&
           (work.opcode == Opcode::write ||
            peer_entry_->target_reads.load(std::memory_order_acquire) != 0) &&
           find_remote(work.remote_address, work.length, work.remote_key,
                       needed_access(work.opcode));
}

bool RcQueuePair::rma_now_any(const RmaWork& work) {
    const bool atomic = work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add;
    if ((atomic && (work.length != 8 || work.remote_address % 8 != 0)) || !may_rma_now(work)) {
        return false;
    }
    begin_touching();
    const bool done = finds_target_of(work) &&
                      (region_.offset != kPrivate ? rma_now_shared(work) : rma_now_private(work));
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
        find_served(work.local_key, address, work.length,
                    peer_reads ? kRemoteRead : kRemoteWrite) == nullptr) {
        return Status::again(Reason::none);
    }
    begin_touching();
    const bool done = finds_target_of(work) && region_.offset == kPrivate && rma_now_private(work);
    end_touching();
    return done ? kOk : Status::again(Reason::none);
}

// REQUIRES: find_remote found memory in the target's segment.
bool RcQueuePair::rma_now_shared(const RmaWork& work) {
    const Gather gather{work.local, work.length, work.local_key};
    const SendWork request = request_of(work, gather);
    if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
        copy_shared(request, in_segment(work.remote_address), 0, work.length, 0);
    } else {
        const std::uint64_t old = atomic_shared(request);
        std::memcpy(work.local, &old, sizeof old);
    }
    return true;
}

// REQUIRES: find_remote found memory outside the segment.
bool RcQueuePair::rma_now_private(const RmaWork& work) {
    if (!context_.single_copy() || !peer_->single_copy) {
        return false;
    }
    if (work.opcode == Opcode::write || work.opcode == Opcode::read) {
        const bool done = copy_piece(direction_of(work.opcode), peer_->pid(), work.remote_address,
                                     work.local, work.length) == work.length;
        const std::uint64_t word = peer_entry_->word.load(std::memory_order_acquire);
        if (done && (word & ~kQpAccessMask) == expected_word_ &&
            (qp_word_access(word) & needed_access(work.opcode)) != 0) {
            known_of(work.opcode) = {work.local_key, work.remote_key, word,
                                     *context_.regions().find(work.local_key), region_};
        }
        return done;
    }
    if (!try_lock_atomics()) {
        return false;
    }
    const Gather gather{work.local, work.length, work.local_key};
    std::uint64_t old = 0;
    const CopyResult result = atomic_private(request_of(work, gather), old);
    unlock_atomics();
    if (result == CopyResult::ok) {
        std::memcpy(work.local, &old, sizeof old);
    }
    return result == CopyResult::ok;
}

// -------------------------------------------------------------------------------------------------
// Mapping

void* RcQueuePair::map_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    if (state_ != QpState::ready_to_send || length == 0 ||
        (peer_rail_word_->load(std::memory_order_acquire) & kRailClosed) != 0 || !connected() ||
        !find_remote(address, length, key, kRemoteWrite) || region_.offset == kPrivate) {
        return nullptr;
    }
    return in_segment(address);
}

Status RcQueuePair::commit_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    if (map_impl(address, length, key) == nullptr) {
        return Status::error(Reason::bad_key);
    }
    return peer_->commit(region_.offset + (address - region_.base), length);
}

} // namespace adaptib::shm
