// SPDX-License-Identifier: BSD-3-Clause
#include "connect/path_measurement.h"

#include <algorithm>
#include <utility>

#include "peer/subchannel_stats.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kParts = 4;         // writes of kMeasureBytes ...
constexpr std::uint32_t kMoreParts = 3;     // ... doubled up to this many times
constexpr std::int64_t kPrecision = 2;      // maximum ratio of the two limits of a usable time
constexpr std::size_t kLooks = 16;          // peers per check
constexpr std::uint32_t kProof = 16;        // measurements that a new control lane has to pass
constexpr std::uint32_t kCalmDoublings = 4; // of the measuring interval, while nothing is found
constexpr std::uint32_t kDoublings = 6;     // after revoked control lanes, or void measurements

} // namespace

void PathMeasurement::add(Peer& peer) {
    const bool able = peer.control.measure_address != 0 && peer.in.ring_parts.measuring &&
                      !peer.connection.shared && peer.out.ring != nullptr &&
                      !peer.out.ring->direct();
    if (!able) {
        return;
    }
    collect_subchannel_stats(peer, context_.rails, subchannel_stats_);
    const bool several =
        std::any_of(subchannel_stats_.begin(), subchannel_stats_.end(), [this](const auto& path) {
            return path.port != subchannel_stats_.front().port;
        });
    if (several) {
        Measuring& state = peer.control.measuring;
        state = {
            .sent = peer.session.next_send, .more = state.more, .taken_back = state.taken_back};
        state.lessons = peer.lanes.scheduler->lessons();
        measured_.push_back(peer);
    }
}

bool PathMeasurement::is_due(Peer& peer, Nanoseconds now) const {
    Measuring& state = peer.control.measuring;
    const std::uint32_t sent = peer.session.next_send - state.sent;
    if (now < state.at || sent < (state.close ? 1 : context_.options.measure.messages)) {
        return false;
    }
    if (peer.lanes.scheduler->lessons() - state.lessons >= Scheduler::kNews) { // stripes teach more
        state = {.sent = peer.session.next_send,
                 .lessons = peer.lanes.scheduler->lessons(),
                 .at = now + context_.options.measure.every,
                 .more = state.more,
                 .taken_back = state.taken_back};
        return false;
    }
    return peer.session.state == ConnectState::open && !peer.interruption.repair.wanted &&
           !peer.control.migration.active && !peer.session.disconnect_sent &&
           !peer.ending.disconnect_received;
}

void PathMeasurement::begin() {
    const Nanoseconds now = context_.options.clock->now();
    begin_at_ = now + context_.options.measure.again;
    for (std::size_t left = std::min(measured_.size(), kLooks); left > 0 && !active(); --left) {
        Peer& peer = *measured_.pop_front();
        measured_.push_back(peer);
        if (is_due(peer, now)) {
            current_ = {};
            current_.peer = &peer;
            collect_subchannel_stats(peer, context_.rails, current_.up);
            peer.control.measuring.active = true;
            next();
        }
    }
}

// Measures the next port; ends the measurement if there is none, or if it has become void.
void PathMeasurement::next() {
    Measurement& all = current_;
    Peer& peer = *all.peer;
    const auto known = [&all](const SubchannelStats& path) {
        return std::any_of(all.rates.begin(), all.rates.end(),
                           [&](const PortRate& rate) { return rate.port == path.port; });
    };
    while (!all.vain && all.at < all.up.size() && known(all.up[all.at])) {
        ++all.at;
    }
    if (all.vain || all.at == all.up.size()) {
        end();
        return;
    }
    const std::uint32_t index = all.up[all.at].index;
    all.vain = !lanes_.can_carry(peer, index) || !post(peer, index);
    if (all.awaited == 0) {
        end();
    }
}

// Returns false if not everything could be posted.
bool PathMeasurement::post(Peer& peer, std::uint32_t index) {
    Subchannel& subchannel = peer.lanes.subchannels[index];
    const Gather gather{peer.in.ring_layout().measuring(), kMeasureBytes,
                        peer.in.ring_registration.local_key(subchannel.local_rail)};
    SendWork work =
        empty_write(wr_id_of(this), peer.control.measure_address, subchannel.remote_memory_key);
    current_.posted = context_.options.clock->now();
    current_.begun = false;
    peer.control.measuring.path = index;
    lanes_.count_post();
    current_.parts = kParts << peer.control.measuring.more;
    for (std::uint32_t part = 0; part <= current_.parts; ++part) {
        if (!subchannel.qp->post_send(work).ok()) {
            return false;
        }
        ++current_.awaited;
        work.gather = &gather;
        work.gather_count = 1;
    }
    return true;
}

void PathMeasurement::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    Measurement& all = current_;
    if (!active() || all.awaited == 0) {
        return; // of an earlier connection
    }
    Subchannel& subchannel = all.peer->lanes.subchannels[all.peer->control.measuring.path];
    if (!subchannel.has(rail, completion.qp_number)) {
        return;
    }
    const bool success = completion.status == WorkStatus::success;
    all.vain = all.vain || !success;
    subchannel.completions += success ? 1 : 0;
    --all.awaited;
    const Nanoseconds now = context_.options.clock->now();
    const Nanoseconds not_before = std::max(all.polled, all.posted);
    if (!all.begun) {
        all.begun = true;
        all.begun_by = now;
        all.begun_after = not_before;
    }
    if (all.awaited == 0) {
        if (!all.vain) {
            note_rate(not_before - all.begun_by, now - all.begun_after);
        }
        next();
    }
}

// Notes the rate of a port; `least` and `most`: limits of the time that the bytes took.
void PathMeasurement::note_rate(Nanoseconds least, Nanoseconds most) {
    ++context_.counters.ports_measured;
    if (least.count() <= 0 || most > kPrecision * least) {
        std::uint32_t& more = current_.peer->control.measuring.more;
        more = std::min(more + 1, kMoreParts);
        current_.vain = true;
        return;
    }
    const auto rate = [bytes =
                           static_cast<double>(current_.parts * kMeasureBytes)](Nanoseconds taken) {
        return bytes / std::chrono::duration<double>(taken).count();
    };
    current_.rates.push_back({current_.up[current_.at].port, rate(most), rate(least)});
}

void PathMeasurement::end() {
    Peer& peer = *std::exchange(current_.peer, nullptr);
    Measuring& state = peer.control.measuring;
    const MeasureOptions& times = context_.options.measure;
    const Nanoseconds now = context_.options.clock->now();
    state.active = false;
    state.sent = peer.session.next_send;
    state.lessons = peer.lanes.scheduler->lessons();
    if (current_.vain) {
        state.at = now + times.again * (1u << std::min(state.vain, kDoublings));
        ++state.vain;
        return;
    }
    state.vain = 0;
    collect_subchannel_stats(peer, context_.rails, subchannel_stats_);
    const Scheduler::Verdict verdict =
        peer.lanes.scheduler->judge_control_lane(subchannel_stats_, current_.rates);
    const bool taken_back = verdict == Scheduler::Verdict::changed && state.proof > 0;
    if (taken_back) {
        state.proof = 0;
        ++state.taken_back;
    } else if (verdict == Scheduler::Verdict::changed) {
        state.proof = kProof;
    } else if (verdict == Scheduler::Verdict::stays && state.proof > 0) {
        --state.proof;
    }
    state.close = verdict == Scheduler::Verdict::doubted || state.proof > 0;
    state.calm = state.close || taken_back ? 0 : std::min(state.calm + 1, kCalmDoublings + 1);
    const std::uint32_t doublings =
        std::max(std::max(state.calm, 1u) - 1, std::min(state.taken_back, kDoublings));
    state.at = now + (state.close ? times.again : times.every * (1u << doublings));
    if (peer.lanes.scheduler->control_lane() != peer.control.lane) {
        migrations_.begin(peer, peer.lanes.scheduler->control_lane());
    }
}

void PathMeasurement::stop(Peer& peer) {
    if (current_.peer == &peer) {
        current_.peer = nullptr;
    }
    peer.control.measuring.active = false;
    if (peer.control.measure_link.linked()) {
        measured_.remove(peer);
    }
}

} // namespace adaptib
