// SPDX-License-Identifier: BSD-3-Clause
// Stripes of a transfer: planned once the peer is connected, posted as far as there is room, and
// counted as they complete.
#include "protocol/transfer_engine.h"

#include <algorithm>
#include <cmath>

#include "peer/subchannel_stats.h"
#include "protocol/count_rma.h"
#include "stats/run_history.h"

namespace adaptib {

static_assert(kPathWeights.size() >= kMaxSubchannels);

namespace {

// A stripe is told apart from others by its transfer's address and its own number.
void note_stripe(Trace* trace, TraceKind kind, const Transfer& transfer, std::size_t stripe) {
    if (trace == nullptr) [[likely]] {
        return;
    }
    const Stripe& of = transfer.rma.plan[stripe];
    const Subchannel& over = transfer.peer.lanes.subchannels[of.subchannel];
    trace->note(kind,
                {.peer = transfer.peer.contact.name,
                 .id = reinterpret_cast<std::uintptr_t>(&transfer) ^ std::uint64_t{stripe} << 48u,
                 .value = of.length,
                 .rail = static_cast<std::uint8_t>(over.local_rail)});
}

// Returns the index of the stripe that completes, which its wr_id names modulo kWorkNumbers. If the
// plan is longer than that, it is the first of these that is outstanding on the queue pair, which
// completes in order. plan.size(): none, the connection is gone.
std::size_t stripe_of(const Transfer& transfer, std::uint32_t rail,
                      const WorkCompletion& completion) {
    const TransferPlan& rma = transfer.rma;
    const auto& subchannels = transfer.peer.lanes.subchannels;
    for (std::size_t i = work_number_of(completion.wr_id); i < rma.posted; i += kWorkNumbers) {
        const std::uint32_t at = rma.plan[i].subchannel;
        const bool done = !rma.progress.empty() && rma.progress[i].done;
        if (!done && at < subchannels.size() && subchannels[at].has(rail, completion.qp_number)) {
            return i;
        }
    }
    return rma.plan.size();
}

} // namespace

void TransferEngine::plan(Transfer& transfer) {
    Peer& peer = transfer.peer;
    TransferPlan& rma = transfer.rma;
    rma.connection = peer.connection.number;
    const Scheduler& scheduler = *peer.lanes.scheduler;
    if (rma.covered == 0 && scheduler.takes_control_lane(rma.length, peer.lanes.live_bits())) {
        rma.plan.push_back({scheduler.control_lane(), 0, rma.length});
        rma.covered = rma.length;
        ++rma.rounds;
        return;
    }
    collect_subchannel_stats(peer, rails_, subchannel_stats_);
    if (!rma.remaining.empty()) [[unlikely]] {
        plan_left(transfer);
        return;
    }
    TransferShape shape{rma.length, rma.op_kind, rma.direction()};
    if (!rma.planned()) {
        const PutGetBalance* const balance = peer.transfers.put_get_balance.get();
        const Bytes most = balance == nullptr ? rma.length : balance->round();
        rma.round = peer.lanes.scheduler->round(shape, subchannel_stats_, most);
    }
    const Bytes left = rma.length - rma.covered;
    shape.length = left < 2 * rma.round ? left : rma.round;
    const std::size_t first = rma.plan.size();
    peer.lanes.scheduler->plan(shape, subchannel_stats_, rma.plan);
    for (std::size_t i = first; i < rma.plan.size() && rma.covered > 0; ++i) {
        rma.plan[i].offset += rma.covered;
    }
    rma.covered += shape.length;
    if (rma.covered < rma.length || peer.lanes.scheduler->wants_times(rma.plan.size())) {
        rma.progress.resize(rma.plan.size(),
                            {.round = rma.rounds, .mix = peer.lanes.scheduler->mix()});
    }
    ++rma.rounds;
}

// Plans what an interrupted plan has left, as one round. REQUIRES: subchannel_stats_ is up to date.
void TransferEngine::plan_left(Transfer& transfer) {
    TransferPlan& rma = transfer.rma;
    for (const Stripe& piece : rma.remaining) {
        const std::size_t first = rma.plan.size();
        const TransferShape shape{piece.length, rma.op_kind, rma.direction()};
        transfer.peer.lanes.scheduler->plan(shape, subchannel_stats_, rma.plan);
        for (std::size_t i = first; i < rma.plan.size(); ++i) {
            rma.plan[i].offset += piece.offset;
        }
    }
    rma.remaining.clear();
    rma.progress.resize(rma.plan.size(),
                        {.round = rma.rounds, .mix = transfer.peer.lanes.scheduler->mix()});
    ++rma.rounds;
}

// Returns true if the path failed, not the operation, and the transfer can be repeated. An atomic
// cannot be repeated, since it may have been executed.
bool TransferEngine::may_repeat(const Transfer& transfer, WorkStatus status) {
    const Opcode opcode = transfer.rma.opcode;
    return transfer.peer.session.repairable && is_path_failure(status) &&
           (opcode == Opcode::read || opcode == Opcode::write);
}

// Drops the plan; what is left of it is planned again for the next connection. REQUIRES: nothing is
// outstanding.
void TransferEngine::interrupt_plan(Transfer& transfer) {
    TransferPlan& rma = transfer.rma;
    for (; rma.posted < rma.plan.size(); ++rma.posted) {
        rma.remaining.push_back(rma.plan[rma.posted]);
    }
    rma.plan.clear();
    rma.progress.clear();
    rma.posted = 0;
}

// Plans the next round if it is due: a long transfer is planned in rounds, of which two are under
// way. Returns false if nothing was planned. REQUIRES: all that is planned is posted.
bool TransferEngine::plan_more(Transfer& transfer) {
    TransferPlan& rma = transfer.rma;
    if (rma.covered == rma.length || rma.outstanding_bytes > rma.round) {
        return false;
    }
    plan(transfer);
    return true;
}

// Notes that the next stripe of the plan is posted. `begun`: the start time of its batch.
void TransferEngine::count_posted(Transfer& transfer, Nanoseconds begun) {
    TransferPlan& rma = transfer.rma;
    if (!rma.progress.empty()) {
        const Stripe& stripe = rma.plan[rma.posted];
        const auto direction = static_cast<std::size_t>(rma.direction());
        Subchannel& on = transfer.peer.lanes.subchannels[stripe.subchannel];
        StripeProgress& progress = rma.progress[rma.posted];
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
    if (transfer.peer.transfers.put_get_balance != nullptr) {
        transfer.peer.transfers.put_get_balance->posted(rma.direction(),
                                                        rma.plan[rma.posted].length);
    }
    note_stripe(counters_.trace, TraceKind::stripe, transfer, rma.posted);
    rma.outstanding_bytes += rma.plan[rma.posted].length;
    ++rma.posted;
    if (rma.outstanding++ == 0) {
        transfer.peer.transfers.posted.push_back(transfer);
    }
    ++transfer.peer.transfers.stripes;
    ++outstanding_;
}

// Returns false if the put/get balance holds the transfer, or the target is asked for its keys: a
// device that was lost has come back there, and those that it had mean nothing.
bool TransferEngine::plan_if_needed(Transfer& transfer) {
    const TransferPlan& rma = transfer.rma;
    if (rma.planned() && rma.connection != transfer.peer.connection.number) [[unlikely]] {
        interrupt_plan(transfer); // the connection was repaired before all was posted
    }
    if (rma.planned()) {
        return true;
    }
    if (transfer.peer.transfers.put_get_balance != nullptr && queue_if_full(transfer)) {
        return false;
    }
    if (epoch_before(rma.keys.epoch, transfer.peer.connection.key_epoch)) [[unlikely]] {
        ask_for_keys(transfer);
        return false;
    }
    if (region_keys_.find(transfer.peer, transfer.rma)) {
        plan(transfer);
    }
    return true;
}

// Posts stripes while there is room. Completes the transfer, which may be gone afterwards, if
// nothing is outstanding and it cannot continue. Returns false if it waits for room or the
// connection; then those behind it wait, too. (If the put/get balance holds it, they do not.)
bool TransferEngine::post_stripes(Transfer& transfer, std::uint32_t offered) {
    TransferPlan& rma = transfer.rma;
    Peer& peer = transfer.peer; // the transfer may be gone when it waits
    if (peer.session.lost()) {
        rma.failed = true;
    } else if (!peer.session.is_open() || peer.interruption.repair.wanted ||
               (peer.transfers.yields && rma.one_sided)) {
        if (rma.posted_all()) {
            return true; // outstanding stripes end it, or are posted again
        }
        wait_to_post(transfer);
        events_.want_connection(peer);
        return false;
    } else if (!plan_if_needed(transfer)) {
        return true;
    }
    // One start time for all stripes posted here: a stripe posted late, since posting the others
    // takes time, also ends late.
    Nanoseconds begun{0};
    while (!rma.failed && (rma.posted < rma.plan.size() || plan_more(transfer))) {
        if (outstanding_ >= options_.max_outstanding) {
            wait_to_post(transfer);
            return false;
        }
        if (transfer.peer.transfers.put_get_balance != nullptr && queue_if_full(transfer)) {
            return true;
        }
        const std::uint32_t subchannel = rma.plan[rma.posted].subchannel;
        if (transfer.peer.transfers.waiting != nullptr && subchannel != offered &&
            transfer.peer.transfers.waiting->is_blocked(subchannel)) [[unlikely]] {
            wait_in(transfer, subchannel, rma.posted > 0 ? Place::first : Place::last);
            return false;
        }
        if (begun.count() == 0 && !rma.progress.empty()) {
            begun = options_.clock->now();
        }
        const Status status = post_stripe(transfer);
        if (status.is_again()) {
            wait_in(transfer, subchannel, Place::first);
            return false;
        }
        if (status.reason() == Reason::bad_state && transfer.peer.session.repairable) {
            wait_to_post(transfer);
            events_.report(peer, PeerEvent::want_repair);
            return false;
        }
        if (status.is_error()) {
            rma.failed = true;
            break;
        }
        count_posted(transfer, begun);
    }
    if (rma.done()) {
        transfer.owner.on_rma_done(transfer);
    }
    return true;
}

// Posts the next stripe of the plan.
Status TransferEngine::post_stripe(Transfer& transfer) {
    const TransferPlan& rma = transfer.rma;
    const Stripe& stripe = rma.plan[rma.posted];
    Subchannel& subchannel = transfer.peer.lanes.subchannels[stripe.subchannel];
    if (subchannel.remote_rail >= rma.remote_key_count) {
        return Status::error(Reason::bad_key);
    }
    const Gather gather{rma.local + stripe.offset, stripe.length,
                        rma.registration->local_key(subchannel.local_rail)};
    SendWork work;
    work.wr_id = wr_id_of(&transfer, rma.posted);
    work.opcode = rma.opcode;
    work.flags = kSignaled | (rma.opcode <= Opcode::read ? +kMayFault : 0u);
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = rma.remote + stripe.offset;
    work.remote_key = rma.remote_keys[subchannel.remote_rail];
    work.compare_add = rma.compare_add;
    work.swap = rma.swap;
    const Status status = subchannel.qp->post_send(work);
    if (status.ok()) {
        count_rma(counters_, transfer.peer, rma.opcode, stripe.length, subchannel.local_rail);
        if (counters_.history != nullptr) [[unlikely]] {
            counters_.history->add_path_bytes(stripe.subchannel, stripe.length);
        }
        subchannel.outstanding[static_cast<std::size_t>(rma.direction())] += stripe.length;
        subchannel.reads += rma.direction() == Direction::read ? 1 : 0;
    }
    return status;
}

void Transfer::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    engine.on_work_done(*this, rail, completion);
}

void TransferEngine::on_work_done(Transfer& transfer, std::uint32_t rail,
                                  const WorkCompletion& completion) {
    Peer& peer = transfer.peer;
    on_stripe_done(transfer, rail, completion); // the transfer may be gone
    if (peer.transfers.put_get_balance != nullptr) {
        release_queued(peer);
    }
}

// Takes the time of a stripe. It is known well if the core had polled for completions shortly
// before, since the stripe may have ended at any time after that poll (Vishnu, 7.1.2, cases 2 and
// 3). The stripe is timed together with the stripes that its path carried before it: the more there
// were, the better the time is known; and the times of all paths are then of the same period, not
// of one in which another path was already idle.
void TransferEngine::take_time(Transfer& transfer, std::size_t stripe, WorkStatus status) {
    constexpr int kPrecision = 8;
    const Bytes length = transfer.rma.plan[stripe].length;
    const auto direction = static_cast<std::size_t>(transfer.rma.direction());
    StripeProgress& progress = transfer.rma.progress[stripe];
    Subchannel& subchannel = transfer.peer.lanes.subchannels[transfer.rma.plan[stripe].subchannel];
    progress.done = true;
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
    const auto opposite = static_cast<std::size_t>(other(transfer.rma.direction()));
    if (subchannel.outstanding[opposite] > 0) {
        progress.mix = Mix::both; // whatever mix it was planned for
    }
}

// Tells the scheduler the times of a round, once all its stripes are done. (The next round is
// planned when most of the one before is done.)
void TransferEngine::learn_from(Transfer& transfer, std::size_t stripe) {
    const TransferPlan& rma = transfer.rma;
    const std::uint32_t round = rma.progress[stripe].round;
    std::size_t first = stripe;
    while (first > 0 && rma.progress[first - 1].round == round) {
        --first;
    }
    // If only an upper bound of a path's time is known, the bound counts among the well-known times
    // if it is less than one of them.
    const Mix mix = rma.progress[stripe].mix;
    double slowest = 0; // per byte, of the well-known times
    const auto per_byte = [&rma](std::size_t i) {
        const Nanoseconds taken = rma.progress[i].taken;
        return std::chrono::duration<double>(taken).count() /
               static_cast<double>(rma.plan[i].length);
    };
    for (std::size_t i = first; i < rma.progress.size() && rma.progress[i].round == round; ++i) {
        slowest = std::max(slowest, per_byte(i));
    }
    times_.clear();
    for (std::size_t i = first; i < rma.progress.size() && rma.progress[i].round == round; ++i) {
        if (!rma.progress[i].done || rma.progress[i].mix != mix) { // not comparable
            return;
        }
        const Stripe& each = rma.plan[i];
        const double cost = per_byte(i);
        if (cost > 0 || (cost < 0 && -cost < slowest)) {
            times_.push_back({each.subchannel, each.length,
                              std::abs(cost) * static_cast<double>(each.length),
                              rma.progress[i].ahead});
        }
    }
    if (transfer.peer.lanes.scheduler != nullptr && !times_.empty()) {
        Scheduler& scheduler = *transfer.peer.lanes.scheduler;
        const Spreading before = scheduler.spreading(mix);
        scheduler.learn(mix, times_);
        if (transfer.peer.control.lane != kNoControlLane &&
            scheduler.control_lane() != transfer.peer.control.lane) [[unlikely]] {
            events_.report(transfer.peer, PeerEvent::want_lane);
        }
        const Spreading after = scheduler.spreading(mix);
        counters_.spread_trials += after.trials - before.trials;
        counters_.spread_kept += after.spreads - before.spreads;
        counters_.spread_fallbacks += after.fallbacks - before.fallbacks;
        for (std::uint32_t i = 0; i < transfer.peer.lanes.subchannels.size(); ++i) {
            counters_.*kPathWeights[i] =
                static_cast<std::uint64_t>(std::llround(1000 * scheduler.weight(mix, i)));
        }
    }
}

void TransferEngine::on_stripe_done(Transfer& transfer, std::uint32_t rail,
                                    const WorkCompletion& completion) {
    if (transfer.peer.interruption.abandoned) [[unlikely]] {
        return;
    }
    TransferPlan& rma = transfer.rma;
    const bool timed = !rma.progress.empty();
    const std::size_t stripe = stripe_of(transfer, rail, completion);
    if (stripe < rma.plan.size()) {
        const Bytes length = rma.plan[stripe].length;
        Subchannel& subchannel = transfer.peer.lanes.subchannels[rma.plan[stripe].subchannel];
        subchannel.outstanding[static_cast<std::size_t>(rma.direction())] -= length;
        subchannel.reads -= rma.direction() == Direction::read ? 1 : 0;
        subchannel.completions += completion.status == WorkStatus::success ? 1 : 0;
        rma.outstanding_bytes -= length;
        note_stripe(counters_.trace, TraceKind::stripe_end, transfer, stripe);
        if (timed) {
            take_time(transfer, stripe, completion.status);
        }
    }
    if (timed) {
        --striped_;
    }
    if (--rma.outstanding == 0) {
        transfer.peer.transfers.posted.remove(transfer);
    }
    --transfer.peer.transfers.stripes;
    --outstanding_;
    if (completion.status != WorkStatus::success) [[unlikely]] {
        const bool faulted = completion.status == WorkStatus::memory_fault;
        const bool refused = faulted || (rma.one_sided && !is_path_failure(completion.status));
        transfer.peer.interruption.work_failed = transfer.peer.interruption.work_failed || !refused;
        if (stripe < rma.plan.size() && may_repeat(transfer, completion.status)) {
            ++counters_.stripes_repeated;
            counters_.stripes_repeated_bytes += rma.plan[stripe].length;
            note_stripe(counters_.trace, TraceKind::stripe_repeated, transfer, stripe);
            rma.remaining.push_back(rma.plan[stripe]);
        } else if (faulted) {
            rma.failed = true;
            rma.failure = TransferFailure::fault;
        } else if (refused) {
            if (stripe < rma.plan.size()) {
                transfer.peer.lanes.subchannels[rma.plan[stripe].subchannel].refused = true;
            }
            region_keys_.refuse(transfer.peer, rma);
        } else {
            rma.failed = true;
        }
    }
    if (!rma.remaining.empty() && !rma.failed) [[unlikely]] {
        if (rma.outstanding == 0) {
            interrupt_plan(transfer);
            wait_to_post(transfer);
        }
        return;
    }
    if (rma.failed) [[unlikely]] {
        stop_waiting(transfer);
    } else if (timed && stripe < rma.plan.size()) {
        learn_from(transfer, stripe);
    }
    if (rma.done()) {
        transfer.owner.on_rma_done(transfer);
    } else if (!rma.failed && rma.posted == rma.plan.size() && !transfer.waits()) {
        post_stripes(transfer); // the next round
    }
}

// Gives up the outstanding stripes. In a plan without times it is not known which stripes are done:
// all are repeated, since a read or write may be done twice.
void TransferEngine::abandon(Transfer& transfer) {
    TransferPlan& rma = transfer.rma;
    const bool timed = !rma.progress.empty();
    striped_ -= timed ? rma.outstanding : 0;
    outstanding_ -= rma.outstanding;
    transfer.peer.transfers.stripes -= rma.outstanding;
    rma.outstanding = 0;
    transfer.peer.transfers.posted.remove(transfer);
    rma.outstanding_bytes = 0;
    transfer.peer.interruption.work_failed = true;
    if (rma.failed || !may_repeat(transfer, WorkStatus::flushed)) {
        rma.failed = true;
        stop_waiting(transfer);
        transfer.owner.on_rma_done(transfer);
        return;
    }
    if (!timed) {
        rma.remaining.clear();
    }
    for (std::size_t i = 0; i < rma.posted; ++i) {
        if (!timed || !rma.progress[i].done) {
            ++counters_.stripes_repeated;
            counters_.stripes_repeated_bytes += rma.plan[i].length;
            note_stripe(counters_.trace, TraceKind::stripe_end, transfer, i);
            note_stripe(counters_.trace, TraceKind::stripe_repeated, transfer, i);
            rma.remaining.push_back(rma.plan[i]);
        }
    }
    interrupt_plan(transfer);
    wait_to_post(transfer);
}

// Begins with the last transfer, since each becomes the first of the start queue. Nothing is posted
// meanwhile.
void TransferEngine::abandon(Peer& peer) {
    for (std::size_t left = peer.transfers.posted.size();
         left > 0 && !peer.transfers.posted.empty(); --left) {
        abandon(static_cast<Transfer&>(*peer.transfers.posted.back()));
    }
    stop_balancing(peer);
}

} // namespace adaptib
