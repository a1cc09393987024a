// SPDX-License-Identifier: BSD-3-Clause
// Stripes of a transfer: planned once the peer is connected, posted as far as there is room, and
// counted as they complete.
#include <algorithm>
#include <cmath>

#include "peer/views.h"
#include "protocol/protocol.h"

namespace adaptib {

static_assert(kPathWeights.size() >= kMaxSubchannels);

void Protocol::plan_move(Mover& mover) {
    Peer& peer = mover.peer;
    view_subchannels(peer, rails_, views_);
    Move& move = mover.move;
    move.connection = peer.connection;
    if (!move.left.empty()) [[unlikely]] {
        plan_left(mover);
        return;
    }
    TransferView transfer{move.length, move.marker, move.direction()};
    if (!move.planned()) {
        const Interleaving* const lanes = peer.interleaving.get();
        const Bytes most = lanes == nullptr ? move.length : lanes->round();
        move.round = peer.scheduler->round(transfer, views_, most);
    }
    const Bytes left = move.length - move.covered;
    transfer.length = left < 2 * move.round ? left : move.round;
    const std::size_t first = move.plan.size();
    peer.scheduler->plan(transfer, views_, move.plan);
    for (std::size_t i = first; i < move.plan.size() && move.covered > 0; ++i) {
        move.plan[i].offset += move.covered;
    }
    move.covered += transfer.length;
    if (move.covered < move.length || peer.scheduler->wants_times(move.plan.size())) {
        move.progress.resize(move.plan.size(),
                             {.round = move.rounds, .mix = peer.scheduler->mix()});
    }
    ++move.rounds;
}

// Plans what an interrupted plan has left, as one round. REQUIRES: views_ is up to date.
void Protocol::plan_left(Mover& mover) {
    Move& move = mover.move;
    for (const Stripe& piece : move.left) {
        const std::size_t first = move.plan.size();
        const TransferView transfer{piece.length, move.marker, move.direction()};
        mover.peer.scheduler->plan(transfer, views_, move.plan);
        for (std::size_t i = first; i < move.plan.size(); ++i) {
            move.plan[i].offset += piece.offset;
        }
    }
    move.left.clear();
    move.progress.resize(move.plan.size(),
                         {.round = move.rounds, .mix = mover.peer.scheduler->mix()});
    ++move.rounds;
}

// Returns true if the path failed, not the operation, and the transfer can be repeated. An atomic
// cannot be repeated, since it may have been executed.
bool Protocol::may_repeat(const Mover& mover, WorkStatus status) const {
    const Opcode opcode = mover.move.opcode;
    return mover.peer.repairable && is_path_failure(status) &&
           (opcode == Opcode::read || opcode == Opcode::write);
}

// Drops the plan; what is left of it is planned again for the next connection. REQUIRES: nothing is
// outstanding.
void Protocol::interrupt_plan(Mover& mover) {
    Move& move = mover.move;
    for (; move.posted < move.plan.size(); ++move.posted) {
        move.left.push_back(move.plan[move.posted]);
    }
    move.plan.clear();
    move.progress.clear();
    move.oldest = move.posted = 0;
}

// Plans the next round if it is due: a long transfer is planned in rounds, of which two are under
// way. Returns false if nothing was planned. REQUIRES: all that is planned is posted.
bool Protocol::plan_more(Mover& mover) {
    Move& move = mover.move;
    if (move.covered == move.length || move.outstanding_bytes > move.round) {
        return false;
    }
    plan_move(mover);
    return true;
}

// Ends the transfer (its mover may be gone afterwards) if it has nothing outstanding and cannot
// continue.
bool Protocol::post_stripes(Mover& mover, std::uint32_t offered) {
    Move& move = mover.move;
    Peer& peer = mover.peer; // the mover may be gone when it waits
    const ConnectState state = peer.state;
    if (state == ConnectState::failed) {
        move.failed = true;
    } else if (state != ConnectState::open || peer.repair.wanted ||
               (peer.yields && move.one_sided)) {
        if (move.posted_all()) {
            return true; // outstanding stripes end it, or are posted again
        }
        // Requesting a connection may fail the peer at once, and with it every waiting transfer: so
        // this one waits first.
        wait_to_post(mover);
        connections_.request(peer);
        return false;
    } else {
        if (move.planned() && move.connection != mover.peer.connection) [[unlikely]] {
            interrupt_plan(mover); // the connection was repaired before all was posted
        }
        if (!move.planned()) {
            if (mover.peer.interleaving != nullptr && hold_if_full(mover)) {
                return true;
            }
            if (find_keys(mover)) {
                plan_move(mover);
            }
        }
    }
    // One start time for all stripes posted here: a stripe posted late, since posting the others
    // takes time, also ends late.
    Nanoseconds begun{0};
    while (!move.failed && (move.posted < move.plan.size() || plan_more(mover))) {
        if (outstanding_ >= options_.max_outstanding) {
            wait_to_post(mover);
            return false;
        }
        if (mover.peer.interleaving != nullptr && hold_if_full(mover)) {
            return true;
        }
        const std::uint32_t subchannel = move.plan[move.posted].subchannel;
        if (mover.peer.waiting != nullptr && subchannel != offered &&
            mover.peer.waiting->is_blocked(subchannel)) [[unlikely]] {
            wait_in(mover, subchannel, move.posted > 0 ? Place::first : Place::last);
            return false;
        }
        if (begun.count() == 0 && !move.progress.empty()) {
            begun = options_.clock->now();
        }
        const Status status = post_stripe(mover, move.plan[move.posted]);
        if (status.is_again()) {
            wait_in(mover, subchannel, Place::first);
            return false;
        }
        if (status.reason() == Reason::bad_state && mover.peer.repairable) {
            wait_to_post(mover);
            connections_.repair(peer);
            return false;
        }
        if (status.is_error()) {
            move.failed = true;
            break;
        }
        if (!move.progress.empty()) {
            const Stripe& stripe = move.plan[move.posted];
            const auto direction = static_cast<std::size_t>(move.direction());
            Subchannel& on = mover.peer.subchannels[stripe.subchannel];
            StripeProgress& progress = move.progress[move.posted];
            if (on.timed[direction].bytes == 0) {
                on.timed[direction].since = begun;
                on.timed[direction].late = Nanoseconds{0};
            }
            progress.posted = begun;
            progress.before = on.timed[direction];
            progress.ahead = on.outstanding[direction] - stripe.length;
            on.timed[direction].bytes += stripe.length;
            ++striped_;
        }
        if (mover.peer.interleaving != nullptr) {
            mover.peer.interleaving->posted(move.direction(), move.plan[move.posted].length);
        }
        move.outstanding_bytes += move.plan[move.posted].length;
        ++move.posted;
        if (move.outstanding++ == 0) {
            mover.peer.posted.push_back(mover);
        }
        ++mover.peer.stripes;
        ++outstanding_;
    }
    if (move.done()) {
        mover.on_move_done();
    }
    return true;
}

Status Protocol::post_stripe(Mover& mover, const Stripe& stripe) {
    const Move& move = mover.move;
    Subchannel& subchannel = mover.peer.subchannels[stripe.subchannel];
    if (subchannel.remote_rail >= move.remote_key_count) {
        return Status::error(Reason::bad_key);
    }
    const Gather gather{move.local + stripe.offset, stripe.length,
                        move.registration->local_key(subchannel.local_rail)};
    SendWork work;
    work.wr_id = wr_id_of(&mover);
    work.opcode = move.opcode;
    work.flags = kSignaled;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = move.remote + stripe.offset;
    work.remote_key = move.remote_keys[subchannel.remote_rail];
    work.compare_add = move.compare_add;
    work.swap = move.swap;
    const Status status = subchannel.qp->post_send(work);
    if (status.ok()) {
        count_move(move.opcode, stripe.length);
        subchannel.outstanding[static_cast<std::size_t>(move.direction())] += stripe.length;
        subchannel.reads += move.direction() == Direction::read ? 1 : 0;
    }
    return status;
}

void Mover::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    Protocol& owner = protocol;
    Peer& to = peer;
    owner.on_stripe_done(*this, rail, completion); // this mover may be gone
    if (to.interleaving != nullptr) {
        owner.let_through(to);
    }
}

// Returns the index of the stripe that completes: those of one queue pair complete in order.
// plan.size(): none, the connection is gone.
std::size_t Protocol::stripe_of(const Mover& mover, std::uint32_t rail,
                                std::uint32_t qp_number) const {
    const Move& move = mover.move;
    const auto& subchannels = mover.peer.subchannels;
    for (std::size_t i = move.oldest; i < move.posted; ++i) {
        const std::uint32_t at = move.plan[i].subchannel;
        const bool done = !move.progress.empty() && move.progress[i].done;
        if (!done && at < subchannels.size() && subchannels[at].has(rail, qp_number)) {
            return i;
        }
    }
    return move.plan.size();
}

// Takes the time of a stripe. It is known well if the core had polled for completions shortly
// before, since the stripe may have ended at any time after that poll (Vishnu, 7.1.2, cases 2 and
// 3). The stripe is timed together with the stripes that its path carried before it: the more there
// were, the better the time is known; and the times of all paths are then of the same period, not
// of one in which another path was already idle.
void Protocol::take_time(Mover& mover, std::size_t stripe, WorkStatus status) {
    constexpr int kPrecision = 8;
    const Bytes length = mover.move.plan[stripe].length;
    const auto direction = static_cast<std::size_t>(mover.move.direction());
    StripeProgress& progress = mover.move.progress[stripe];
    Subchannel& subchannel = mover.peer.subchannels[mover.move.plan[stripe].subchannel];
    progress.done = true;
    while (mover.move.oldest < mover.move.posted && mover.move.progress[mover.move.oldest].done) {
        ++mover.move.oldest;
    }
    const Nanoseconds now = options_.clock->now();
    const TimedStripes& before = progress.before;
    const Nanoseconds busy = now - before.since;
    const Nanoseconds late = now - std::max(polled_, progress.posted);
    if (status == WorkStatus::success) {
        const double part =
            static_cast<double>(length) / static_cast<double>(before.bytes + length);
        const auto of_it = [part](Nanoseconds time) {
            return std::chrono::duration_cast<Nanoseconds>(part * time);
        };
        const bool well = late + before.late <= busy / kPrecision;
        progress.taken = well ? of_it(busy) : -of_it(busy + before.late);
    }
    TimedStripes& timed = subchannel.timed[direction];
    timed.bytes -= length;
    timed.since = now;
    timed.late = late;
    const auto opposite = static_cast<std::size_t>(other(mover.move.direction()));
    if (subchannel.outstanding[opposite] > 0) {
        progress.mix = Mix::both; // whatever mix it was planned for
    }
}

// Tells the scheduler the times of a round, once all its stripes are done. (The next round is
// planned when most of the one before is done.)
void Protocol::learn_from(Mover& mover, std::size_t stripe) {
    const Move& move = mover.move;
    const std::uint32_t round = move.progress[stripe].round;
    std::size_t first = stripe;
    while (first > 0 && move.progress[first - 1].round == round) {
        --first;
    }
    // If only an upper bound of a path's time is known, the bound counts among the well-known times
    // if it is less than one of them.
    const Mix mix = move.progress[stripe].mix;
    double slowest = 0; // per byte, of the well-known times
    const auto per_byte = [&move](std::size_t i) {
        const Nanoseconds taken = move.progress[i].taken;
        return std::chrono::duration<double>(taken).count() /
               static_cast<double>(move.plan[i].length);
    };
    for (std::size_t i = first; i < move.progress.size() && move.progress[i].round == round; ++i) {
        slowest = std::max(slowest, per_byte(i));
    }
    times_.clear();
    for (std::size_t i = first; i < move.progress.size() && move.progress[i].round == round; ++i) {
        if (!move.progress[i].done || move.progress[i].mix != mix) { // not comparable
            return;
        }
        const Stripe& each = move.plan[i];
        const double cost = per_byte(i);
        if (cost > 0 || (cost < 0 && -cost < slowest)) {
            times_.push_back({each.subchannel, each.length,
                              std::abs(cost) * static_cast<double>(each.length),
                              move.progress[i].ahead});
        }
    }
    if (mover.peer.scheduler != nullptr && !times_.empty()) {
        Scheduler& scheduler = *mover.peer.scheduler;
        const Spreading before = scheduler.spreading(mix);
        scheduler.learn(mix, times_);
        if (scheduler.home() != mover.peer.home) [[unlikely]] {
            connections_.move_home(mover.peer, scheduler.home());
        }
        const Spreading after = scheduler.spreading(mix);
        counters_.spread_trials += after.trials - before.trials;
        counters_.spread_kept += after.spreads - before.spreads;
        counters_.spread_fallbacks += after.fallbacks - before.fallbacks;
        for (std::uint32_t i = 0; i < mover.peer.subchannels.size(); ++i) {
            counters_.*kPathWeights[i] =
                static_cast<std::uint64_t>(1000 * scheduler.weight(mix, i) + 0.5);
        }
    }
}

void Protocol::on_stripe_done(Mover& mover, std::uint32_t rail, const WorkCompletion& completion) {
    if (mover.peer.abandoned) [[unlikely]] {
        return;
    }
    Move& move = mover.move;
    const bool timed = !move.progress.empty();
    const std::size_t stripe = stripe_of(mover, rail, completion.qp_number);
    if (stripe < move.plan.size()) {
        const Bytes length = move.plan[stripe].length;
        Subchannel& subchannel = mover.peer.subchannels[move.plan[stripe].subchannel];
        subchannel.outstanding[static_cast<std::size_t>(move.direction())] -= length;
        subchannel.reads -= move.direction() == Direction::read ? 1 : 0;
        subchannel.completions += completion.status == WorkStatus::success ? 1 : 0;
        move.outstanding_bytes -= length;
        if (timed) {
            take_time(mover, stripe, completion.status);
        }
    }
    if (timed) {
        --striped_;
    }
    if (--move.outstanding == 0) {
        mover.peer.posted.remove(mover);
    }
    --mover.peer.stripes;
    --outstanding_;
    if (completion.status != WorkStatus::success) [[unlikely]] {
        const bool refused = move.one_sided && !is_path_failure(completion.status);
        mover.peer.work_failed = mover.peer.work_failed || !refused;
        if (stripe < move.plan.size() && may_repeat(mover, completion.status)) {
            ++counters_.stripes_repeated;
            counters_.stripes_repeated_bytes += move.plan[stripe].length;
            move.left.push_back(move.plan[stripe]);
        } else if (refused) {
            if (stripe < move.plan.size()) {
                mover.peer.subchannels[move.plan[stripe].subchannel].refused = true;
            }
            refuse(mover);
        } else {
            move.failed = true;
        }
    }
    if (!move.left.empty() && !move.failed) [[unlikely]] {
        if (move.outstanding == 0) {
            interrupt_plan(mover);
            wait_to_post(mover);
        }
        return;
    }
    if (move.failed) [[unlikely]] {
        stop_waiting(mover);
    } else if (timed && stripe < move.plan.size()) {
        learn_from(mover, stripe);
    }
    if (move.done()) {
        mover.on_move_done();
    } else if (!move.failed && move.posted == move.plan.size() && !mover.waits()) {
        post_stripes(mover); // the next round
    }
}

// Gives up the outstanding stripes. In a plan without times it is not known which stripes are done:
// all are repeated, since a read or write may be done twice.
void Protocol::abandon(Mover& mover) {
    Move& move = mover.move;
    const bool timed = !move.progress.empty();
    striped_ -= timed ? move.outstanding : 0;
    outstanding_ -= move.outstanding;
    mover.peer.stripes -= move.outstanding;
    move.outstanding = 0;
    mover.peer.posted.remove(mover);
    move.outstanding_bytes = 0;
    mover.peer.work_failed = true;
    if (move.failed || !may_repeat(mover, WorkStatus::flushed)) {
        move.failed = true;
        stop_waiting(mover);
        mover.on_move_done();
        return;
    }
    if (!timed) {
        move.left.clear();
    }
    for (std::size_t i = 0; i < move.posted; ++i) {
        if (!timed || !move.progress[i].done) {
            ++counters_.stripes_repeated;
            counters_.stripes_repeated_bytes += move.plan[i].length;
            move.left.push_back(move.plan[i]);
        }
    }
    interrupt_plan(mover);
    wait_to_post(mover);
}

// Begins with the last transfer, since each becomes the first of the line. Nothing is posted
// meanwhile.
void Protocol::abandon(Peer& peer) {
    for (std::size_t left = peer.posted.size(); left > 0 && !peer.posted.empty(); --left) {
        abandon(static_cast<Mover&>(*peer.posted.back()));
    }
    give_up_holding(peer);
}

} // namespace adaptib
