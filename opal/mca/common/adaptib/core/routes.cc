// SPDX-License-Identifier: BSD-3-Clause
#include "core/routes.h"

#include <algorithm>

namespace adaptib {

bool Routes::route_over(std::uint32_t fabric, const ProcessAddress& address, PeerRoute& out) const {
    const auto count = static_cast<std::uint32_t>(address.rails.size());
    const RailRange local = fabrics_[fabric];
    const auto reached = [&](std::uint32_t index) {
        const AddressRail& rail = address.rails[index];
        return rails_[local.first]->is_reachable({rail.size, rail.bytes});
    };
    RailRange remote;
    while (remote.first < count && !reached(remote.first)) {
        ++remote.first;
    }
    while (remote.end() < count && reached(remote.end())) {
        ++remote.count;
    }
    out.fabric = fabric;
    out.local = local;
    out.remote = remote;
    pair_rails(
        out, options_.self < address.name,
        [&](std::uint32_t own, std::uint32_t other) {
            const AddressRail& rail = address.rails[other];
            return rails_[own]->subnet_match({rail.size, rail.bytes});
        },
        [&](std::uint32_t own, std::uint32_t other) {
            return std::min(published_rate(own), address.rails[other].rate);
        });
    add_paths(out, [&](std::uint32_t own, std::uint32_t other) {
        const AddressRail& rail = address.rails[other];
        return std::min({std::uint32_t{paths_of(own)}, std::uint32_t{rail.paths},
                         rails_[own]->paths_to({rail.size, rail.bytes})});
    });
    return remote.count > 0;
}

bool Routes::choose(const ProcessAddress& address, PeerRoute& out) const {
    for (std::uint32_t fabric = 0; fabric < fabrics_.size(); ++fabric) {
        if (route_over(fabric, address, out)) {
            return true;
        }
    }
    return false;
}

std::string Routes::why_none(const ProcessAddress& address) const {
    std::string text;
    for (const RailRange& local : fabrics_) {
        const Rail& rail = *rails_[local.first];
        for (const AddressRail& other : address.rails) {
            if (const std::string why = rail.why_out_of_reach({other.size, other.bytes});
                !why.empty()) {
                text += "Rail " + rail.info().name + ": " + why + ". ";
                break;
            }
        }
    }
    if (text.empty() && address.host == options_.host) {
        text = "Both are on one host, but in different process namespaces, as containers are "
               "that were not started with --pid=host: adaptib treats these as two hosts. ";
    }
    return text + (options_.left_out.empty() ? "" : options_.left_out + " ");
}

PeerRoute Routes::to_itself(std::uint32_t fabric) const {
    PeerRoute route;
    route.fabric = fabric;
    route.local = fabrics_[fabric];
    route.remote = fabrics_[fabric];
    for (std::uint32_t i = route.local.first; i < route.local.end(); ++i) {
        const auto rail = static_cast<std::uint8_t>(i);
        route.pairs[route.count++] = {rail, rail, 0};
    }
    route.total = route.count;
    return route;
}

std::uint32_t Routes::published_rate(std::uint32_t rail) const {
    constexpr std::uint64_t kMega = 1'000'000;
    const std::uint64_t rate = (rails_[rail]->info().rate.value + kMega - 1) / kMega;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(rate, UINT32_MAX));
}

// Several LIDs exist only where an administrator has configured them for this purpose. Flow labels
// always exist, but may lead nowhere else.
std::uint8_t Routes::paths_of(std::uint32_t rail) const {
    constexpr std::uint32_t kWorthwhile =
        8; // simulator/studies: more gain little, four miss some of it
    const RailInfo& info = rails_[rail]->info();
    if (options_.paths_per_port > 0) {
        return static_cast<std::uint8_t>(options_.paths_per_port);
    }
    const bool labels = info.link_layer == LinkLayer::ethernet;
    return static_cast<std::uint8_t>(labels ? 1 : std::min(info.paths, kWorthwhile));
}

} // namespace adaptib
