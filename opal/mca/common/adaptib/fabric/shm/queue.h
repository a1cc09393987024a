// SPDX-License-Identifier: BSD-3-Clause
// The queue of a process: many producers (its peers), one consumer (itself), records of any size.
//
// Purpose: everything that peers send without touching memory regions arrives here, so that polling
// costs one load, however many peers there are.
// Shape: a ring of cache-line granules. A record is a RecordHeader and its payload in consecutive
// granules. Positions count granules from 0 and never wrap; the place in the ring is position mod
// size.
// Invariants:
//   1. Granules [consumed, reserve) are reserved, each by exactly one producer (compare-and-swap on
//      `reserve`); all others have a first word of zero.
//   2. A producer writes its intent before it reserves, and publishes by setting the record's state
//      to position + 1 with release. The consumer reads nothing of a record before it has seen
//      that.
//   3. The consumer zeroes the first word of every granule before it releases the granules through
//      `consumed`.
// A producer that is killed between reserving and publishing leaves a hole. resolve_hole() finds
// the intents that cover the hole, and skips it once all their owners have ended.
// Threads: a Producer and a Consumer are used by one thread at a time each.
// May touch: base/, layout.h, process.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/invariant.h"
#include "fabric/shm/layout.h"

namespace adaptib::shm {

enum class Push : std::uint8_t { ok, full, no_memory };

// Fields of a record that its producer sets; the queue sets state, producer and granules.
struct RecordFields {
    RecordType type = RecordType::datagram;
    std::uint8_t flags = 0;
    std::uint32_t length = 0;
    std::uint32_t target_qp = 0;
    std::uint32_t source_qp = 0;
    std::uint32_t immediate = 0;
    std::uint32_t key = 0;
};

class Producer {
public:
    // Gets memory for granules [0, end) of the ring from the system. no_memory: there is none, or
    // no owner. full: this process cannot get it now (it has no descriptor, or may not open the
    // owner's), but the owner can.
    using Commit = std::function<Push(std::uint64_t end)>;

    Producer() = default;
    // REQUIRES: the slot belongs to the caller; base is the mapped segment of the target.
    Producer(std::byte* base, std::uint32_t slot, Commit commit);

    // Reserves, calls fill(std::byte* payload) for `payload` bytes, publishes.
    // REQUIRES: payload <= kDatagramBytes.
    template <class Fill> Push push(const RecordFields& fields, Bytes payload, Fill&& fill) {
        ADAPTIB_INVARIANT(payload <= kDatagramBytes, "a record is no longer than a datagram",
                          payload);
        std::uint64_t position = 0;
        const Push result = reserve(granules_for(payload), position);
        if (result != Push::ok) {
            return result;
        }
        RecordHeader* header = at(position);
        fill(reinterpret_cast<std::byte*>(header) + sizeof(RecordHeader));
        header->type = fields.type;
        header->flags = fields.flags;
        header->producer = static_cast<std::uint16_t>(slot_);
        header->length = fields.length;
        header->target_qp = fields.target_qp;
        header->source_qp = fields.source_qp;
        header->immediate = fields.immediate;
        header->key = fields.key;
        header->state.store(position + 1, std::memory_order_release);
        return Push::ok;
    }

    std::uint32_t slot() const { return slot_; }

    static std::uint64_t granules_for(Bytes payload) {
        return (sizeof(RecordHeader) + payload + kGranule - 1) / kGranule;
    }

    // Only reserves. A producer may die after this step and before it publishes. For push() and for
    // tests of that case.
    Push reserve(std::uint64_t granules, std::uint64_t& position);

private:
    RecordHeader* at(std::uint64_t position) const {
        return reinterpret_cast<RecordHeader*>(ring_ + (position & mask_) * kGranule);
    }
    Push ensure_committed(std::uint64_t end);

    Header* header_ = nullptr;
    ProducerSlot* intent_ = nullptr;
    std::byte* ring_ = nullptr;
    std::uint64_t mask_ = 0;
    std::uint64_t consumed_seen_ = 0;
    std::uint32_t slot_ = 0;
    bool all_committed_ = false;
    Commit commit_;
};

// Record as the consumer sees it: fields copied and checked, payload in place until pop().
struct RecordView {
    RecordFields fields;
    std::uint16_t producer = 0;
    std::uint64_t position = 0;
    const std::byte* payload = nullptr;
    Bytes payload_bytes = 0;
};

// Returns true if the owner should get more memory for its ring, before producers reach the end of
// what has memory: some of them may not be able to get more. Sets `end` to the granule up to which
// the ring should have memory.
bool wants_more(const Header& header, std::uint64_t& end);
// Records that granules [0, end) of the ring have memory.
void note_committed(Header& header, std::uint64_t end);

class Consumer {
public:
    Consumer() = default;
    // REQUIRES: base is the owner's own segment.
    explicit Consumer(std::byte* base);

    // Oldest record; false if there is none. Skips and counts garbage.
    bool front(RecordView& out) {
        if (at(consumed_)->state.load(std::memory_order_acquire) == 0) {
            return false;
        }
        return front_slow(out);
    }
    // Word that is nonzero when front() has something to look at. Valid until the next pop().
    const std::atomic<std::uint64_t>* next_state() const { return &at(consumed_)->state; }
    // Lower bound for the position of every record that is not in the queue yet.
    std::uint64_t reserved() const { return header_->reserve.load(std::memory_order_acquire); }
    // REQUIRES: front() was true since the last pop().
    void pop();

    // Returns true if the granules at the front are reserved but not published. Cheap enough for
    // one call in a hundred polls.
    bool stuck() const;
    // Skips a hole that a dead producer left at the front; true if it did. Reads /proc.
    bool resolve_hole();

    std::uint64_t garbage() const { return garbage_; }
    std::uint64_t holes() const { return holes_; }

private:
    RecordHeader* at(std::uint64_t position) const {
        return reinterpret_cast<RecordHeader*>(ring_ + (position & mask_) * kGranule);
    }
    bool front_slow(RecordView& out);
    bool check(std::uint64_t position, RecordView& out, std::uint64_t& granules) const;
    void release(std::uint64_t granules);
    bool dead_intents(std::vector<std::uint64_t>& ends) const;
    std::uint64_t hole_end(const std::vector<std::uint64_t>& ends) const;

    Header* header_ = nullptr;
    ProducerSlot* slots_ = nullptr;
    std::byte* ring_ = nullptr;
    std::uint64_t mask_ = 0;
    std::uint64_t consumed_ = 0;
    std::uint64_t front_granules_ = 0;
    std::uint64_t garbage_ = 0;
    std::uint64_t holes_ = 0;
    std::uint64_t unexplained_position_ = 0;
    std::uint32_t unexplained_ = 0;
};

} // namespace adaptib::shm
