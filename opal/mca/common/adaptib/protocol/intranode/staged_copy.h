// SPDX-License-Identifier: BSD-3-Clause
// StagedCopy and StagedOffer: the two ends of a staged copy (SynchronousRma, RmaTarget). StagedCopy
// is the end of the initiator, which owns the staging memory and the answer slot; StagedOffer is
// the end of the helper, the process to which the initiator has made the offer.
//
// Purpose: long data goes through staging memory of a few units, used as a ring. The end that has
// the data fills units, and the other end empties them at the same time: for a get, or a message,
// the helper fills; for a put, the initiator. The initiator counts its units in AnswerSlot::moved.
// The helper takes each unit by compare-and-swap on the shared word, and counts the unit there as
// done once it is in staging memory, or in place. The initiator can take back units that the helper
// has not taken.
// Ownership: both refer to memory of the two processes. The helper touches none after a step that
// returned over; the initiator may release the staging memory once step() has returned over.
// Threads: one at a time, under the core's lock.
// May touch: base/, channel/, fabric/queue_pair.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/wire.h"
#include "channel/ring_memory.h"
#include "fabric/queue_pair.h"

namespace adaptib {

enum class StagedStep : std::uint8_t {
    moved, // this end has moved a unit
    waits, // the other end has to move a unit first
    over,  // nothing is left to do, or the other end does no more
    bad,   // initiator only: the slot, into which the peer writes, is inconsistent
};

class StagedCopy {
public:
    // `work`: the operation as the initiator would do it alone; `staging`: memory of `depth` units.
    // REQUIRES: the offer has been made.
    StagedCopy(const RmaWork& work, std::uint64_t number, AnswerSlot& slot, std::byte* staging,
               std::uint32_t depth);

    StagedStep step();
    // Closes the offer: no unit can be taken any more. The caller repeats step() until all units
    // that were taken are done. May be called any number of times.
    void close();
    bool is_closed() const { return state_.closed; }
    // Returns true if the helper has done units since the last call.
    bool has_heard();
    // Returns the number of bytes in place, from the beginning on. REQUIRES: step() returned over.
    Bytes in_place() const;

private:
    const RmaWork& work_;
    const std::uint64_t number_;
    AnswerSlot& slot_;
    std::byte* const staging_;
    const std::uint32_t depth_;
    const std::uint32_t units_;
    std::uint32_t moved_ = 0;
    std::uint32_t heard_ = 0; // units done by the helper at the last has_heard()
    SharedWork state_{};
};

class StagedOffer {
public:
    // `own`: this process's memory that the body names. Null: `qp`, which must not be null then,
    // accesses the memory by the rules of the body's key. REQUIRES: the body has been checked;
    // `staging` has the body's staging_units.
    StagedOffer(const CooperativeCopyBody& body, AnswerSlot& slot, QueuePair* qp,
                std::byte* staging, std::byte* own);

    StagedStep step();
    // Returns true if the initiator still waits for units.
    bool stands() const;
    // Returns the bytes moved by this object.
    Bytes bytes_moved() const { return moved_; }
    Opcode opcode() const { return static_cast<Opcode>(body_.opcode); }

private:
    bool take();
    bool copy(std::byte* staged, Bytes offset, Bytes bytes);
    bool fills() const { return opcode() == Opcode::write; }

    CooperativeCopyBody body_;
    AnswerSlot* slot_;
    QueuePair* qp_;
    std::byte* staging_;
    std::byte* own_;
    std::uint32_t units_;
    std::uint32_t unit_; // the next unit
    Bytes moved_ = 0;
};

// The peer's offer in the other direction, while this process is an initiator.
struct CrossingHelp {
    std::optional<StagedOffer> offer;
    std::uint64_t looked_at = 0; // number of the offer that was taken or declined last
};

} // namespace adaptib
