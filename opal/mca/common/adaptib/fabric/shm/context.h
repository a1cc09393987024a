// SPDX-License-Identifier: BSD-3-Clause
// Context: what the objects of one shm fabric share, and their progress engine.
//
// Purpose: the segment, the peers, the tables of queue pairs and regions, events, and progress(),
// which every poll of a completion queue calls. Order in progress(): records that peers sent, then
// own requests that had to wait, then records owed to peers, then, every kPollsPerRound polls, rare
// work (dead producers, memory for the queue, dead peers, the peers' rails).
// Ownership: owned by the fabric; all other objects refer to it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/units.h"
#include "fabric/fabric.h"
#include "fabric/shm/bounce.h"
#include "fabric/shm/queue.h"
#include "fabric/shm/regions.h"
#include "fabric/shm/segment.h"

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
    const Clock& clock() const { return clock_; }
    Nanoseconds now() const { return clock_.now(); }

    // Finds the peer that a path leads to, and maps its segment if it is not mapped yet; `rail` is
    // the rail named in the address.
    Status peer(const RailAddress& address, std::shared_ptr<PeerSegment>& out, std::uint32_t& rail);
    // Text for a person: why the last call of peer(), or the last request for memory of the
    // segment, failed.
    const std::string& last_error_text() const { return last_error_text_; }
    // Records for last_error_text() that the segment had no memory.
    void note_no_memory() { last_error_text_ = segment_->last_error_text(); }
    // Tells the process at that address, which sends to this one, that this process never replies
    // to it.
    void refuse(const RailAddress& address, Reason why);

    // Queue pairs: an entry of the table, its number, and the way back from the number.
    Status add_qp(LocalQueuePair* qp, std::uint32_t& number);
    void remove_qp(LocalQueuePair* qp);
    LocalQueuePair* find_qp(std::uint32_t number) const;
    Status add_srq(std::uint32_t& index);
    void remove_srq(std::uint32_t index);

    // Calls qp->progress() in each poll until it returns false.
    void activate(LocalQueuePair* qp);

    std::uint64_t rail_word(std::uint32_t rail) const {
        return own_rails_[rail].word.load(std::memory_order_acquire);
    }
    const std::atomic<std::uint64_t>& rail_word_of(std::uint32_t rail) const {
        return own_rails_[rail].word;
    }
    // Zero while no queue pair is broken and all rails, this process's and those of mapped peers,
    // are active and not slowed: own rails as of the last poll, peers' rails as of the last round
    // or look for events.
    const std::atomic<std::uint64_t>& faults() const { return watch_.faults; }
    // Counts broken queue pairs: those that were ready to send and then had an error. While one
    // exists, faults() is nonzero. A lost peer leaves such queue pairs, so from then on sends to
    // other peers check more.
    void count_broken(int more) {
        broken_ += more;
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
    void completions_taken(std::size_t count) { completions_ -= count; }

    // Reserves a slowed rail for `bytes` more and returns the time at which they have left it; 0 if
    // no rail is slowed.
    Nanoseconds pace(std::uint32_t rail, std::uint64_t peer_word, Bytes bytes);

    void raise(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
               SharedReceiveQueue* srq = nullptr);
    bool next_event(Event& out);
    void progress();

    bool single_copy() const { return single_copy_; }
    // Turns cross-memory attach off: the system forbids it with this peer (null: with any process).
    void forbid_single_copy(PeerSegment* peer, const std::string& why);
    void choose_pipeline() { single_copy_ = false; }

    // Sends a record to a peer as soon as the peer's queue has room.
    void owe(std::shared_ptr<PeerSegment> peer, const RecordFields& fields);
    // Waits, at most kFenceLimit, until no peer is touching this process's memory.
    void wait_for_initiators();
    // Cookie of the process that wrote a record; 0 if there is none.
    std::uint64_t producer_cookie(std::uint32_t slot) const;
    PeerSegment* known_peer(std::uint64_t cookie) const;

    // Tells the initiator of a copy-pipeline request that nothing was done.
    void turn_away(const RecordView& record);

private:
    bool dispatch(const RecordView& record);
    void progress_active();
    void pay();
    void look_after();
    void look_at_rails();
    void look_at_peers_rails();
    void watch();

    struct alignas(kCacheLine) Watch {
        std::atomic<std::uint64_t> faults{0};
        PollHint poll_hint;
    };
    Watch watch_;
    std::unique_ptr<OwnSegment> segment_;
    const Clock& clock_;
    std::uint32_t rail_count_;
    std::vector<std::string>& notices_;
    RailEntry* own_rails_;
    Consumer consumer_;
    RegionTable regions_;
    BouncePool bounce_;
    Counters counters_;
    std::uint32_t polls_ = 0;
    std::uint64_t peers_faults_ = 0; // OR of their rail words, as of the last look
    int broken_ = 0;                 // broken queue pairs
    std::size_t completions_ = 0;    // in all completion queues
    bool single_copy_ = true;
    bool single_copy_noticed_ = false;

    std::vector<LocalQueuePair*> active_;
    struct Debt {
        std::shared_ptr<PeerSegment> peer;
        RecordFields fields;
    };
    std::vector<Debt> owed_;
    std::vector<LocalQueuePair*> queue_pairs_; // by index
    std::vector<std::uint32_t> qp_generation_; // by index
    std::deque<std::uint32_t> free_qps_;
    std::vector<std::uint32_t> free_srqs_;
    std::uint32_t srqs_ = 0;
    std::map<std::uint64_t, std::weak_ptr<PeerSegment>> peers_; // by cookie
    std::string last_error_text_;
    Obstacle obstacle_;                 // that peer() met last
    std::uint64_t obstacle_cookie_ = 0; // peer with which it met obstacle_
    std::uint64_t looked_at_ = 0;
    Nanoseconds next_look_{0};
    std::vector<Nanoseconds> rail_free_at_;
    std::vector<bool> rail_was_down_;
    std::deque<Event> events_;
};

} // namespace adaptib::shm
