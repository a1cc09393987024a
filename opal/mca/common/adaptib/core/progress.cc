// SPDX-License-Identifier: BSD-3-Clause
// Progress of the core (core/core.h gives the order).
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/core.h"

namespace adaptib {

namespace {

constexpr std::size_t kDatagramBudget = 16;
constexpr std::size_t kCompletionBudget = 64;
constexpr std::uint64_t kDatagramEvery = 8;     // passes, while rings are busy
constexpr std::uint64_t kCompletionsEvery = 16; // passes, while none is awaited: errors, signals
constexpr std::uint64_t kRareEvery = 32; // passes that poll rings alone, while nothing arrives
constexpr std::uint64_t kUnusedEvery =
    64; // passes: queues of a fabric, not the first, without peers
constexpr std::uint64_t kHousekeepingEvery = 1024;
// Passes between two timings of channels: until a period has enough samples, and after that.
constexpr std::uint64_t kTimedEagerly = 8;
constexpr std::uint64_t kTimedEvery = 4 * kHousekeepingEvery;
constexpr std::uint64_t kKeepAliveEvery = 64 * kHousekeepingEvery;
constexpr std::uint64_t kPassesPerAwaited = 8; // at least, as keep_alive() visits each request

} // namespace

std::size_t Core::progress(bool again) {
    ++tick_;
    return tick_ == timers_at_ ? pass_with_timers(again) : pass(again);
}

// Most passes find nothing, or only messages. Those read one line of each ring, and what
// nothing_else() checks.
[[gnu::always_inline]] inline std::size_t Core::pass(bool again) {
    RingPoller& rings = *rings_;
    const std::size_t events = rings.hot_rings_are_silent() ? 0 : rings.poll_hot_rings(tick_);
    const bool idle = events == 0;
    if (idle && rings.is_deferring()) [[unlikely]] {
        rings.release_deferred();
    }
    if (tick_ % (idle ? kRareEvery : kDatagramEvery) != 0 && (!idle || is_idle()) && nothing_else())
        [[likely]] {
        return idle && again ? rings.look_again(tick_) : events;
    }
    return events + look_after_others(idle);
}

inline bool Core::nothing_else() const {
    return !rings_->has_cold() && !departures_->any() && !protocol_->has_work() &&
           !connections_->has_work();
}

// Everything but the busy rings.
[[gnu::noinline]] std::size_t Core::look_after_others(bool idle) {
    std::size_t events = rings_->has_cold() ? rings_->poll_cold_ring(tick_) : 0;
    if (tick_ % kDatagramEvery == 0 || (idle && events == 0 && !is_idle())) {
        events += poll_datagrams();
    }
    if (protocol_->transfers().work_outstanding() || tick_ % kCompletionsEvery == 0 ||
        connections_->measurement().active()) {
        events += poll_completions();
        protocol_->transfers().on_polled();
        connections_->measurement().on_polled();
    }
    if (protocol_->retry_due()) [[unlikely]] {
        events += protocol_->retry();
    }
    if (connections_->retry_due() || connections_->closing()) [[unlikely]] {
        if (connections_->cm_connects().active() && tick_ % kCompletionsEvery == 0) {
            events_->poll();
        }
        connections_->retry();
        connections_->handle_events();
    }
    if (departures_->any()) [[unlikely]] {
        departures_->tear_down_peers();
    }
    return events;
}

// Times channels before the pass, when they have gone unpolled for longest, and runs timers after
// it, when all that has arrived is known. Timers run as often as without timing: if they ran more
// often, more acknowledgments would go as datagrams of their own.
[[gnu::noinline]] std::size_t Core::pass_with_timers(bool again) {
    std::size_t events = 0;
    timers_at_ += kTimersEvery;
    if (meter_ != nullptr) {
        const bool rings = meter_->wants_rings() && rings_->has_hot();
        const bool queue = meter_->wants_queue() && rings_->has_hot();
        const std::uint64_t every = rings || queue ? kTimedEagerly : kTimersEvery;
        timers_at_ = tick_ - tick_ % every + every;
        const bool timed = rings || (queue && !is_idle()) || tick_ % kTimedEvery == 0;
        events = timed ? time_channels() : 0;
    }
    events += pass(again);
    if (tick_ % kTimersEvery != 0) {
        return events;
    }
    run_timers();
    rings_->cool(tick_);
    if (tick_ % kHousekeepingEvery == 0) {
        housekeeping();
    }
    return events;
}

// Polls the rings and the datagram queue, and times both.
std::size_t Core::time_channels() {
    const Clock& clock = *environment_.clock;
    const std::size_t rings = rings_->hot();
    const Nanoseconds before = clock.now();
    const Nanoseconds start = clock.now();
    Delivery::Stopwatch stopwatch{start - before, Nanoseconds{0}};
    delivery_->time_by(&stopwatch);
    const std::size_t from_rings = rings_->take_one_each();
    const Nanoseconds middle = clock.now();
    const Nanoseconds of_rings = stopwatch.aside;
    const std::size_t from_queue = poll_datagrams();
    const Nanoseconds end = clock.now();
    delivery_->time_by(nullptr);
    meter_->add_rings(middle - start - of_rings, stopwatch.clock, rings, from_rings);
    meter_->add_queue(end - middle - (stopwatch.aside - of_rings), stopwatch.clock, from_queue);
    return from_rings + from_queue;
}

// True if no fabric in use has anything to poll for.
inline bool Core::is_idle() const {
    const PollHint* const poll_hint = fabrics_.front().poll_hint;
    return poll_hint != nullptr && poll_hint->idle() && (fabrics_.size() == 1 || others_idle());
}

bool Core::others_idle() const {
    return std::none_of(fabrics_.begin() + 1, fabrics_.end(), [](const AttachedFabric& attached) {
        return attached.used && (attached.poll_hint == nullptr || !attached.poll_hint->idle());
    });
}

// A fabric without peers gets only first messages, so it is polled rarely; not so the first fabric,
// the cheapest to poll.
std::size_t Core::poll_datagrams() {
    std::size_t events = fabrics_[0].datagrams->poll(fabrics_[0].receiver, kDatagramBudget);
    for (std::size_t i = 1; i < fabrics_.size(); ++i) {
        if (fabrics_[i].used || tick_ % kUnusedEvery == 0) {
            events += fabrics_[i].datagrams->poll(fabrics_[i].receiver, kDatagramBudget);
        }
    }
    return events;
}

std::size_t Core::poll_completions() {
    std::size_t events = 0;
    for (AttachedFabric& attached : fabrics_) {
        if (attached.used) {
            for (CompletionFilter& filter : attached.filters) {
                events += filter.poll(kCompletionBudget);
            }
        }
    }
    return events;
}

void Core::on_datagram(std::uint32_t fabric, std::uint64_t from, std::uint64_t from_key,
                       const MessageHeader& header, const std::byte* body) {
    Peer* peer = peers_->sender_of(fabric, from, from_key);
    if (peer == nullptr) {
        return;
    }
    if (is_sequenced(header.type)) {
        delivery_->hand_over(*peer, header, body);
        return;
    }
    if (Handshake::may_say_fenced(*peer, header.type)) [[unlikely]] {
        rings_->empty(*peer);
        if (peer->session.state == ConnectState::failed) {
            return; // what was in the ring has broken the connection
        }
    }
    connections_->on_handshake(*peer, header, body);
    connections_->handle_events();
}

void Core::on_life_answer(Peer& peer, std::size_t pair, const LifeBody& body) {
    if (watch_->life().on_answer(peer, pair, body) && paths_->watches(peer)) {
        probes_->on_answer(peer, pair, body);
    }
}

// A life_question does not belong here: it goes to a responder.
void Core::on_probe(std::uint32_t fabric, std::uint64_t from, std::uint64_t key, std::uint32_t port,
                    std::uint8_t rail, const MessageHeader& header, const std::byte* body) {
    Peer* peer = peers_->sender_of(fabric, from, key);
    if (peer == nullptr || peer->session.state == ConnectState::failed) {
        return;
    }
    if (header.type == MessageType::life_question) {
        ++counters_.bad_packets;
        return;
    }
    const bool asked = header.type == MessageType::life_answer;
    const std::uint16_t path =
        asked ? read_body<LifeBody>(body).path : read_body<ProbeBody>(body).path;
    const PeerRoute::Pair rails{static_cast<std::uint8_t>(fabrics_[fabric].rails.first + port),
                                rail, static_cast<std::uint8_t>(path)};
    const auto end = peer->contact.route.pairs.begin() + peer->contact.route.total;
    const auto pair = std::find(peer->contact.route.pairs.begin(), end, rails);
    if (pair == end) {
        ++counters_.bad_packets;
        return;
    }
    const auto number = static_cast<std::size_t>(pair - peer->contact.route.pairs.begin());
    if (asked) {
        on_life_answer(*peer, number, read_body<LifeBody>(body));
    } else if (paths_->watches(*peer)) {
        probes_->on_probe(*peer, number, header.type, read_body<ProbeBody>(body));
    }
}

void Core::housekeeping() {
    protocol_->update_levels();
    if (meter_ != nullptr && tick_ % kTimedEvery == 0) {
        selection_->note_costs();
    }
    connections_->limit().note_activity();
    events_->poll();
    if (tick_ % kKeepAliveEvery == 0 && tick_ >= keep_alive_at_) {
        keep_alive();
        keep_alive_at_ = tick_ + kPassesPerAwaited * protocol_->awaited();
    }
}

// A peer that has died sends neither credit nor answers, so a request that waits for it would wait
// forever. Writing our credit to it again does no harm, and fails if it is gone. Visits all
// requests in one go.
void Core::keep_alive() {
    std::unordered_set<const Peer*> awaited;
    const Peer* last = nullptr; // many requests in a row are of one peer
    protocol_->for_each_awaited([&](const Peer& peer) {
        if (&peer != last) {
            awaited.insert(&peer);
            last = &peer;
        }
    });
    peers_->for_each([&](Peer& peer) {
        const bool waited_for = peer.out.has_pending() || peer.transfers.users > 0 ||
                                peer.transfers.one_sided > 0 || awaited.contains(&peer);
        if (peer.session.state == ConnectState::open && waited_for && peer.in.ring.has_value() &&
            !peer.ending.disconnect_received) {
            credit_->return_credit(peer);
        }
    });
}

} // namespace adaptib
