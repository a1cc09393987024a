// SPDX-License-Identifier: BSD-3-Clause
// Reservation, checking of records, and recovery from dead producers.
#include "fabric/shm/queue.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "fabric/shm/process.h"

namespace adaptib::shm {

namespace {

constexpr std::uint64_t kCommitStep = 64 * kKiB / kGranule;
// Part of the ring that should have memory and is not reserved yet: more than a record takes.
constexpr std::uint64_t kCommitAhead = 16 * kKiB / kGranule;
static_assert(kCommitAhead * kGranule > 2 * kDatagramBytes);
// Looks at a hole that no intent covers before one of its granules is given up. Reached only when
// shared memory was damaged.
constexpr std::uint32_t kUnexplainedLooks = 1000;

constexpr std::uint64_t pack_intent(std::uint64_t position, std::uint64_t count) {
    return position << 16 | count;
}

} // namespace

// -------------------------------------------------------------------------------------------------
// Producer

Producer::Producer(std::byte* base, std::uint32_t slot, Commit commit)
    : header_(header_of(base)), intent_(producers_of(base) + slot),
      ring_(base + header_->ring_offset), mask_(header_->ring_granules - 1),
      consumed_seen_(header_->consumed.load(std::memory_order_acquire)), slot_(slot),
      commit_(std::move(commit)) {
    ADAPTIB_INVARIANT(slot < kMaxProducers, "a producer has a slot of the table", slot);
}

Push Producer::reserve(std::uint64_t granules, std::uint64_t& position) {
    ADAPTIB_AUDIT(granules > 0 && granules <= granules_for(kDatagramBytes),
                  "a record is no longer than a datagram", granules);
    std::uint64_t start = header_->reserve.load(std::memory_order_relaxed);
    for (;;) {
        const std::uint64_t to_end = mask_ + 1 - (start & mask_);
        const std::uint64_t pad = granules <= to_end ? 0 : to_end;
        const std::uint64_t end = start + pad + granules;
        if (end - consumed_seen_ > mask_ + 1) {
            consumed_seen_ = header_->consumed.load(std::memory_order_acquire);
            if (end - consumed_seen_ > mask_ + 1) {
                intent_->intent.store(0, std::memory_order_release);
                return Push::full;
            }
        }
        if (!all_committed_) {
            if (const Push result = ensure_committed(end); result != Push::ok) {
                intent_->intent.store(0, std::memory_order_release);
                return result;
            }
        }
        // Release order covers the records that this process has published before: a consumer that
        // finds the earlier intent gone sees those records and does not take their granules for a
        // hole of another producer.
        intent_->intent.store(pack_intent(start, pad + granules), std::memory_order_release);
        if (header_->reserve.compare_exchange_weak(start, end, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed)) {
            if (pad > 0) {
                RecordHeader* skip = at(start);
                skip->type = RecordType::skip;
                skip->length = 0;
                skip->state.store(start + 1, std::memory_order_release);
            }
            position = start + pad;
            return Push::ok;
        }
    }
}

Push Producer::ensure_committed(std::uint64_t end) {
    const std::uint64_t size = mask_ + 1;
    const std::uint64_t committed = header_->committed.load(std::memory_order_acquire);
    if (committed >= size) {
        all_committed_ = true;
        return Push::ok;
    }
    if (end <= committed) {
        return Push::ok;
    }
    const std::uint64_t wanted = std::min(size, (end / kCommitStep + 1) * kCommitStep);
    if (!commit_) {
        return Push::no_memory;
    }
    const Push result = commit_(wanted);
    if (result == Push::ok) {
        note_committed(*header_, wanted);
    }
    return result;
}

bool wants_more(const Header& header, std::uint64_t& end) {
    const std::uint64_t committed = header.committed.load(std::memory_order_relaxed);
    const std::uint64_t reserved = header.reserve.load(std::memory_order_relaxed);
    if (committed >= header.ring_granules || reserved + kCommitAhead <= committed) {
        return false;
    }
    end = std::min(header.ring_granules, committed + kCommitStep);
    return true;
}

void note_committed(Header& header, std::uint64_t end) {
    std::uint64_t committed = header.committed.load(std::memory_order_relaxed);
    while (committed < end &&
           !header.committed.compare_exchange_weak(committed, end, std::memory_order_acq_rel)) {
    }
}

// -------------------------------------------------------------------------------------------------
// Consumer

Consumer::Consumer(std::byte* base)
    : header_(header_of(base)), slots_(producers_of(base)), ring_(base + header_->ring_offset),
      mask_(header_->ring_granules - 1),
      consumed_(header_->consumed.load(std::memory_order_relaxed)) {}

bool Consumer::check(std::uint64_t position, RecordView& out, std::uint64_t& granules) const {
    const RecordHeader* header = at(position);
    if (header->state.load(std::memory_order_acquire) != position + 1) {
        return false;
    }
    const std::uint64_t to_end = mask_ + 1 - (position & mask_);
    out.fields = {header->type,      header->flags,     header->length, header->target_qp,
                  header->source_qp, header->immediate, header->key};
    out.producer = header->producer;
    out.position = position;
    out.payload = reinterpret_cast<const std::byte*>(header) + sizeof(RecordHeader);
    switch (out.fields.type) {
    case RecordType::skip: granules = to_end; return true;
    case RecordType::datagram:
    case RecordType::message:
    case RecordType::request: out.payload_bytes = out.fields.length; break;
    case RecordType::notice:
    case RecordType::broken: out.payload_bytes = 0; break;
    default: return false;
    }
    granules = Producer::granules_for(out.payload_bytes);
    return out.payload_bytes <= kDatagramBytes && granules <= to_end;
}

bool Consumer::front_slow(RecordView& out) {
    for (;;) {
        if (at(consumed_)->state.load(std::memory_order_acquire) == 0) {
            return false;
        }
        std::uint64_t granules = 0;
        if (!check(consumed_, out, granules)) {
            ++garbage_;
            release(1); // the next record's state names its position
        } else if (out.fields.type == RecordType::skip) {
            release(granules);
        } else {
            front_granules_ = granules;
            return true;
        }
    }
}

void Consumer::pop() {
    ADAPTIB_INVARIANT(front_granules_ != 0, "a record that is released has been seen", consumed_);
    release(std::exchange(front_granules_, 0));
}

void Consumer::release(std::uint64_t granules) {
    for (std::uint64_t i = 0; i < granules; ++i) {
        at(consumed_ + i)->state.store(0, std::memory_order_relaxed);
    }
    consumed_ += granules;
    header_->consumed.store(consumed_, std::memory_order_release);
}

bool Consumer::stuck() const {
    return header_->reserve.load(std::memory_order_acquire) != consumed_ &&
           at(consumed_)->state.load(std::memory_order_acquire) == 0;
}

// Adds the ends of the intents that cover the front. Returns false if the process of one lives: it
// publishes its record, or its intent came too late.
bool Consumer::dead_intents(std::vector<std::uint64_t>& ends) const {
    const std::uint32_t slots =
        std::min(header_->producers_end.load(std::memory_order_acquire), kMaxProducers);
    for (std::uint32_t i = 0; i < slots; ++i) {
        const ProducerSlot& slot = slots_[i];
        const std::uint64_t owner = slot.owner.load(std::memory_order_acquire);
        const std::uint64_t intent = slot.intent.load(std::memory_order_acquire);
        const std::uint64_t first = intent >> 16;
        const std::uint64_t last = first + (intent & 0xffff);
        if (owner == 0 || consumed_ < first || consumed_ >= last) {
            continue;
        }
        if (process_alive(static_cast<std::uint32_t>(owner),
                          slot.start_time.load(std::memory_order_relaxed))) {
            return false;
        }
        ends.push_back(last);
    }
    return true;
}

// End of the hole at the front; 0 if no intent covers it. With two dead candidates, the one that
// lost the race for the place reserved nothing. The winner's end is where another record begins, or
// the reserved part ends.
std::uint64_t Consumer::hole_end(const std::vector<std::uint64_t>& ends) const {
    const std::uint64_t reserved = header_->reserve.load(std::memory_order_acquire);
    std::uint64_t out = 0;
    for (const std::uint64_t end : ends) {
        const bool fits =
            end == reserved ||
            (end < reserved && at(end)->state.load(std::memory_order_acquire) == end + 1);
        if (end <= reserved && (out == 0 || fits)) {
            out = end;
        }
    }
    return out;
}

bool Consumer::resolve_hole() {
    if (!stuck()) {
        return false;
    }
    std::vector<std::uint64_t> ends;
    if (!dead_intents(ends) || !stuck()) {
        return false; // the record is published meanwhile, or will be
    }
    if (const std::uint64_t end = hole_end(ends); end != 0) {
        ++holes_;
        ADAPTIB_INVARIANT(end > consumed_, "a hole ends behind its beginning", end, consumed_);
        release(end - consumed_);
        return true;
    }
    if (unexplained_position_ != consumed_) {
        unexplained_position_ = consumed_;
        unexplained_ = 0;
    }
    if (++unexplained_ < kUnexplainedLooks) {
        return false;
    }
    ADAPTIB_INVARIANT(unexplained_ == kUnexplainedLooks,
                      "a granule is given up when its looks are used up", unexplained_);
    ++garbage_;
    release(1);
    return true;
}

} // namespace adaptib::shm
