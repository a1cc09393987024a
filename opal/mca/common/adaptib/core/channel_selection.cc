// SPDX-License-Identifier: BSD-3-Clause
#include "core/channel_selection.h"

#include <algorithm>

namespace adaptib {

ChannelSelection::ChannelSelection(const Options& options, const PeerTable& peers,
                                   ConnectionManager& connections, Counters& counters)
    : options_(options), peers_(peers), connections_(connections), counters_(counters) {
    if (options.selects) {
        selector_.emplace(options.costs);
    }
}

void ChannelSelection::select_channels(Nanoseconds now) {
    select_at_ = now + options_.period;
    std::vector<SourceCount> counts;
    std::vector<std::uint64_t> talking;
    std::vector<std::uint64_t> beside;
    Mapping in_use;
    std::vector<std::uint64_t> others; // peers that are connected without having been chosen
    peers_.for_each([&](Peer& peer) {
        const std::uint32_t messages = peer.messages();
        const std::uint32_t news = messages - peer.connection.activity.counted;
        peer.connection.activity.counted = messages;
        const bool open = peer.session.is_open();
        const bool may_be =
            open || now >= peer.connection.activity.own_after; // else it was refused recently
        if (news > 0) {
            if (may_be) {
                counts.push_back({peer.contact.name, static_cast<double>(news)});
            }
            talking.push_back(peer.contact.name);
            if (peer.contact.datagram.handle != nullptr &&
                peer.contact.datagram.handle->shares_processor()) {
                beside.push_back(peer.contact.name);
            }
        }
        if (peer.connection.activity.chosen && may_be) {
            in_use.connected.push_back(peer.contact.name);
        } else if (open && news > 0) {
            (peer.connection.shared ? in_use.shared : others).push_back(peer.contact.name);
        }
    });
    if (options_.meter != nullptr) {
        note_costs();
        options_.meter->begin_period();
    }
    const auto room = static_cast<std::size_t>(connections_.limit().room());
    others.resize(std::min(others.size(), room - std::min(room, in_use.connected.size())));
    in_use.connected.insert(in_use.connected.end(), others.begin(), others.end());
    std::sort(in_use.connected.begin(), in_use.connected.end());
    std::sort(in_use.shared.begin(), in_use.shared.end());
    std::sort(beside.begin(), beside.end());
    selector_->now_in_use(in_use);
    selector_->now_beside(std::move(beside));
    const bool shares = options_.sharing == Sharing::spare;
    const std::size_t rings = shares ? options_.rings : std::min<std::size_t>(room, options_.rings);
    selector_->tick(std::move(counts), {rings, room, shares});
    ++counters_.selections;
    const bool changed = selector_->mapping() != in_use;
    counters_.selections_changed += changed ? 1 : 0;
    counters_.selection_bytes = selector_->memory_bytes();
    const std::vector<std::uint64_t>& chosen = selector_->mapping().connected;
    peers_.for_each([&](Peer& peer) {
        const bool among = std::binary_search(chosen.begin(), chosen.end(), peer.contact.name);
        peer.connection.activity.chosen = among && (changed || peer.connection.activity.chosen);
    });
    connect_selected(talking, now);
}

// Requests connections to the selected peers.
void ChannelSelection::connect_selected(const std::vector<std::uint64_t>& talking,
                                        Nanoseconds now) {
    const std::vector<std::uint64_t>& sharing = selector_->mapping().shared;
    const auto shall_share = [&](const Peer& peer) {
        return std::binary_search(sharing.begin(), sharing.end(), peer.contact.name);
    };
    std::uint64_t free = connections_.limit().free_room();
    std::size_t waiting = 0;                   // peers to share, without room
    for (const std::uint64_t name : talking) { // a silent peer has no use for one, even if chosen
        Peer* peer = peers_.find(name);        // may end other peers, so not within for_each
        if (peer == nullptr || peer->contact.datagram.handle == nullptr ||
            peer->ending.released()) {
            continue;
        }
        const bool shares = peer->session.is_open() && peer->connection.shared;
        const bool may_have = now >= peer->connection.activity.own_after &&
                              !(shares && peer->connection.activity.asks_itself);
        const bool upgrade = shares && free > 0;
        if (may_have && (peer->connection.activity.chosen || upgrade)) {
            free -= upgrade ? 1 : 0;
            connections_.set_preference(*peer, SharingPreference::own);
        } else if (peer->session.is_idle() && shall_share(*peer) &&
                   connections_.sharing().may_share(*peer)) {
            if (connections_.sharing().has_room()) {
                connections_.set_preference(*peer, SharingPreference::shared);
            } else {
                ++waiting;
            }
        }
    }
    connections_.limit().for_each([&](Peer& peer) { // makes room for the next period
        if (waiting > 0 && peer.connection.shared && peer.session.is_open() &&
            !peer.connection.activity.chosen && !shall_share(peer)) {
            --waiting;
            connections_.close_if_unused(peer);
        }
    });
}

void ChannelSelection::note_costs() {
    constexpr double kPicoseconds = 1000;
    constexpr std::uint64_t kCreditsLeast = 16; // with fewer their number means nothing
    ChannelCosts costs = options_.costs;
    if (options_.meter != nullptr) {
        const std::uint64_t credits = counters_.credit_returns;
        const double each = credits < kCreditsLeast ? 0
                                                    : static_cast<double>(counters_.ring_received) /
                                                          static_cast<double>(credits);
        costs = options_.meter->costs(costs, each);
        counters_.cost_samples = options_.meter->samples();
    }
    selector_->use(costs);
    connections_.sharing().limit(shared_most(costs));
    const auto ps = [](double ns) { return static_cast<std::uint64_t>(ns * kPicoseconds); };
    counters_.cost_ring_saves = ps(costs.connected_ring);
    counters_.cost_shared_ring_saves = ps(costs.shared_ring);
    counters_.cost_poll = ps(costs.poll);
    counters_.cost_credit = ps(costs.credit);
}

void ChannelSelection::promote(Peer& peer) {
    if (peer.contact.datagram.handle == nullptr || peer.ending.released()) {
        return;
    }
    const bool shares = connections_.sharing().may_share(peer);
    if (peer.session.is_idle() && shares) {
        connections_.set_preference(peer, SharingPreference::shared);
    } else if (peer.session.is_open() && peer.connection.shared) {
        connections_.set_preference(peer, SharingPreference::own);
    } else {
        connections_.request(peer);
    }
}

void ChannelSelection::demote(Peer& peer) {
    if (peer.session.is_open() && !peer.connection.shared &&
        connections_.sharing().may_share(peer)) {
        connections_.set_preference(peer, SharingPreference::shared);
    } else {
        connections_.close_if_unused(peer);
    }
}

} // namespace adaptib
