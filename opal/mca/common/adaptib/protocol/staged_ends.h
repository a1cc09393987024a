// SPDX-License-Identifier: BSD-3-Clause
// The two ends of a staged copy (protocol/staged.cc): StagedCopy is the initiator's, which owns the
// staging memory and the answer slot, StagedOffer that of the helper, the process that the initiator
// made the offer to.
//
// Purpose: long data goes through staging memory of a few units, used as a ring. The end that has the
// data fills units, the other one empties them, at the same time: with a get, or a message, the
// helper fills, with a put the initiator. The initiator counts its units in AnswerSlot::moved. The
// helper takes each unit by compare-and-swap on the shared word, and counts it there as done: from
// there on it is in staging memory, or in place. The initiator can take back what was not taken.
// Ownership: both refer to memory of the two processes. The helper touches none after a step that
// returned over; the initiator may give the staging memory back once step() returned over.
// Threads: one at a time, under the core's lock.
// May touch: base/, channel/, fabric/fabric.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/wire.h"
#include "channel/ring_memory.h"
#include "fabric/fabric.h"

namespace adaptib {

enum class StagedStep : std::uint8_t {
    moved, // this end has moved a unit
    waits, // the other end has to move one first
    over,  // nothing is left to do, or the other end does no more
    bad,   // initiator only: the slot, where the peer writes, makes no sense
};

class StagedCopy {
public:
    // The offer stands. `work`: what the initiator would do alone; `staging`: of `depth` units.
    StagedCopy(const ExecuteWork& work, std::uint64_t number, AnswerSlot& slot, std::byte* staging,
               std::uint32_t depth);

    StagedStep step();
    // No unit can be taken any more; step() until those that are taken are done. Any number of times.
    void close();
    bool is_closed() const { return state_.closed; }
    // The helper has done something since the last call.
    bool has_heard();
    // After over: this much is in place, from the beginning on.
    Bytes in_place() const;

private:
    const ExecuteWork& work_;
    const std::uint64_t number_;
    AnswerSlot& slot_;
    std::byte* const staging_;
    const std::uint32_t depth_;
    const std::uint32_t units_;
    std::uint32_t moved_ = 0;
    std::uint32_t heard_ = 0; // what the helper had done by the last has_heard()
    SharedWork state_{};
};

class StagedOffer {
public:
    // `own`: this process's memory that the body names. Null: the queue pair, which is not null then,
    // accesses it by the rules of the body's key. REQUIRES: the body has been checked; `staging` has
    // its staging_units.
    StagedOffer(const ShareBody& body, AnswerSlot& slot, QueuePair* qp, std::byte* staging,
                std::byte* own);

    StagedStep step();
    // The initiator still waits for units.
    bool stands() const;
    // By this object.
    Bytes bytes_moved() const { return moved_; }
    Opcode opcode() const { return static_cast<Opcode>(body_.opcode); }

private:
    bool take();
    bool copy(std::byte* staged, Bytes offset, Bytes bytes);
    bool fills() const { return opcode() == Opcode::write; }

    ShareBody body_;
    AnswerSlot* slot_;
    QueuePair* qp_;
    std::byte* staging_;
    std::byte* own_;
    std::uint32_t units_;
    std::uint32_t unit_; // the next one
    Bytes moved_ = 0;
};

} // namespace adaptib
