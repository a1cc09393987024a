// SPDX-License-Identifier: BSD-3-Clause
#include "core/timers.h"

#include <algorithm>

namespace adaptib {

Timers::Timers(const Options& options, const Parts& parts)
    : clock_(*options.clock), parts_(parts),
      silence_({options.failure_timeout, options.answer_time, options.clock}, parts.paths),
      idle_rings_(parts.counters) {
    if (options.maps_sources) {
        sources_.emplace(parts.peers.peers(), clock_.now());
    }
}

Nanoseconds Timers::deadline() const {
    if (parts_.startup.is_due() || parts_.watch.ended().any_reported() ||
        (parts_.migration != nullptr && parts_.migration->due())) {
        return Nanoseconds{0};
    }
    Nanoseconds answers = std::min(parts_.paths.deadline(), parts_.watch.life().deadline());
    if (!parts_.paths.all_well()) {
        answers = std::min(answers, parts_.probes.deadline());
    }
    for (const AttachedFabric& attached : parts_.fabrics) {
        answers = std::min(answers, attached.datagrams->retransmitter().deadline());
    }
    const Nanoseconds next =
        std::min({parts_.connections.deadline(), parts_.attended.look_at(answers),
                  unconnected_.deadline(), parts_.contacts.deadline()});
    return std::min(
        next, silence_.deadline(control_posts(), parts_.protocol.transfers().work_outstanding()));
}

void Timers::run() {
    static_cast<void>(
        parts_.attended.now()); // this process is polling, whether anything waits or not
    for (AttachedFabric& attached : parts_.fabrics) {
        if (attached.answerer != nullptr) {
            attached.answerer->beat();
        }
        attached.datagrams->retransmitter().run_timers();
    }
    const Nanoseconds now = clock_.now();
    parts_.events.run_timers(now);
    if (!parts_.contacts.empty()) [[unlikely]] {
        parts_.contacts.retry(now);
    }
    if (parts_.watch.ended().any_reported()) [[unlikely]] {
        parts_.departures.end(parts_.watch.take_ended(parts_.peers));
    }
    if (parts_.protocol.lost().any()) [[unlikely]] {
        parts_.protocol.lost().tell_user(
            [this](std::uint64_t name) { return parts_.peers.find(name); });
    }
    if (parts_.watch.is_due(now)) {
        parts_.departures.end(parts_.watch.find_ended(parts_.peers, parts_.protocol));
    }
    if (idle_rings_.is_due(now)) {
        idle_rings_.shrink(parts_.peers, now);
    }
    if (parts_.selection.is_due(now)) {
        parts_.selection.select_channels(now);
    }
    if (sources_ && now >= sources_->due()) [[unlikely]] {
        sources_->note(now);
    }
    if (RunHistory* const history = parts_.counters.history;
        history != nullptr && now >= history->due()) [[unlikely]] {
        history->sample(now);
    }
    if (now >= unconnected_.deadline()) [[unlikely]] {
        unconnected_.forgive(parts_.peers,
                             [this](Peer& peer) { parts_.connections.repairs().improve(peer); });
    }
    if (silence_.due(control_posts(), parts_.protocol.transfers().work_outstanding())) {
        watch_silence();
    }
    parts_.watch.life().run_timers();
    parts_.probes.run_timers();
    parts_.paths.run_timers();
    parts_.connections.serve_waiting();
    parts_.connections.handle_events();
    parts_.connections.measurement().begin_some();
    if (parts_.migration != nullptr && parts_.migration->due()) [[unlikely]] {
        parts_.migration->run();
    }
    if (parts_.startup.goes_on()) [[unlikely]] {
        parts_.startup.connect_some(
            [this](std::uint64_t name, const Peer*& asked) { return connect(name, asked); },
            [this](std::uint64_t process) { return parts_.peers.endpoints_of(process); });
        parts_.connections.handle_events();
    }
}

// Startup::Connect
bool Timers::connect(std::uint64_t name, const Peer*& asked) {
    Peer* peer = nullptr;
    if (!parts_.peers.find_or_make(name, peer, PeerDirectory::Why::user).ok()) {
        return false;
    }
    if (peer->contact.datagram.coming) {
        parts_.connections.handshake().request(*peer); // is made once the peer is reached
    } else if (peer->contact.datagram.handle != nullptr &&
               !peer->ending.released()) { // else contacted and released since
        parts_.connections.handshake().request_if_room(*peer);
        asked = peer;
    }
    return true;
}

void Timers::watch_silence() {
    silence_.begin_look(control_posts());
    parts_.connections.limit().for_each([this](Peer& peer) {
        if (parts_.datagram_paths.reports_paths(peer) && silence_.look_at(peer)) {
            parts_.connections.repairs().begin(peer);
        }
    });
    silence_.end_look();
}

} // namespace adaptib
