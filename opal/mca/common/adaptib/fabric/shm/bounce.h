// SPDX-License-Identifier: BSD-3-Clause
// Bounce slots and the requests of the copy pipeline.
//
// Purpose: where cross-memory attach is forbidden or cannot reach the memory, the target copies
// between its private memory and slots in the initiator's segment. The initiator fills a slot
// (writes), sends a BounceRequest through the target's queue, and finds the answer in the slot.
// Several slots are in flight at once.
// Invariant: a slot whose request has not been answered is not used again, even after its queue
// pair is gone, until the target has ended or closed its segment.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, layout.h, limits.h, segment.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/shm/layout.h"
#include "fabric/shm/limits.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

enum class BounceAnswer : std::uint8_t {
    none,
    done,
    access_error,    // key, range or right
    invalid_request, // not for this queue pair
    // Nothing was done: the queue pair does not receive, or the lock of the atomics is held.
    not_ready,
};

// First cache line of a slot; the data follows.
struct alignas(kCacheLine) BounceHeader {
    std::atomic<std::uint64_t> answer; // tag << 8 | BounceAnswer
    std::uint64_t result;              // of an atomic
};

// Payload of RecordType::request.
struct BounceRequest {
    std::uint64_t slot_offset; // offset of the BounceHeader in the initiator's segment
    std::uint64_t tag;
    std::uint64_t remote_address;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint32_t remote_key;
    std::uint32_t length;
    std::uint32_t opcode;
    std::uint32_t flags; // BounceFlag
};

enum BounceFlag : std::uint32_t {
    kBouncePublish = 1u << 0, // the last 8 bytes become visible last
    // The initiator's cross-memory attach failed at an address of this request. The target copies
    // only through the system (copy_checked), because the memory may not be mapped at all.
    kBounceChecked = 1u << 1,
};

// Returns the slot that a request names; null if the slot does not lie in the initiator's segment.
std::byte* find_slot(PeerSegment& initiator, const BounceRequest& request);

class BouncePool {
public:
    explicit BouncePool(OwnSegment* segment) : segment_(segment) {}

    // Takes an empty slot and gives it a new tag. False: all slots are in use, or there is no
    // memory.
    bool take(std::uint32_t& slot);
    void give(std::uint32_t slot);
    // Frees the slot once the target has answered or is gone.
    void abandon(std::uint32_t slot, std::shared_ptr<PeerSegment> target);

    BounceHeader* header(std::uint32_t slot) const {
        return reinterpret_cast<BounceHeader*>(segment_->at(slots_[slot].offset));
    }
    std::byte* data(std::uint32_t slot) const {
        return segment_->at(slots_[slot].offset) + sizeof(BounceHeader);
    }
    Bytes offset(std::uint32_t slot) const { return slots_[slot].offset; }
    std::uint64_t tag(std::uint32_t slot) const { return slots_[slot].tag; }
    BounceAnswer answer(std::uint32_t slot) const;

private:
    void sweep();

    struct Slot {
        Bytes offset = 0;
        std::uint64_t tag = 0;
        std::shared_ptr<PeerSegment> abandoned_to;
    };
    OwnSegment* segment_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::uint32_t abandoned_ = 0; // of slots_; not counted against kBounceSlots
    std::uint64_t next_tag_ = 1;
};

} // namespace adaptib::shm
