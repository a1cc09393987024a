// SPDX-License-Identifier: BSD-3-Clause
// RingWork, CreditWork, FlushWork and QuietWork: what a peer posts besides transfers
// (base/work_target.h).
//
// Purpose: handle the completions of writes into the peer's ring, of credit, and of the empty write
// that shows that nothing of the connection is under way (Flush). The functions that use the Peer
// are defined in peer/peer.h.
// Ownership: work targets and flushes belong to the Peer, and live as long as it does.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/subchannel.h.
#pragma once

#include <cstdint>

#include "base/work_target.h"
#include "fabric/fabric.h"
#include "peer/subchannel.h"

namespace adaptib {

class Peer;

// Handles completions of writes into a peer's ring. The sender of such a message was told success;
// if the write fails, the failure has to be reported. Nobody expects anything of a disconnect.
class RingWork final : public WorkTarget {
public:
    explicit RingWork(Peer& peer) : peer_(peer) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;

private:
    Peer& peer_;
};

// Knows whether writes of credit are under way. All of them write the same word of the peer's
// memory, and not every adapter places writes in the order in which they were posted: an older
// count that comes last would hide a newer one for ever from a peer that has not looked meanwhile.
// So a count that was written beside another one is written once more, alone.
class CreditWork final : public WorkTarget {
public:
    bool any() const { return any_; } // since begin()
    bool under_way() const { return under_way_; }
    std::uint64_t count() const { return count_; } // of the last write
    // wr_id of the next write, which is signaled.
    std::uint64_t next_id() { return wr_id_of(this, number_ + 1); }
    void on_posted(std::uint64_t count) {
        ++number_;
        count_ = count;
        any_ = under_way_ = true;
    }
    // Begins anew, over other queue pairs; what the former ones complete later is ignored.
    void begin() { any_ = under_way_ = false; }
    // A queue pair completes its writes in order: with the last one all are complete.
    void on_work_done(std::uint32_t, const WorkCompletion& completion) override {
        under_way_ = under_way_ && work_number_of(completion.wr_id) != number_ % kWorkNumbers;
    }

private:
    std::uint64_t count_ = 0;
    std::uint32_t number_ = 0; // of the last write
    bool any_ = false;
    bool under_way_ = false;
};

// An empty write behind everything that this side has posted besides transfers.
struct Flush {
    bool posted = false;
    bool done = false;       // nothing of that is under way any more
    std::uint32_t qp = 0;    // the queue pair that it is posted on ...
    std::uint32_t rail = 0;  // ... of that rail
    std::uint64_t posts = 0; // for a shared queue pair: number of posts by then

    bool awaits(const Subchannel& subchannel) const {
        return posted && !done && subchannel.has(rail, qp);
    }
};

// The record of a flush may be cleared and used again while an earlier flush is still under way:
// the completion of that one does not count.
class FlushWork final : public WorkTarget {
public:
    FlushWork(Peer& peer, Flush& flush) : peer_(peer), flush_(flush) {}
    // wr_id of the next flush.
    std::uint64_t next_id() { return wr_id_of(this, ++number_); }
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;
    Flush& flush() { return flush_; }

private:
    Peer& peer_;
    Flush& flush_;
    std::uint32_t number_ = 0; // of the last flush
};

// Identifies the peer's requests over a shared queue pair; ignores their completions.
class QuietWork final : public WorkTarget {
public:
    void on_work_done(std::uint32_t, const WorkCompletion&) override {}
};

} // namespace adaptib
