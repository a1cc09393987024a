// SPDX-License-Identifier: BSD-3-Clause
// RingPoller: finds messages in the rings of all peers.
//
// Purpose: a ring that had traffic lately is hot: each pass polls it. The others are cold: each
// pass polls one of them in turn, so that idle peers cost little and none is forgotten. The most
// frequent messages, eager and active ones in turn, go from the ring to the protocol through
// inlined code; all others are taken with care.
// Invariants: a ring is in one of the two lists from heat() to remove(). At most one ring defers a
// release.
// Threads: one at a time (the core's lock). Passes are numbered by the core: `tick`.
// May touch: base/, channel/, peer/, protocol/, core/credit_return.h, core/delivery.h, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/spin.h"
#include "channel/ring_layout.h"
#include "channel/ring_reader.h"
#include "core/credit_return.h"
#include "core/delivery.h"
#include "peer/peer.h"
#include "protocol/protocol.h"
#include "stats/counters.h"

namespace adaptib {

class RingPoller {
public:
    struct Options {
        std::uint32_t idle_looks = 0; // Parameters::idle_looks
        // Idle passes at most this far apart (base/spin.h) show that the caller does nothing but
        // wait.
        std::uint64_t tight_ticks = 0;
        const bool* yields = nullptr; // the process yields its CPU when it found nothing; null: no
    };

    RingPoller(const Options& options, Protocol& protocol, Delivery& delivery, CreditReturn& credit,
               Counters& counters)
        : protocol_(protocol), delivery_(delivery), credit_(credit), counters_(counters),
          options_(options) {}

    // ---- A pass

    // Reads all hot rings without a branch, so that lines that other processors have written are
    // loaded at the same time.
    bool hot_rings_are_silent() const {
        bool silent = true;
        for (const HotRing& ring : hot_) {
            silent &= ring.has_nothing();
        }
        return silent;
    }
    // Takes a few messages from each hot ring. Returns their number.
    std::size_t poll_hot_rings(std::uint64_t tick);
    // Polls the next cold ring. REQUIRES: has_cold().
    std::size_t poll_cold_ring(std::uint64_t tick);
    bool has_hot() const { return !hot_.empty(); }
    bool has_cold() const { return !cold_.empty(); }
    // True if a ring defers a release until a pass finds nothing.
    bool is_deferring() const { return deferring_ != nullptr; }
    void release_deferred(); // REQUIRES: is_deferring()
    // Polls the hot rings some more times, at the end of an idle pass of a caller that only waits.
    // From one pass to the next it takes 30 ns, which delays a message that arrives meanwhile. A
    // caller that does something else between two passes (MPI_Test, a flush) is not kept.
    std::size_t look_again(std::uint64_t tick) {
        if (ticks() - idle_ended_ < options_.tight_ticks) [[likely]] {
            for (std::uint32_t left = looks_again_; left > 0; --left) {
                look_once_more();
                if (!hot_rings_are_silent()) {
                    ++counters_.found_idle;
                    return poll_hot_rings(tick);
                }
            }
        }
        idle_ended_ = ticks();
        return 0;
    }
    // Takes one message from each hot ring that has any, to be timed.
    std::size_t take_one_each();

    // ---- The lists

    void heat(Peer& peer, std::uint64_t tick);
    // Moves rings in which nothing has arrived for long to those that are polled in turn, and sets
    // how often look_again() polls.
    void cool(std::uint64_t tick);
    // Forgets the peer's ring, before it is freed.
    void remove(Peer& peer);
    // Takes all that is in the peer's ring. REQUIRES: nothing more will arrive in it.
    void empty(Peer& peer);

    std::size_t hot() const { return hot_.size(); }
    std::size_t cold() const { return cold_.size(); }
    // Number of rings that each pass polls.
    std::size_t polled() const { return hot_.size() + (cold_.empty() ? 0 : 1); }

private:
    // A ring that had traffic lately. An idle pass reads only this record and the ring.
    struct HotRing {
        explicit HotRing(Peer& of) : peer(&of) {}
        bool has_nothing() const { return next != nullptr && load_ring_word(next) == 0; }
        const std::byte* next = nullptr; // where its next message begins; null: poll with care
        Peer* peer;
    };

    std::size_t poll_ring(Peer& peer);
    template <std::uint64_t kKind>
    bool take_short(Peer& peer, RingReader& ring, std::uint64_t head);
    bool poll_with_care(Peer& peer, RingReader& ring);
    bool take_any(Peer& peer, RingReader& ring);
    void answered(Peer& peer, RingReader& ring);
    template <std::uint64_t kKind>
    void release_or_defer(Peer& peer, RingReader& ring, const RingReader::Short& found);
    void on_garbage(Peer& peer);

    std::vector<HotRing> hot_;
    Peer* deferring_ = nullptr;     // its ring defers a release until a pass finds nothing
    std::uint32_t looks_again_ = 0; // extra polls of all of hot_ in a pass that finds nothing
    std::uint64_t idle_ended_ = 0;  // ticks: the end of the last such pass
    std::vector<Peer*> cold_;
    std::size_t next_cold_ = 0;
    Protocol& protocol_;
    Delivery& delivery_;
    CreditReturn& credit_;
    Counters& counters_;
    Options options_;
};

} // namespace adaptib
