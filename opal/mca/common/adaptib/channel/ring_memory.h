// SPDX-License-Identifier: BSD-3-Clause
// RingMemory: what lies where in the memory that a process offers a connected peer.
//
//     lines        of the ring that the peer writes its messages into (channel/ring.h); maybe none
//     credit line  what the peer has consumed of ours; in its second half what we told last, if not inline
//     answer slot  where the peer answers operations that it is asked for (protocol/asked.cc), where it can store there
//     measuring    nothing: the peer writes over it to time paths, where there are several (connect/measure.cc)
//
// The peer finds the slot behind the credit, whose address is in the handshake.
// Ownership: refers to a region. Threads: any. May touch: base/, fabric/fabric.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/units.h"
#include "base/wire.h"
#include "fabric/fabric.h"

namespace adaptib {

// The word is OperateBody::number << 8 | AnswerState. Offered, it is whose who changes it: the target, which
// then does the operation and leaves done or refused, or the initiator, which takes the offer back.
enum class AnswerState : std::uint8_t { none, offered, taken, done, refused };

constexpr std::uint64_t answer_word(std::uint64_t number, AnswerState state) {
    return number << 8 | static_cast<std::uint64_t>(state);
}

// The other word of the slot: a message that both ends copy (protocol/together.cc), in units from its front and from
// its back. Who changes a count has that part of it; `done` is what the other end has copied of the back, in that order.
struct SharedWork {
    static constexpr std::uint32_t kMostUnits = 256;
    // ShareBody::number is 1 to that; 0 is of no offer. A message that is late by as many offers would be taken for a new
    // one; a ring has room for far fewer.
    static constexpr std::uint64_t kNumbers = (1u << 26) - 1;

    std::uint64_t number = 0;
    std::uint32_t front = 0;
    std::uint32_t back = 0;
    std::uint32_t done = 0;
    bool closed = false; // nothing can be taken any more
    bool refused =
        false; // the other end could not copy a part that it had taken, and copies nothing more

    constexpr std::uint64_t word() const {
        return number << 38 | std::uint64_t{refused} << 37 | std::uint64_t{closed} << 36 |
               std::uint64_t{done} << 24 | std::uint64_t{back} << 12 | front;
    }
    static constexpr SharedWork of(std::uint64_t word) {
        const auto count = [&](int shift) {
            return static_cast<std::uint32_t>(word >> shift & 0xfff);
        };
        return {word >> 38,           count(0), count(12), count(24), (word >> 36 & 1) != 0,
                (word >> 37 & 1) != 0};
    }
};

struct alignas(kCacheLine) AnswerSlot {
    std::uint64_t word;
    std::uint64_t shared;       // SharedWork
    std::byte data[kMostAsked]; // what was read, or the old value; without pages until it is used
};

// What there is behind the lines and the credit.
struct RingParts {
    bool answers = false;   // the slot
    bool measuring = false; // something to write over
};

class RingMemory {
public:
    static constexpr Bytes behind_lines(RingParts parts) {
        return kCacheLine + (parts.answers ? sizeof(AnswerSlot) : 0) +
               (parts.measuring ? kMeasureBytes : 0);
    }

    RingMemory(const MemoryRegion& region, RingParts parts)
        : base_(static_cast<std::byte*>(region.address())), parts_(parts),
          lines_bytes_(region.length() - behind_lines(parts)) {}

    std::byte* lines() const { return base_; }
    Bytes lines_bytes() const { return lines_bytes_; }
    std::byte* credit() const { return base_ + lines_bytes_; }
    std::byte* told() const { return credit() + kCacheLine / 2; }
    // REQUIRES: there is such a part.
    AnswerSlot& answer() const { return *reinterpret_cast<AnswerSlot*>(credit() + kCacheLine); }
    std::byte* measuring() const {
        return base_ + lines_bytes_ + behind_lines({.answers = parts_.answers});
    }
    // For a new ring, of which so much has been used. Behind that it is as it was at first, maybe without pages.
    void clean(Bytes used) const {
        std::memset(lines(), 0, std::min(used, lines_bytes_));
        std::memset(credit(), 0, kCacheLine);
        if (parts_.answers) {
            answer().word = answer().shared = 0;
        }
    }
    // The credit in the peer's memory, where its answer slot is mapped.
    static std::byte* credit_before(AnswerSlot& answers) {
        return reinterpret_cast<std::byte*>(&answers) - kCacheLine;
    }
    // The answer slot in the peer's memory.
    static std::uint64_t answer_behind(std::uint64_t credit_address) {
        return credit_address + kCacheLine;
    }

private:
    std::byte* base_;
    RingParts parts_;
    Bytes lines_bytes_;
};

} // namespace adaptib
