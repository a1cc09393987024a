// SPDX-License-Identifier: BSD-3-Clause
// RingPoster: posts writes into a ring in a peer's memory over a queue pair.
//
// Purpose: builds the work requests, signals some of them, and knows from their completions whether
// the reader has all that was posted.
// Ownership: uses a queue pair that outlives it.
// Threads: one at a time.
// May touch: base/, fabric/fabric.h, channel/ring_layout.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib {

// Signals every kSignalEvery-th write to a queue pair; its completion also releases the send queue
// entries of the unsignaled writes before it. Send queues are several times deeper than this.
constexpr std::uint32_t kSignalEvery = 32;

// Inline bytes requested for a queue pair that posts into a ring, if the rail supports that many:
// enough for a message with up to 96 bytes.
constexpr Bytes kRingInline = 128;

// Pieces of a gathered message: header, payload, and the rest.
constexpr std::uint32_t kRingGather = 3;

// Ring in a peer's memory, as its reader has offered it.
struct RingTarget {
    std::uint64_t address = 0; // of the reader's ring
    std::uint32_t key = 0;
    std::uint64_t units = 0;
    // Length up to which the queue pair takes a message inline, without reading it later
    Bytes inline_bytes = 0;
    // Of the RingRoom word in the reader's memory; 0: the whole ring has memory
    std::uint64_t room_address = 0;
    // Longest write that becomes visible in the order of its addresses; 0: any
    Bytes write_bytes = 0;
    bool checked = false; // posted messages carry a checksum
};

class RingPoster {
public:
    // Failed work completes with `wr_id`.
    RingPoster(QueuePair& qp, const RingTarget& target, std::uint64_t wr_id)
        : qp_(&qp), target_(target), wr_id_(wr_id) {}

    QueuePair& qp() const { return *qp_; }
    const RingTarget& target() const { return target_; }
    bool posts_to(const QueuePair& qp) const { return qp_ == &qp; }

    // Writes to the ring's `unit`. `signaled`: requests a completion in any case.
    Status write(const Gather& gather, std::uint64_t unit, bool signaled) {
        return post({&gather, 1}, unit, signaled, gather.length <= target_.inline_bytes);
    }
    // Writes pieces, one behind the other, and requests a completion: until then the device may
    // read them. REQUIRES: the queue pair takes that many pieces.
    Status write_gathered(std::span<const Gather> pieces, std::uint64_t unit) {
        return post(pieces, unit, true, false);
    }

    // settled(): the reader has all that was posted and that a completion was requested for.
    // flush(): ok: the reader has all that was posted; again: not yet; error: of the queue pair.
    // Requests the missing completion, so the caller calls it again.
    bool settled() const { return awaited_ == 0; }
    Status flush();
    bool flushed() { return !flush().is_again(); }
    // Numbers of the last signaled write, and of the last one that is complete. A queue pair
    // completes its writes in order.
    std::uint32_t signaled() const { return signaled_; }
    std::uint32_t completed() const { return signaled_ - awaited_; }
    // Called for each completion taken that has the poster's wr_id.
    void on_completion() { awaited_ -= awaited_ > 0 ? 1 : 0; }

    // Continues over another queue pair, which reaches the same memory. REQUIRES: settled().
    void migrate_to(QueuePair& qp, std::uint32_t key, Bytes inline_bytes) {
        ADAPTIB_INVARIANT(settled(), "nothing is awaited of a queue pair that is left", awaited_);
        qp_ = &qp;
        target_.key = key;
        target_.inline_bytes = inline_bytes;
        unsignaled_ = 0;
    }

private:
    Status post(std::span<const Gather> pieces, std::uint64_t unit, bool signaled, bool inlined);
    void count_signaled() {
        unsignaled_ = 0;
        ++signaled_;
        ++awaited_;
    }

    // Constant except for migrate_to().
    QueuePair* qp_;
    RingTarget target_;
    const std::uint64_t wr_id_;
    std::uint32_t unsignaled_ = 0; // writes posted since the last signaled one
    std::uint32_t signaled_ = 0;   // signaled writes, modulo 2^32
    std::uint32_t awaited_ = 0;    // signaled writes that are not complete
};

} // namespace adaptib
