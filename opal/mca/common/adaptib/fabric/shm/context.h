// SPDX-License-Identifier: BSD-3-Clause
// Context: what the objects of one shm fabric share, and the engine that moves their work.
//
// Purpose: the segment, the peers, the tables of queue pairs and regions, events, and progress(), which
// every poll of a completion queue calls. Order in progress(): what peers sent us, then our own requests
// that had to wait, then, every kPollsPerRound polls, what is rare (dead producers, dead peers).
// Ownership: owned by the fabric; all other objects refer to it.
// Threads: one at a time, with the whole fabric.
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
    std::uint64_t dropped_target = 0;  // records for no queue pair, or one that does not take them
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
    Nanoseconds now() const { return clock_.now(); }

    // The peer that a path leads to, mapped now if it was not; `rail` is the one named there.
    Status peer(const RailAddress& address, std::shared_ptr<PeerSegment>& out, std::uint32_t& rail);
    // Why the last call of peer(), or the last wish for memory of the segment, came to nothing, for
    // a person.
    const std::string& trouble_text() const { return trouble_text_; }
    // There was no memory in the segment.
    void note_no_memory() { trouble_text_ = segment_->trouble(); }
    // Tells the process at that address, which sends to this one, that it will never be answered.
    void refuse(const RailAddress& address, Reason why);

    // Queue pairs: an index of the table, their number, and back.
    Status add_qp(LocalQueuePair* qp, std::uint32_t& number);
    void remove_qp(LocalQueuePair* qp);
    LocalQueuePair* find_qp(std::uint32_t number) const;
    Status add_srq(std::uint32_t& index);
    void remove_srq(std::uint32_t index);

    // `qp` has something that waits for progress, until its progress() returns false.
    void activate(LocalQueuePair* qp);

    std::uint64_t rail_word(std::uint32_t rail) const {
        return own_rails_[rail].word.load(std::memory_order_acquire);
    }
    const std::atomic<std::uint64_t>& rail_word_of(std::uint32_t rail) const {
        return own_rails_[rail].word;
    }
    // Zero while all rails, ours and the peers' that are mapped, are active and not slowed, as of the last poll; the
    // peers', of the last round or look for events.
    const std::atomic<std::uint64_t>& trouble() const { return watch_.trouble; }
    // Queue pairs that were ready to send and have had an error: until the last is gone that is trouble, too. A peer
    // that is lost leaves such ones, so sends to others look at more from then on.
    void count_broken(int more) {
        broken_ += more;
        if (more > 0) {
            watch_.trouble.store(1, std::memory_order_relaxed);
        }
    }
    const Bell& bell() const { return watch_.bell; }
    // A completion was queued, so many were taken.
    void completion_queued() {
        ++completions_;
        watch_.bell.busy = true;
    }
    void completions_taken(std::size_t count) { completions_ -= count; }

    // The time at which `bytes` more have left a slowed rail; 0 for one that is not slowed.
    Nanoseconds pace(std::uint32_t rail, std::uint64_t peer_word, Bytes bytes);

    void raise(EventKind kind, std::uint32_t rail, std::uint32_t qp_number,
               SharedReceiveQueue* srq = nullptr);
    bool next_event(Event& out);
    void progress();

    bool single_copy() const { return single_copy_; }
    // The system forbids cross-memory attach with this peer (null: at all).
    void forbid_single_copy(PeerSegment* peer, const std::string& why);
    void choose_pipeline() { single_copy_ = false; }

    // To be said to a peer as soon as its queue has room.
    void owe(std::shared_ptr<PeerSegment> peer, const RecordFields& fields);
    // Waits, within kFenceLimit, until no peer is in the middle of touching this process's memory.
    void wait_for_initiators();
    // Cookie of the process that wrote a record; 0 when there is none.
    std::uint64_t producer_cookie(std::uint32_t slot) const;
    PeerSegment* known_peer(std::uint64_t cookie) const;

    // This process's name in the lock of a target's atomics.
    static std::uint64_t lock_name(PeerSegment& target);
    // Frees the lock of the segment's atomics if its holder has ended. Reads /proc.
    static void break_dead_lock(std::byte* base);
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
        std::atomic<std::uint64_t> trouble{0};
        Bell bell;
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
    std::uint64_t peers_trouble_ = 0; // their rails' words, as last looked at
    int broken_ = 0;                  // queue pairs
    std::size_t completions_ = 0;     // in all completion queues
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
    std::string trouble_text_;
    Obstacle obstacle_;                 // that peer() met last ...
    std::uint64_t obstacle_cookie_ = 0; // ... with that peer
    std::uint64_t looked_at_ = 0;
    Nanoseconds next_look_{0};
    std::vector<Nanoseconds> rail_free_at_;
    std::vector<bool> rail_was_down_;
    std::deque<Event> events_;
};

} // namespace adaptib::shm
