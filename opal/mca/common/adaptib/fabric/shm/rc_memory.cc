// SPDX-License-Identifier: BSD-3-Clause
// RC writes, reads and atomics: memory in the target's segment is touched directly, its private memory
// by cross-memory attach, or by the copy pipeline where that is forbidden.
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

// Bytes at the end that have to become visible last.
constexpr Bytes tail_of(const SendWork& work, Bytes length) {
    const bool whole = (work.remote_address + length) % 8 == 0 && length >= 8;
    return (work.flags & kPublish) != 0 && whole && work.opcode != Opcode::read ? 8 : 0;
}

} // namespace

// Looks the key up, and whether it, its rail and the target queue pair allow the access; region_ is
// the region then. REQUIRES: begin_touching.
bool RcQueuePair::find_remote(std::uint64_t address, Bytes length, std::uint32_t key,
                              std::uint32_t access) {
    const RegionEntry* table = regions_of(peer_->base());
    const bool known = region_.tag != 0 && region_key(region_.tag) == key &&
                       table[region_index(key)].tag.load(std::memory_order_seq_cst) == region_.tag;
    if (!known && !read_region(table, key, region_)) {
        region_.tag = 0;
        return false;
    }
    const std::uint32_t qp_access =
        qp_word_access(peer_entry_->word.load(std::memory_order_acquire));
    if (!region_.allows(access) || (qp_access & access) != access ||
        region_rail(region_.tag) != peer_rail_ || !region_.covers(address, length)) {
        return false;
    }
    return region_.offset == kPrivate ||
           (region_.offset < peer_->size() && region_.length <= peer_->size() - region_.offset);
}

// An error that the target's queue pair shares.
RcQueuePair::Step RcQueuePair::remote_error(WorkStatus which, WorkStatus& status) {
    RecordFields fields;
    fields.type = RecordType::broken;
    fields.target_qp = remote_number_;
    fields.source_qp = number_;
    context_.owe(peer_, fields);
    status = which;
    return Step::over;
}

// `bounce` is set when the copy pipeline has to do it.
RcQueuePair::Step RcQueuePair::copy_trouble(CopyResult result, WorkStatus& status, bool& bounce) {
    switch (result) {
    case CopyResult::ok: break;
    case CopyResult::fault: return remote_error(WorkStatus::remote_access_error, status);
    case CopyResult::gone: status = WorkStatus::retry_exceeded; return Step::over;
    case CopyResult::forbidden:
        context_.forbid_single_copy(peer_.get(), "the system forbids it for process " +
                                                     std::to_string(peer_->pid()));
        bounce = true;
        return Step::wait;
    case CopyResult::failed: return remote_error(WorkStatus::remote_operation_error, status);
    }
    return Step::wait;
}

// ---------------------------------------------------------------------------------------------------
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
    return copy_memory(work.opcode == Opcode::read ? Direction::from_peer : Direction::to_peer,
                       peer_->pid(), work.remote_address + offset, {work.gather, work.gather_count},
                       offset, length);
}

RcQueuePair::Step RcQueuePair::move_data(const SendWork& work, Bytes length, Attempt& a,
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
        if (pieces_.empty() && context_.single_copy() && peer_->single_copy) {
            result = part > 0 ? copy_private(work, a.moved, part) : CopyResult::ok;
            if (result == CopyResult::ok && last > 0) {
                result = copy_private(work, a.moved + part, last);
            }
        } else {
            through_pipeline = true;
        }
        end_touching();
        if (result != CopyResult::ok) {
            const Step step =
                through_pipeline ? Step::wait : copy_trouble(result, status, through_pipeline);
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

// ---------------------------------------------------------------------------------------------------
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
        if (!context_.single_copy() || !peer_->single_copy) {
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
            const Step step = copy_trouble(result, status, through_pipeline);
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

// REQUIRES: begin_touching, lock_atomics. Not ok: the word is as it was.
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
    // Held for long: by one who has ended? Reads /proc, so not at every try.
    if (++a.lock_waits % 16 == 1) {
        Context::break_dead_lock(peer_->base());
    }
    return false;
}

void RcQueuePair::unlock_atomics() {
    peer_->header()->atomic_lock.store(0, std::memory_order_release);
}

// ---------------------------------------------------------------------------------------------------
// Within the call: what nothing stands in the way of. The rest, errors included, is for post_send.

bool RcQueuePair::executable(const SendWork& work, Bytes& length) const {
    const bool scatters = work.opcode >= Opcode::read && work.opcode <= Opcode::fetch_add;
    if ((work.opcode != Opcode::write && !scatters) || state_ != QpState::ready_to_send ||
        !ops_.empty() || rails_word() != 0 ||
        (scatters && peer_entry_->target_reads.load(std::memory_order_acquire) == 0)) {
        return false;
    }
    const std::uint32_t access = scatters ? +kLocalWrite : 0u;
    if (work.gather_count == 1 && (work.flags & kInline) == 0) [[likely]] {
        length = work.gather[0].length;
        return (length == 8 || work.opcode <= Opcode::read) && length > 0 && length <= kCopyPiece &&
               context_.regions().allows(work.gather[0], rail_, access);
    }
    return check(work, length).ok() && length > 0 && length <= kCopyPiece &&
           ((work.flags & kInline) != 0 ||
            context_.regions().allows({work.gather, work.gather_count}, rail_, access));
}

Status RcQueuePair::execute_impl(const SendWork& work) {
    Bytes length = 0;
    if (!executable(work, length)) {
        return Status::again(Reason::none);
    }
    const bool atomic = work.opcode == Opcode::compare_swap || work.opcode == Opcode::fetch_add;
    CopyResult result = CopyResult::failed;
    begin_touching();
    if (reachable() && (!atomic || work.remote_address % 8 == 0) &&
        find_remote(work.remote_address, length, work.remote_key, needed_access(work.opcode))) {
        std::uint64_t old = 0;
        if (region_.offset != kPrivate) {
            if (atomic) {
                old = atomic_shared(work);
            } else {
                const Bytes tail = tail_of(work, length);
                copy_shared(work, in_segment(work.remote_address), 0, length - tail, tail);
            }
            result = CopyResult::ok;
        } else if (context_.single_copy() && peer_->single_copy && tail_of(work, length) == 0) {
            if (!atomic) {
                result = copy_private(work, 0, length);
            } else if (try_lock_atomics()) {
                result = atomic_private(work, old);
                unlock_atomics();
            }
        }
        if (atomic && result == CopyResult::ok) {
            std::memcpy(work.gather[0].address, &old, 8);
        }
    }
    end_touching();
    return result == CopyResult::ok ? kOk : Status::again(Reason::none);
}

// ---------------------------------------------------------------------------------------------------
// Mapping

void* RcQueuePair::map_impl(std::uint64_t address, Bytes length, std::uint32_t key) {
    if (state_ != QpState::ready_to_send || length == 0 ||
        (peer_rail_word_->load(std::memory_order_acquire) & kRailClosed) != 0 || !connected() ||
        !find_remote(address, length, key, kRemoteWrite) || region_.offset == kPrivate) {
        return nullptr;
    }
    return in_segment(address);
}

} // namespace adaptib::shm
