// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/placement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace adaptib::advise {

namespace {

std::string without_domain(const std::string& host) { return host.substr(0, host.find('.')); }

std::unordered_map<std::string, std::uint32_t> hosts_by_name(const sim::Topology& topology) {
    std::unordered_map<std::string, std::uint32_t> names;
    for (std::uint32_t host = 0; host < topology.hosts.size(); ++host) {
        names.emplace(topology.hosts[host].name, host);
        names.emplace(without_domain(topology.hosts[host].name), host);
    }
    return names;
}

bool place_by_name(const TrafficMatrix& traffic, const sim::Topology& topology,
                   std::vector<std::uint32_t>& out, std::string& error) {
    const auto names = hosts_by_name(topology);
    for (std::uint32_t rank = 0; rank < traffic.ranks; ++rank) {
        auto found = names.find(traffic.hosts[rank]);
        if (found == names.end()) {
            found = names.find(without_domain(traffic.hosts[rank]));
        }
        if (found == names.end()) {
            error = "the traffic does not fit the topology: rank " + std::to_string(rank) +
                    " ran on \"" + traffic.hosts[rank] + "\", which is none of its " +
                    std::to_string(topology.hosts.size()) + " hosts (the first is \"" +
                    topology.hosts[0].name + "\")";
            return false;
        }
        out.push_back(found->second);
    }
    return true;
}

bool place_in_order(const TrafficMatrix& traffic, const sim::Topology& topology,
                    std::uint32_t per_host, std::vector<std::uint32_t>& out, std::string& error) {
    if ((traffic.ranks - 1) / per_host >= topology.hosts.size()) {
        error = "the traffic does not fit the topology: " + std::to_string(traffic.ranks) +
                " ranks, " + std::to_string(per_host) + " on each host, need more than its " +
                std::to_string(topology.hosts.size()) +
                " hosts; name each rank's host, or set --ranks-per-host";
        return false;
    }
    for (std::uint32_t rank = 0; rank < traffic.ranks; ++rank) {
        out.push_back(rank / per_host);
    }
    return true;
}

bool have_equal_ports(const sim::Topology& topology, const std::vector<std::uint32_t>& hosts,
                      std::string& error) {
    const sim::Host& first = topology.hosts[hosts.front()];
    for (const std::uint32_t index : hosts) {
        const sim::Host& host = topology.hosts[index];
        if (host.ports.size() != first.ports.size()) {
            error = "hosts " + first.name + " and " + host.name + " have " +
                    std::to_string(first.ports.size()) + " and " +
                    std::to_string(host.ports.size()) +
                    " ports with a cable; advice needs as many on each host of the job";
            return false;
        }
        if (host.ports.empty()) {
            error = "host " + host.name + " has no port with a cable";
            return false;
        }
    }
    return true;
}

// The switch at the first port of a host.
sim::NodeIndex switch_of(const sim::Topology& topology, std::uint32_t host) {
    return topology.links[topology.ports[topology.hosts[host].ports.front()].link].to;
}

// Symmetric: what two ranks exchange.
class Exchange {
public:
    explicit Exchange(const TrafficMatrix& traffic) : with_(traffic.ranks), all_(traffic.ranks) {
        for (const PairTraffic& pair : traffic.pairs) {
            with_[pair.from][pair.to] += pair.bytes;
            with_[pair.to][pair.from] += pair.bytes;
            all_[pair.from] += pair.bytes;
            all_[pair.to] += pair.bytes;
        }
    }
    const std::map<std::uint32_t, Bytes>& with(std::uint32_t rank) const { return with_[rank]; }
    Bytes of(std::uint32_t rank) const { return all_[rank]; }

private:
    std::vector<std::map<std::uint32_t, Bytes>> with_;
    std::vector<Bytes> all_;
};

// Chooses ranks one after another: by their exchange with those on the host, then with those on the
// switch, then altogether.
class Filling {
public:
    explicit Filling(const TrafficMatrix& traffic)
        : exchange_(traffic), host_(traffic.ranks), switch_(traffic.ranks), placed_(traffic.ranks) {
    }

    void begin_switch() { std::fill(switch_.begin(), switch_.end(), 0); }
    void begin_host() { std::fill(host_.begin(), host_.end(), 0); }
    std::uint32_t take() {
        std::uint32_t best = 0;
        bool found = false;
        for (std::uint32_t rank = 0; rank < placed_.size(); ++rank) {
            if (!placed_[rank] && (!found || key(rank) > key(best))) {
                best = rank;
                found = true;
            }
        }
        placed_[best] = true;
        for (const auto& [rank, bytes] : exchange_.with(best)) {
            host_[rank] += bytes;
            switch_[rank] += bytes;
        }
        return best;
    }

private:
    std::tuple<Bytes, Bytes, Bytes> key(std::uint32_t rank) const {
        return {host_[rank], switch_[rank], exchange_.of(rank)};
    }

    Exchange exchange_;
    std::vector<Bytes> host_;   // exchanged with ranks on the host that is being filled
    std::vector<Bytes> switch_; // likewise on the switch
    std::vector<bool> placed_;
};

} // namespace

bool place(const TrafficMatrix& traffic, const sim::Topology& topology, std::uint32_t per_host,
           std::vector<std::uint32_t>& out, std::string& error) {
    std::vector<std::uint32_t> hosts;
    const bool placed = traffic.hosts.empty()
                            ? place_in_order(traffic, topology, per_host, hosts, error)
                            : place_by_name(traffic, topology, hosts, error);
    if (!placed || !have_equal_ports(topology, hosts, error)) {
        return false;
    }
    out = std::move(hosts);
    return true;
}

std::vector<std::uint32_t> gather_partners(const TrafficMatrix& traffic,
                                           const sim::Topology& topology,
                                           const std::vector<std::uint32_t>& hosts) {
    std::map<std::pair<sim::NodeIndex, std::uint32_t>, std::uint32_t> slots; // ranks of each host
    for (const std::uint32_t host : hosts) {
        ++slots[{switch_of(topology, host), host}];
    }
    std::vector<std::uint32_t> out(hosts.size());
    Filling filling(traffic);
    sim::NodeIndex last = sim::kNoIndex;
    for (const auto& [where, ranks] : slots) {
        if (where.first != last) {
            filling.begin_switch();
            last = where.first;
        }
        filling.begin_host();
        for (std::uint32_t i = 0; i < ranks; ++i) {
            out[filling.take()] = where.second;
        }
    }
    return out;
}

} // namespace adaptib::advise
