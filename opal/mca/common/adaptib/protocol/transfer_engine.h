// SPDX-License-Identifier: BSD-3-Clause
// TransferEngine: plans transfers, posts their stripes, and sees them complete.
//
// Purpose: a transfer is planned once its peer is connected, by the peer's scheduler, and posted as
// far as there is room. One that finds no room, or no connection, waits (peer/waiting.h) and is
// posted by post_waiting(). Completions of its stripes are timed for the scheduler, and the last
// one ends it (TransferOwner::on_rma_done). If the keys of the target's memory mean nothing any
// more, the target is asked for those that it has. What happens to the stripes of a transfer is in
// transfer.cc, all else in transfer_engine.cc.
//
// Invariants
//   1. A started transfer has stripes under way, or waits in one list, or both, until it ends; or
//      nothing of it is under way, and the target is asked for its keys.
//   2. A transfer ends once: on_rma_done() may destroy it, so the engine does not touch it then.
// Ownership: the transfers are their owner's; a transfer lives until it ends. Peers refer to those
// that wait or have stripes under way.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, memory/, schedule/, peer/, stats/, region_keys.h, send_flow.h,
// transfer.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/id_table.h"
#include "base/intrusive_list.h"
#include "base/stripe.h"
#include "base/wire.h"
#include "fabric/fabric.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
#include "protocol/region_keys.h"
#include "protocol/send_flow.h"
#include "protocol/transfer.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

class TransferEngine final {
public:
    struct Options {
        const Clock* clock = nullptr;    // times stripes
        Nanoseconds interleave{0};       // length of a put/get window in time; 0: no balance
        std::size_t max_outstanding = 0; // of all peers; their completions have to fit a CQ
    };

    // `flow`: used by calls only: need not be constructed yet. `events`: of what peers want.
    TransferEngine(const Options& options, RailList rails, SendFlow& flow, PeerEvents& events,
                   Counters& counters, const MessageFunction& message)
        : options_(options), rails_(rails), flow_(flow), events_(events), counters_(counters),
          region_keys_(rails, counters, message) {}

    // Starts a transfer of a message. It may end within the call, and be gone.
    void start_transfer(Transfer& transfer);
    // Same for a put, get or atomic, which is held during a disconnect.
    void start_operation(Transfer& transfer);
    // Asks the target for the keys of the transfer's memory, and starts it again with the answer.
    // If the target has no such memory, the transfer ends as refused. REQUIRES: nothing of it is
    // under way.
    void ask_for_keys(Transfer& transfer);
    void on_region_keys(Peer& peer, const RegionKeysBody& body);
    std::size_t asking() const { return asking_.size(); }
    // Calls f for the peer of each transfer that waits for an answer.
    template <typename F> void for_each_asked(F&& f) const {
        asking_.for_each([&](const Transfer* transfer) { f(transfer->peer); });
    }
    RegionKeys& region_keys() { return region_keys_; }
    // Posts transfers for which there is room now.
    void post_waiting();
    // Starts the operations that were held: the disconnect is over, or revoked.
    void start_held(Peer& peer);
    // Fails what waits. Stripes under way end their transfers as they complete. REQUIRES: the peer
    // has failed.
    void fail_waiting(Peer& peer);
    // Fails what waits for the peer's answer.
    void fail_asking(const Peer& peer);
    // The peer's stripes under way will not complete.
    void abandon(Peer& peer);
    // Takes a transfer back that waits, to go another way.
    void stop_waiting(Transfer& transfer);
    // Ends the put/get balance's holding of transfers: the connection is gone, or about to go.
    void stop_balancing(Peer& peer);
    // A stripe is complete. The transfer may be gone afterwards.
    void on_work_done(Transfer& transfer, std::uint32_t rail, const WorkCompletion& completion);
    // The core has just polled for completions.
    void on_polled() {
        if (striped_ > 0) [[unlikely]] {
            polled_ = options_.clock->now();
        }
    }
    // Counts work of others, whose completions, too, take room in the CQs, and are polled for.
    bool takes_more() const { return outstanding_ < options_.max_outstanding; }
    void on_other_posted() { ++outstanding_; }
    void on_other_done() { --outstanding_; }
    std::uint8_t key_epoch() const { return key_epoch_of(rails_); } // of this process
    // Returns true while completions of stripes, or of others' work, are outstanding.
    bool work_outstanding() const { return outstanding_ > 0; }
    // Returns true if transfers wait for room, or for a connection.
    bool any_waits() const { return !waiting_peers_.empty(); }

private:
    enum class Place : std::uint8_t { first, last };
    static constexpr std::uint32_t kNoSubchannel = ~0u;
    void wait_in(Transfer& transfer, std::size_t list, Place place);
    void wait_to_post(Transfer& transfer);
    void leave_waiting(Peer& peer);
    static bool all_blocked(const Peer& peer);
    bool must_wait(const Peer& peer) const;
    bool may_post(const Peer& peer, std::size_t most) const;
    void post_waiting(Peer& peer, std::size_t most);
    void post_behind(Peer& peer, std::uint32_t subchannel, std::size_t most);
    void post_in_order(Peer& peer, std::size_t most);
    bool post_first(Peer& peer, std::size_t list, std::uint32_t offered);

    // transfer.cc
    // Returns false if the transfer waits for room, or for the connection. `offered`: the
    // subchannel behind which it was the first that waited.
    bool post_stripes(Transfer& transfer, std::uint32_t offered = kNoSubchannel);
    bool plan_if_needed(Transfer& transfer);
    void count_posted(Transfer& transfer, Nanoseconds begun);
    static bool may_repeat(const Transfer& transfer, WorkStatus status);
    void plan_left(Transfer& transfer);
    static void interrupt_plan(Transfer& transfer);
    void plan(Transfer& transfer);
    bool plan_more(Transfer& transfer);
    Status post_stripe(Transfer& transfer);
    void take_time(Transfer& transfer, std::size_t stripe, WorkStatus status);
    void learn_from(Transfer& transfer, std::size_t stripe);
    void on_stripe_done(Transfer& transfer, std::uint32_t rail, const WorkCompletion& completion);
    void abandon(Transfer& transfer);

    Bytes put_get_window(const Peer& peer) const;
    void look_for_both(const Transfer& transfer);
    bool is_full(const Transfer& transfer) const;
    bool queue_if_full(Transfer& transfer);
    void release_queued(Peer& peer);

    const Options options_;
    const RailList rails_;
    SendFlow& flow_;
    PeerEvents& events_;
    Counters& counters_;
    RegionKeys region_keys_;
    IdTable<Transfer> asking_;                      // wait for an answer: RegionKeysBody
    std::vector<SubchannelStats> subchannel_stats_; // scratch of plan
    std::vector<StripeTime> times_;                 // scratch of learn_from
    // Fields that each pass reads, next to each other.
    Nanoseconds polled_{};        // time of the last poll for completions, kept while striped_ > 0
    std::size_t striped_ = 0;     // timed stripes outstanding
    std::size_t outstanding_ = 0; // stripes, and work of others
    IntrusiveList<Peer, &Peer::transfers, &PeerTransfers::link>
        waiting_peers_; // with waiting transfers
};

} // namespace adaptib
