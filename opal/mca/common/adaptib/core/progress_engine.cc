// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/progress_engine.h"

namespace adaptib {

namespace {

constexpr std::size_t kDatagramBudget = 16;
constexpr std::size_t kCompletionBudget = 64;
constexpr std::uint64_t kDatagramEvery = 8;     // passes, while rings are busy
constexpr std::uint64_t kCompletionsEvery = 16; // passes, while none is awaited: errors, signals
constexpr std::uint64_t kRareEvery = 32; // passes that poll rings alone, while nothing arrives
// Passes between two polls of the datagram queue of a fabric, not the first, that no peer uses.
constexpr std::uint64_t kUnusedEvery = 64;
constexpr std::uint64_t kHousekeepingEvery = 1024;
// Passes between two timings of channels: until a period has enough samples, and after that.
constexpr std::uint64_t kTimedEagerly = 8;
constexpr std::uint64_t kTimedEvery = 4 * kHousekeepingEvery;
constexpr std::uint64_t kKeepAliveEvery = 64 * kHousekeepingEvery;
constexpr std::uint64_t kPassesPerAwaited = 8; // at least, as keep_alive() visits each request

} // namespace

ProgressEngine::ProgressEngine(const Options& options, const CoreEnvironment& environment,
                               const Parts& parts)
    : fabrics_(parts.fabrics.all()), protocol_(parts.protocol), connections_(parts.connections),
      peers_(parts.peers), selection_(parts.selection), meter_(parts.meter),
      clock_(*environment.clock), delivery_(parts.protocol, clock_),
      credit_(parts.connections, parts.fabrics.rails(), parts.meter, clock_, *environment.counters),
      rings_({options.idle_looks, environment.tight_ticks, environment.yields}, parts.protocol,
             delivery_, credit_, *environment.counters),
      departures_(parts.fabrics.all(), parts.peers, parts.paths, parts.connections, parts.protocol,
                  rings_),
      events_(environment.host, environment.message,
              FabricEvents::Parts{parts.fabrics.all(), parts.fabrics.rails(), parts.shared,
                                  parts.paths, parts.migration, parts.datagram_paths,
                                  parts.connections, parts.peers, departures_, parts.protocol,
                                  parts.path_failures, *environment.counters}),
      timers_({options.failure_timeout, options.answer_time, environment.maps_sources,
               environment.clock},
              Timers::Parts{parts.fabrics.all(), parts.attended, parts.peers, parts.paths,
                            parts.migration, parts.datagram_paths, parts.contacts, parts.watch,
                            parts.probes, parts.connections, parts.protocol, events_, departures_,
                            parts.startup, parts.selection, *environment.counters}) {}

std::size_t ProgressEngine::progress(bool again) {
    ++tick_;
    return tick_ == timers_at_ ? pass_with_timers(again) : pass(again);
}

// Most passes find nothing, or only messages. Those read one line of each ring, and what
// nothing_else() checks.
[[gnu::always_inline]] inline std::size_t ProgressEngine::pass(bool again) {
    RingPoller& rings = rings_;
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

inline bool ProgressEngine::nothing_else() const {
    return !rings_.has_cold() && !protocol_.events().any() && !protocol_.has_work() &&
           !connections_.has_work();
}

// Everything but the busy rings.
[[gnu::noinline]] std::size_t ProgressEngine::look_after_others(bool idle) {
    if (protocol_.events().any()) [[unlikely]] {
        handle_peer_events();
    }
    std::size_t events = rings_.has_cold() ? rings_.poll_cold_ring(tick_) : 0;
    if (tick_ % kDatagramEvery == 0 || (idle && events == 0 && !is_idle())) {
        events += poll_datagrams();
    }
    if (protocol_.transfers().work_outstanding() || tick_ % kCompletionsEvery == 0 ||
        connections_.measurement().active() || credit_.waits()) {
        events += poll_completions();
        credit_.on_polled();
        protocol_.transfers().on_polled();
        connections_.measurement().on_polled();
    }
    if (protocol_.retry_due()) [[unlikely]] {
        events += protocol_.retry();
    }
    if (connections_.retry_due() || connections_.closing()) [[unlikely]] {
        if (connections_.cm_connects().active() && tick_ % kCompletionsEvery == 0) {
            events_.poll();
        }
        connections_.retry();
    }
    connections_.handle_events();
    if (protocol_.events().any()) [[unlikely]] {
        departures_.tear_down_peers();
    }
    return events;
}

// Departures has those that are gone or have disconnected.
void ProgressEngine::handle_peer_events() {
    protocol_.end_lost_peers();
    protocol_.ask_for_connections();
    for (Peer* peer : protocol_.events().take(PeerEvent::reachable)) {
        if (const auto early = std::move(peer->connection.early_request); early != nullptr) {
            connections_.on_early_request(*peer, *early);
        }
    }
}

// Times channels before the pass, when they have gone unpolled for longest, and runs timers after
// it, when all that has arrived is known. Timers run as often as without timing: if they ran more
// often, more acknowledgments would go as datagrams of their own.
[[gnu::noinline]] std::size_t ProgressEngine::pass_with_timers(bool again) {
    std::size_t events = 0;
    timers_at_ += kTimersEvery;
    if (meter_ != nullptr) {
        const bool rings = meter_->wants_rings() && rings_.has_hot();
        const bool queue = meter_->wants_queue() && rings_.has_hot();
        const std::uint64_t every = rings || queue ? kTimedEagerly : kTimersEvery;
        timers_at_ = tick_ - tick_ % every + every;
        const bool timed = rings || (queue && !is_idle()) || tick_ % kTimedEvery == 0;
        events = timed ? time_channels() : 0;
    }
    events += pass(again);
    if (tick_ % kTimersEvery != 0) {
        return events;
    }
    timers_.run();
    rings_.cool(tick_);
    if (tick_ % kHousekeepingEvery == 0) {
        housekeeping();
    }
    return events;
}

// Polls the rings and the datagram queue, and times both.
std::size_t ProgressEngine::time_channels() {
    const std::size_t rings = rings_.hot();
    const Nanoseconds before = clock_.now();
    const Nanoseconds start = clock_.now();
    Delivery::Stopwatch stopwatch{start - before, Nanoseconds{0}};
    delivery_.time_by(&stopwatch);
    const std::size_t from_rings = rings_.take_one_each();
    const Nanoseconds middle = clock_.now();
    const Nanoseconds of_rings = stopwatch.aside;
    const std::size_t from_queue = poll_datagrams();
    const Nanoseconds end = clock_.now();
    delivery_.time_by(nullptr);
    meter_->add_rings(middle - start - of_rings, stopwatch.clock, rings, from_rings);
    meter_->add_queue(end - middle - (stopwatch.aside - of_rings), stopwatch.clock, from_queue);
    return from_rings + from_queue;
}

// True if no fabric in use has anything to poll for.
inline bool ProgressEngine::is_idle() const {
    const PollHint* const poll_hint = fabrics_.front().poll_hint;
    return poll_hint != nullptr && poll_hint->idle() && (fabrics_.size() == 1 || others_idle());
}

bool ProgressEngine::others_idle() const {
    return std::none_of(fabrics_.begin() + 1, fabrics_.end(), [](const AttachedFabric& attached) {
        return attached.used && (attached.poll_hint == nullptr || !attached.poll_hint->idle());
    });
}

// A fabric without peers gets only first messages, so it is polled rarely; not so the first fabric,
// the cheapest to poll.
std::size_t ProgressEngine::poll_datagrams() {
    std::size_t events = fabrics_[0].datagrams->poll(fabrics_[0].receiver, kDatagramBudget);
    for (std::size_t i = 1; i < fabrics_.size(); ++i) {
        if (fabrics_[i].used || tick_ % kUnusedEvery == 0) {
            events += fabrics_[i].datagrams->poll(fabrics_[i].receiver, kDatagramBudget);
        }
    }
    return events;
}

std::size_t ProgressEngine::poll_completions() {
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

void ProgressEngine::housekeeping() {
    protocol_.update_levels();
    if (meter_ != nullptr && tick_ % kTimedEvery == 0) {
        selection_.note_costs();
    }
    connections_.limit().note_activity();
    events_.poll();
    if (tick_ % kKeepAliveEvery == 0 && tick_ >= keep_alive_at_) {
        keep_alive();
        keep_alive_at_ = tick_ + kPassesPerAwaited * protocol_.awaited();
    }
}

// A peer that has died sends neither credit nor answers, so a request that waits for it would wait
// forever. Writing our credit to it again does no harm, and fails if it is gone. Visits all
// requests in one go.
void ProgressEngine::keep_alive() {
    std::unordered_set<const Peer*> awaited;
    const Peer* last = nullptr; // many requests in a row are of one peer
    protocol_.for_each_awaited([&](const Peer& peer) {
        if (&peer != last) {
            awaited.insert(&peer);
            last = &peer;
        }
    });
    peers_.for_each([&](Peer& peer) {
        const bool waited_for =
            peer.out.has_pending() || Protocol::has_work_of(peer) || awaited.contains(&peer);
        if (waited_for && peer.takes_credit()) {
            credit_.return_credit(peer);
        }
    });
}

} // namespace adaptib
