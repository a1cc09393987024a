// SPDX-License-Identifier: BSD-3-Clause
#include "links.h"

#include <algorithm>

namespace adaptib::hca {
namespace {

constexpr std::uint64_t kHeaders = 30; // bytes of LRH, BTH, RETH or AETH, and the checksums, about

} // namespace

const std::vector<unsigned>* Links::route_of(const PacketHeader& packet) const {
    const PortDescription& port = *topology_.ports[packet.target_port];
    const unsigned lid = packet.target_lid - static_cast<unsigned>(shared_.lid(port));
    const auto found = topology_.routes.find({packet.source_port, packet.target_port, lid});
    return found == topology_.routes.end() ? nullptr : &found->second;
}

std::int64_t Links::carry(unsigned link, std::uint64_t bytes, std::int64_t at) {
    LinkState& state = shared_.state().links[link];
    const unsigned rate = topology_.links[link].rate;
    ++state.packets;
    state.bytes += bytes;
    if (rate == 0) {
        return at;
    }
    const auto takes = static_cast<std::int64_t>(bytes * 1000 / rate);
    std::int64_t free_at = state.free_at.load();
    std::int64_t end = 0;
    do {
        end = std::max(free_at, at) + takes;
    } while (!state.free_at.compare_exchange_weak(free_at, end));
    return end;
}

Links::Fate Links::send(const PacketHeader& packet, std::int64_t now, std::int64_t& due) {
    due = 0;
    const std::vector<unsigned>* const route =
        topology_.routes.empty() ? nullptr : route_of(packet);
    if (route == nullptr) {
        return Fate::goes;
    }
    const auto& links = shared_.state().links;
    for (const unsigned link : *route) {
        if (links[link].free_at.load() > now + kMostQueued) {
            return Fate::waits;
        }
    }
    std::int64_t at = now;
    for (const unsigned link : *route) {
        if (links[link].down.load() != 0 || topology_.links[link].cut) {
            return Fate::lost;
        }
        at = carry(link, kHeaders + packet.payload, at);
    }
    due = at == now ? 0 : at;
    return Fate::goes;
}

} // namespace adaptib::hca
