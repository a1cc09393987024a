// SPDX-License-Identifier: BSD-3-Clause
// TransferEngine: plans transfers, posts their stripes, and sees them complete.
//
// Purpose: a transfer is planned once its peer is connected, by the peer's scheduler, and posted as
// far as there is room. One that finds no room, or no connection, waits (peer/waiting.h) and is
// posted by post_waiting(). Completions of its stripes are timed for the scheduler, and the last
// one ends it (Transfer::on_rma_done). One file per event:
//
//     transfer.cc           stripes are planned, posted and complete
//     waiting.cc            transfers without room wait, and are posted when there is some
//     put_get_balance.cc    put/get balance: transfers wait until their direction may go on
//
// Invariants
//   1. A started transfer has stripes under way, or waits in one list, or both, until it ends; or
//      nothing of it is under way, and the target is asked for its keys.
//   2. A transfer ends once: on_rma_done() may destroy it, so the engine does not touch it then.
// Ownership: the transfers are their owner's; a transfer lives until it ends. Peers refer to those
// that wait or have stripes under way.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, memory/, schedule/, peer/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "base/stripe.h"
#include "fabric/fabric.h"
#include "peer/peer.h"
#include "protocol/transfer.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

// Notices and questions of the engine to the owner of the transfers.
class TransferListener {
public:
    // Work waits for a connection, or for a new one.
    virtual void want_connection(Peer& peer) = 0;
    virtual void want_repair(Peer& peer) = 0;
    // The scheduler has chosen another control lane.
    virtual void on_control_lane(Peer& peer, std::uint32_t lane) = 0;

protected:
    ~TransferListener() = default;
};

// Questions of the engine to the owner of the puts, gets and atomics.
class OperationListener {
public:
    // Finds the keys of a put, get or atomic that waited for a connection. Returns false if no
    // region of the target allows it: the transfer is refused then.
    virtual bool find_keys(Transfer& transfer) = 0;
    // The target has no such memory, or denies access: marks the transfer as failed and refused.
    virtual void refuse(Transfer& transfer) = 0;
    // Asks the target for the keys of the transfer's memory, and starts it again with the answer.
    // REQUIRES: nothing of it is under way.
    virtual void ask_for_keys(Transfer& transfer) = 0;
    // Makes a transfer of a shelved record. Null: there is no memory now, the record stays.
    virtual Transfer* unshelve(Peer& peer, WaitingTransfer& shelved) = 0;
    // The peer has failed. REQUIRES: the record waits nowhere any more.
    virtual void fail_shelved(Peer& peer, WaitingTransfer& shelved) = 0;

protected:
    ~OperationListener() = default;
};

class TransferEngine final {
public:
    struct Options {
        const Clock* clock = nullptr;    // times stripes
        Nanoseconds interleave{0};       // length of a put/get window in time; 0: no balance
        std::size_t max_outstanding = 0; // of all peers; their completions have to fit a CQ
    };

    TransferEngine(const Options& options, RailList rails, Counters& counters,
                   TransferListener& listener, OperationListener& operations)
        : options_(options), rails_(rails), counters_(counters), listener_(listener),
          operations_(operations) {}

    // Starts a transfer of a message. It may end within the call, and be gone.
    void start_transfer(Transfer& transfer);
    // Same for a put, get or atomic, which is held during a disconnect.
    void start_operation(Transfer& transfer);
    // Posts transfers for which there is room now.
    void post_waiting();
    // Starts the operations that were held: the disconnect is over, or revoked.
    void start_held(Peer& peer);
    // Fails what waits. Stripes under way end their transfers as they complete. REQUIRES: the peer
    // has failed.
    void fail_waiting(Peer& peer);
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
    // waiting.cc
    enum class Place : std::uint8_t { first, last };
    static constexpr std::uint32_t kNoSubchannel = ~0u;
    void wait_in(Transfer& transfer, std::size_t list, Place place);
    void list_waiting(Peer& peer, WaitingTransfer& transfer, std::size_t list, Place place);
    void wait_to_post(Transfer& transfer);
    void leave_waiting(Peer& peer);
    static bool all_blocked(const Peer& peer);
    bool must_wait(const Peer& peer) const;
    bool may_post(const Peer& peer, std::size_t most) const;
    void post_waiting(Peer& peer, std::size_t most);
    void post_behind(Peer& peer, std::uint32_t subchannel, std::size_t most);
    void post_in_order(Peer& peer, std::size_t most);
    bool post_first(Peer& peer, std::size_t list, std::uint32_t offered);
    Transfer* unshelve(Peer& peer, WaitingTransfer& transfer) {
        return transfer.shelved ? operations_.unshelve(peer, transfer)
                                : static_cast<Transfer*>(&transfer);
    }

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
    bool find_keys(Transfer& transfer);
    void take_time(Transfer& transfer, std::size_t stripe, WorkStatus status);
    void learn_from(Transfer& transfer, std::size_t stripe);
    void on_stripe_done(Transfer& transfer, std::uint32_t rail, const WorkCompletion& completion);
    void abandon(Transfer& transfer);

    // put_get_balance.cc
    Bytes put_get_window(const Peer& peer) const;
    void look_for_both(const Transfer& transfer);
    bool is_full(const Transfer& transfer) const;
    bool queue_if_full(Transfer& transfer);
    void release_queued(Peer& peer);

    const Options options_;
    const RailList rails_;
    Counters& counters_;
    TransferListener& listener_;
    OperationListener& operations_;
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
