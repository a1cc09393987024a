// SPDX-License-Identifier: BSD-3-Clause
#include "core/routes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace adaptib {

namespace {

// The place of each rail, by its number, in the order of their names, as published.
std::vector<std::size_t> places_by_name(std::vector<std::string> names) {
    std::vector<std::size_t> order(names.size());
    std::vector<std::size_t> places(names.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::string& name : names) {
        name.resize(std::min(name.size(), kMaxRailName));
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return names[a] < names[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
        places[order[i]] = i;
    }
    return places;
}

// Values by which pair_rails compares pairs of rails, from what both ends know.
class PairValues {
public:
    PairValues(const Routes& routes, RailList rails, const PeerRoute& route,
               std::span<const AddressRail> remote)
        : routes_(routes), rails_(rails), route_(route), remote_(remote) {
        std::vector<std::string> ours;
        std::vector<std::string> theirs;
        for (std::uint32_t i = route.local.first; i < route.local.end(); ++i) {
            ours.push_back(rails[i]->info().name);
            for (std::uint32_t j = route.remote.first; j < route.remote.end(); ++j) {
                if (subnet_match(i, j) > 0) {
                    best_[kind(i)] = std::max(best_[kind(i)], rate(i, j));
                }
            }
        }
        for (std::uint32_t j = route.remote.first; j < route.remote.end(); ++j) {
            theirs.push_back(remote[j].name);
        }
        our_places_ = places_by_name(std::move(ours));
        their_places_ = places_by_name(std::move(theirs));
    }

    // InfiniBand and Ethernet match in different measures, so the faster kind of network comes
    // first, then the better match. A slow Ethernet beside another network would hold stripes up,
    // and is often no RDMA network at all.
    std::uint32_t network(std::uint32_t own, std::uint32_t other) const {
        const std::uint32_t own_rate = rate(own, other);
        if (!routes_.uses_all() && kind(own) == 1 && !rails_[own]->info().standby && own_rate > 0 &&
            Routes::is_slow(own_rate, std::max(best_[0], best_[1]))) {
            return kNoPair;
        }
        constexpr std::uint32_t kMostRate = 0x7fffff;
        constexpr std::uint32_t kMostMatch = 0xff;
        const std::uint32_t match = std::min(subnet_match(own, other), kMostMatch);
        const bool infiniband = rails_[own]->info().link_layer == LinkLayer::infiniband;
        const std::uint32_t fastest = std::min(best_[kind(own)], kMostRate);
        return match == 0 ? 0 : (fastest << 1 | (infiniband ? 1 : 0)) << 8 | match;
    }
    // The rate and, if it is equal, whether both rails have the same place among those of their
    // host: planes of a network often have equal prefixes. The order of the rails does not tell,
    // since it is another one for each processor socket.
    std::uint32_t rate_and_place(std::uint32_t own, std::uint32_t other) const {
        const bool same =
            our_places_[own - route_.local.first] == their_places_[other - route_.remote.first];
        return std::min(rate(own, other), UINT32_MAX / 2) << 1 | (same ? 1 : 0);
    }

private:
    std::size_t kind(std::uint32_t own) const {
        return rails_[own]->info().link_layer == LinkLayer::ethernet ? 1 : 0;
    }
    std::uint32_t subnet_match(std::uint32_t own, std::uint32_t other) const {
        return rails_[own]->subnet_match({remote_[other].size, remote_[other].bytes});
    }
    std::uint32_t rate(std::uint32_t own, std::uint32_t other) const {
        return std::min(routes_.published_rate(own), remote_[other].rate);
    }

    const Routes& routes_;
    RailList rails_;
    const PeerRoute& route_;
    std::span<const AddressRail> remote_;
    std::array<std::uint32_t, 2> best_{}; // rate, by kind
    std::vector<std::size_t> our_places_;
    std::vector<std::size_t> their_places_;
};

} // namespace

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
    const PairValues values(*this, rails_, out, address.rails);
    pair_rails(
        out, options_.self < address.name,
        [&](std::uint32_t own, std::uint32_t other) { return values.network(own, other); },
        [&](std::uint32_t own, std::uint32_t other) { return values.rate_and_place(own, other); });
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
