// SPDX-License-Identifier: BSD-3-Clause
// Context: what the objects of one shm fabric share, and their progress engine.
//
// Purpose: holds the segment, the peers, the tables of queue pairs and regions, and events; and has
// progress(), which every poll of a completion queue calls. Order in progress(): records that peers
// sent, then own requests that had to wait, then records owed to peers, then, every kPollsPerRound
// polls, rare work (dead producers, memory for the queue, dead peers, the peers' rails).
// Ownership: owned by the fabric; all other objects refer to it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/units.h"
#include "fabric/fabric.h"
#include "fabric/shm/bounce.h"
#include "fabric/shm/initiator_fence.h"
#include "fabric/shm/own_rails.h"
#include "fabric/shm/peer_table.h"
#include "fabric/shm/queue.h"
#include "fabric/shm/queue_pair_table.h"
#include "fabric/shm/regions.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/single_copy.h"

namespace adaptib::shm {

class LocalQueuePair;

struct Counters {
    std::uint64_t dropped_key = 0;     // datagrams with another Q_Key
    std::uint64_t dropped_target = 0;  // records that no queue pair takes
    std::uint64_t dropped_garbage = 0; // malformed records
};

class Context {
public:
    Context(std::unique_ptr<OwnSegment> segment, const Clock& clock, std::uint32_t rails,
            std::vector<std::string>& notices);

    OwnSegment& segment() { return *segment_; }
    RegionTable& regions() { return regions_; }
    BouncePool& bounce() { return bounce_; }
    Counters& counters() { return counters_; }
    Consumer& consumer() { return consumer_; }
    OwnRails& rails() { return rails_; }
    SingleCopy& single_copy() { return single_copy_; }
    QueuePairTable& queue_pairs() { return queue_pairs_; }
    SrqTable& srqs() { return srqs_; }
    PeerTable& peers() { return peers_; }
    const Clock& clock() const { return clock_; }
    Nanoseconds now() const { return clock_.now(); }

    // Text for a person: why the last call of peers().open(), or the last request for memory
    // of the segment, failed.
    const std::string& last_error_text() const { return last_error_text_; }
    // Records for last_error_text() that the segment had no memory.
    void note_no_memory() { last_error_text_ = segment_->last_error_text(); }
    // Calls qp->progress() in each poll until it returns false.
    void activate(LocalQueuePair* qp);
    // The queue pair ends.
    void deactivate(LocalQueuePair* qp) { std::erase(active_, qp); }

    // Zero while no queue pair is broken and all rails, this process's and those of mapped peers,
    // are active and not slowed: own rails as of the last poll, peers' rails as of the last round
    // or look for events.
    const std::atomic<std::uint64_t>& faults() const { return watch_.faults; }
    // Counts broken queue pairs: those that were ready to send and then had an error. While one
    // exists, faults() is nonzero. A lost peer leaves such queue pairs, so from then on sends to
    // other peers check more.
    void count_broken(int more) {
        broken_ += more;
        ADAPTIB_INVARIANT(broken_ >= 0, "no more queue pairs are mended than were broken", broken_,
                          more);
        if (more > 0) {
            watch_.faults.store(1, std::memory_order_relaxed);
        }
    }
    const PollHint& poll_hint() const { return watch_.poll_hint; }
    // A completion was queued; `count` completions were taken.
    void completion_queued() {
        ++completions_;
        watch_.poll_hint.busy = true;
    }
    void completions_taken(std::size_t count) {
        ADAPTIB_INVARIANT(count <= completions_, "completions that are taken were queued", count,
                          completions_);
        completions_ -= count;
    }

    void raise(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
               SharedReceiveQueue* srq = nullptr);
    bool next_event(Event& out);
    void progress();

    // Sends a record to a peer as soon as the peer's queue has room.
    void owe(std::shared_ptr<PeerSegment> peer, const RecordFields& fields);
    // Three ways of waiting until no peer is in the middle of touching this process's memory
    // (initiator_fence.h): for a queue pair, for memory of the user, for a block of the segment.
    void fence_queue_pair() { fence_.wait_a_while(busy_initiators()); }
    void fence_user_memory() { fence_.wait(busy_initiators()); }
    void release_block(Bytes offset) { fence_.release(*segment_, offset, busy_initiators()); }
    // Tells the initiator of a copy-pipeline request that nothing was done.
    void turn_away(const RecordView& record);

private:
    bool dispatch(const RecordView& record);
    std::vector<BusyInitiator> busy_initiators() const;
    void progress_active();
    void pay();
    void look_after();
    void look_at_peers_rails();
    void watch();

    struct alignas(kCacheLine) Watch {
        std::atomic<std::uint64_t> faults{0};
        PollHint poll_hint;
    };
    Watch watch_;
    std::unique_ptr<OwnSegment> segment_;
    const Clock& clock_;
    OwnRails rails_;
    Consumer consumer_;
    RegionTable regions_;
    BouncePool bounce_;
    Counters counters_;
    std::uint32_t polls_ = 0;
    std::uint64_t peers_faults_ = 0; // OR of their rail words, as of the last look
    int broken_ = 0;                 // broken queue pairs
    std::size_t completions_ = 0;    // in all completion queues
    SingleCopy single_copy_;

    std::vector<LocalQueuePair*> active_;
    struct Debt {
        std::shared_ptr<PeerSegment> peer;
        RecordFields fields;
    };
    std::vector<Debt> owed_;
    std::string last_error_text_;
    InitiatorFence fence_;
    QueuePairTable queue_pairs_;
    SrqTable srqs_;
    PeerTable peers_;
    std::deque<Event> events_;
};

} // namespace adaptib::shm
