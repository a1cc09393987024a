// SPDX-License-Identifier: BSD-3-Clause
// The silence watch (recovery/silence_watch.h).
#include "recovery/silence_watch.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

void SilenceWatch::begin_look(std::uint64_t posted) {
    const Nanoseconds now = options_.clock->now();
    ADAPTIB_INVARIANT(now >= looked_, "time does not go back", now, looked_);
    passed_ = std::min(now - looked_, options_.timeout / kLooks);
    looked_ = now;
    posted_ = posted;
    busy_ = false;
}

// Returns true if a completion of the queue pair is awaited. Unsignaled writes into a ring become
// known by work posted behind them.
bool SilenceWatch::awaits(const Peer& peer, const Subchannel& subchannel) {
    if (subchannel.outstanding[0] + subchannel.outstanding[1] > 0) {
        return true;
    }
    if (peer.control.measuring.active &&
        &peer.lanes.subchannels[peer.control.measuring.path] == &subchannel) {
        return true;
    }
    if (peer.session.is_closing()) {
        return peer.connection.closing.flush.awaits(subchannel);
    }
    if (peer.control.migration.flush.awaits(subchannel)) {
        return true;
    }
    if (peer.in.credit_work.under_way() &&
        &peer.lanes.subchannels[peer.control.lane] == &subchannel) {
        return true;
    }
    return peer.out.ring != nullptr && !peer.out.ring->direct() &&
           peer.out.ring->poster().posts_to(*subchannel.qp) && !peer.out.ring->poster().flushed();
}

bool SilenceWatch::is_over(const Peer& peer, std::size_t pair) const {
    const Subchannel& subchannel = peer.lanes.subchannels[pair];
    const std::uint8_t remote = peer.contact.route.pairs[pair].remote;
    const bool answers = paths_.state(peer, pair) == PathState::up &&
                         peer.contact.address.rails[remote].datagram_qp != 0;
    const Nanoseconds patience = answers && !peer.connection.shared
                                     ? std::max(options_.timeout, options_.answer) * 3 / 2
                                     : kAbsent * options_.timeout;
    const Silence& silence = subchannel.silence;
    return silence.lasts > silence.until || silence.lasts > patience + time_at_slowest(subchannel);
}

Nanoseconds SilenceWatch::time_at_slowest(const Subchannel& subchannel) {
    const Bytes bytes = subchannel.outstanding[0] + subchannel.outstanding[1];
    return std::chrono::duration_cast<Nanoseconds>(
        std::chrono::duration<double>(static_cast<double>(bytes) / kSlowest));
}

bool SilenceWatch::look_at(Peer& peer) {
    bool over = false;
    for (std::size_t i = 0; i < peer.lanes.subchannels.size(); ++i) {
        const bool gently = peer.session.is_repairing() && peer.interruption.repair.gentle &&
                            !peer.interruption.repair.fenced; // work under way is waited for
        if ((!peer.session.connected() && !gently) || !peer.session.repairable ||
            !paths_.watches(peer)) {
            return over;
        }
        if (peer.lanes.subchannels[i].qp != nullptr) {
            over = look_at(peer, i) || over;
        }
    }
    return over;
}

bool SilenceWatch::look_at(Peer& peer, std::size_t pair) {
    Subchannel& subchannel = peer.lanes.subchannels[pair];
    Silence& silence = subchannel.silence;
    const bool waits = awaits(peer, subchannel);
    busy_ = busy_ || waits;
    if (!waits || subchannel.completions != silence.seen) {
        const bool doubted = silence.lasts >= options_.timeout / 2;
        const bool heard = subchannel.completions != silence.seen;
        silence = {};
        silence.seen = subchannel.completions;
        if ((doubted || paths_.vain(peer, pair) > 0) && heard) {
            paths_.report_carried(peer, pair);
        }
        return false;
    }
    ADAPTIB_INVARIANT(passed_.count() >= 0 && passed_ <= options_.timeout / kLooks,
                      "absence of this process is no silence of the device", passed_,
                      options_.timeout);
    silence.lasts += passed_;
    const PathState state = paths_.state(peer, pair);
    if (state == PathState::suspect) {
        silence.missed = silence.missed || peer.health.paths->records[pair].asked >= kUnanswered;
    } else if (silence.missed && silence.until == Nanoseconds::max()) {
        silence.until = silence.lasts + options_.timeout / 2;
    }
    if (state == PathState::failed) {
        // Its adapter was to migrate it.
        return silence.lasts >= options_.timeout + time_at_slowest(subchannel);
    }
    if (is_over(peer, pair)) {
        paths_.report_queue_pair_failure(peer, pair,
                                         "its queue pair does not complete what was posted",
                                         subchannel.completions > 0);
        return true;
    }
    if (state == PathState::up && silence.lasts >= options_.timeout / 2) {
        paths_.report_suspect(peer, pair, "its queue pair does not complete what was posted");
    }
    return false;
}

} // namespace adaptib
