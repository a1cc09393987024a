// SPDX-License-Identifier: BSD-3-Clause
// Selection of the peers that get a connection and a ring while there is no room for all (parameter
// `channel_policy`).
//
// Once per period the messages of each peer are counted, in both directions: a connection serves
// both, so its two ends see the same number. Counting costs nothing per message, since messages are
// numbered. For the peers that select/selector.h chooses a connection is requested; if need be,
// connections of others are closed for them (connect/limits.cc). With dynamically connected queue
// pairs, a peer that is worth a ring but not a queue pair gets a ring over these.
// Source: Takagi et al., section 3.
// May touch: the same as core/core.h.
#include <algorithm>

#include "core/core.h"

namespace adaptib {

bool Core::select_due(Nanoseconds now) const {
    return selector_ != nullptr && now >= select_at_ &&
           (connections_->crowded() || connections_->any_shared());
}

void Core::select_channels(Nanoseconds now) {
    select_at_ = now + channels_.period;
    std::vector<SourceCount> counts;
    std::vector<std::uint64_t> talking;
    std::vector<std::uint64_t> beside;
    Mapping in_use;
    std::vector<std::uint64_t> others; // peers that are connected without having been chosen
    peers_.for_each([&](Peer& peer) {
        const std::uint32_t messages = peer.messages();
        const std::uint32_t news = messages - peer.activity.counted;
        peer.activity.counted = messages;
        const bool open = peer.state == ConnectState::open;
        const bool may_be = open || now >= peer.activity.own_after; // else it was refused recently
        if (news > 0) {
            if (may_be) {
                counts.push_back({peer.name, static_cast<double>(news)});
            }
            talking.push_back(peer.name);
            if (peer.datagram.handle != nullptr && peer.datagram.handle->shares_processor()) {
                beside.push_back(peer.name);
            }
        }
        if (peer.activity.chosen && may_be) {
            in_use.connected.push_back(peer.name);
        } else if (open && news > 0) {
            (peer.shared ? in_use.shared : others).push_back(peer.name);
        }
    });
    if (meter_ != nullptr) {
        note_costs();
        meter_->begin_period();
    }
    const auto room = static_cast<std::size_t>(connections_->room());
    others.resize(std::min(others.size(), room - std::min(room, in_use.connected.size())));
    in_use.connected.insert(in_use.connected.end(), others.begin(), others.end());
    std::sort(in_use.connected.begin(), in_use.connected.end());
    std::sort(in_use.shared.begin(), in_use.shared.end());
    std::sort(beside.begin(), beside.end());
    selector_->now_in_use(in_use);
    selector_->now_beside(std::move(beside));
    const bool shares = channels_.sharing == Sharing::spare;
    const std::size_t rings =
        shares ? channels_.rings : std::min<std::size_t>(room, channels_.rings);
    selector_->tick(std::move(counts), {rings, room, shares});
    ++counters_.selections;
    const bool changed = selector_->mapping() != in_use;
    counters_.selections_changed += changed ? 1 : 0;
    counters_.selection_bytes = selector_->memory_bytes();
    const std::vector<std::uint64_t>& chosen = selector_->mapping().connected;
    peers_.for_each([&](Peer& peer) {
        const bool among = std::binary_search(chosen.begin(), chosen.end(), peer.name);
        peer.activity.chosen = among && (changed || peer.activity.chosen);
    });
    connect_selected(talking, now);
}

// Requests connections to the selected peers.
void Core::connect_selected(const std::vector<std::uint64_t>& talking, Nanoseconds now) {
    const std::vector<std::uint64_t>& sharing = selector_->mapping().shared;
    const auto shall_share = [&](const Peer& peer) {
        return std::binary_search(sharing.begin(), sharing.end(), peer.name);
    };
    std::uint64_t free = connections_->free_room();
    std::size_t waiting = 0;                   // peers to share, without room
    for (const std::uint64_t name : talking) { // a silent peer has no use for one, even if chosen
        Peer* peer = peers_.find(name);        // may end other peers, so not within for_each
        if (peer == nullptr || peer->datagram.handle == nullptr || peer->released) {
            continue;
        }
        const bool shares = peer->state == ConnectState::open && peer->shared;
        const bool may_have =
            now >= peer->activity.own_after && !(shares && peer->activity.asks_itself);
        const bool upgrade = shares && free > 0;
        if (may_have && (peer->activity.chosen || upgrade)) {
            free -= upgrade ? 1 : 0;
            connections_->take(*peer, SharingPreference::own);
        } else if (peer->state == ConnectState::idle && shall_share(*peer) &&
                   connections_->may_share(*peer)) {
            if (connections_->has_shared_room()) {
                connections_->take(*peer, SharingPreference::shared);
            } else {
                ++waiting;
            }
        }
    }
    connections_->for_each_connected([&](Peer& peer) { // makes room for the next period
        if (waiting > 0 && peer.shared && peer.state == ConnectState::open &&
            !peer.activity.chosen && !shall_share(peer)) {
            --waiting;
            connections_->give_up(peer);
        }
    });
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

// Hands the costs to the selection, and notes them for the report and the counters.
void Core::note_costs() {
    constexpr double kPicoseconds = 1000;
    constexpr std::uint64_t kCreditsLeast = 16; // with fewer their number means nothing
    ChannelCosts costs = model_costs_;
    if (meter_ != nullptr) {
        const std::uint64_t credits = counters_.credit_returns;
        const double each = credits < kCreditsLeast ? 0
                                                    : static_cast<double>(counters_.ring_received) /
                                                          static_cast<double>(credits);
        costs = meter_->costs(costs, each);
        counters_.cost_samples = meter_->samples();
    }
    selector_->use(costs);
    connections_->limit_shared(shared_most(costs));
    const auto ps = [](double ns) { return static_cast<std::uint64_t>(ns * kPicoseconds); };
    counters_.cost_ring_saves = ps(costs.connected_ring);
    counters_.cost_shared_ring_saves = ps(costs.shared_ring);
    counters_.cost_poll = ps(costs.poll);
    counters_.cost_credit = ps(costs.credit);
}

// Adds all messages that have come since the last call, also of peers that are gone: their records
// stay.
void Core::note_sources(Nanoseconds now) {
    source_map_->look(now);
    peers_.for_each([this](Peer& peer) {
        const std::uint32_t news = peer.next_receive - peer.activity.mapped;
        peer.activity.mapped = peer.next_receive;
        source_map_->add(peer.name, news);
    });
}

std::string Core::source_map() {
    if (source_map_ == nullptr) {
        return "";
    }
    note_sources(environment_.clock->now());
    return source_map_->text(environment_.self);
}

void Core::promote(Peer& peer) {
    if (peer.datagram.handle == nullptr || peer.released) {
        return;
    }
    const bool shares = connections_->may_share(peer);
    if (peer.state == ConnectState::idle && shares) {
        connections_->take(peer, SharingPreference::shared);
    } else if (peer.state == ConnectState::open && peer.shared) {
        connections_->take(peer, SharingPreference::own);
    } else {
        connections_->request(peer);
    }
}

void Core::demote(Peer& peer) {
    if (peer.state == ConnectState::open && !peer.shared && connections_->may_share(peer)) {
        connections_->take(peer, SharingPreference::shared);
    } else {
        connections_->give_up(peer);
    }
}

} // namespace adaptib
