// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/advise/traffic_pattern.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace adaptib::advise {

namespace {

// What a pair sends in one round of the pattern.
struct Load {
    std::uint32_t from;
    std::uint32_t to;
    std::uint64_t messages;
    Bytes bytes; // of each message
};

std::vector<PairTraffic> heaviest_between_hosts(const TrafficMatrix& traffic,
                                                const std::vector<std::uint32_t>& hosts) {
    std::vector<PairTraffic> pairs;
    std::copy_if(traffic.pairs.begin(), traffic.pairs.end(), std::back_inserter(pairs),
                 [&hosts](const PairTraffic& pair) { return hosts[pair.from] != hosts[pair.to]; });
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const PairTraffic& a, const PairTraffic& b) { return a.bytes > b.bytes; });
    return pairs;
}

// The loads keep the proportions of the pairs' bytes, unless kMostOfPair messages of
// kLongestMessage are too few for a pair.
std::vector<Load> loads_of(const std::vector<PairTraffic>& pairs) {
    std::vector<std::uint64_t> counts;
    for (const PairTraffic& pair : pairs) {
        counts.push_back(pair.messages);
    }
    const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
    std::nth_element(counts.begin(), middle, counts.end());
    const std::uint64_t round = *middle; // messages of the median pair: one in each round
    std::vector<Load> loads;
    std::uint64_t messages = 0;
    for (const PairTraffic& pair : pairs) {
        const Bytes bytes = std::max<Bytes>(pair.bytes / round, 1);
        const std::uint64_t number = std::clamp<std::uint64_t>(
            std::max(pair.messages / round, bytes / kLongestMessage), 1, kMostOfPair);
        messages += number;
        if (messages > kMostMessages) {
            break;
        }
        loads.push_back({pair.from, pair.to, number, std::min(bytes / number, kLongestMessage)});
    }
    return loads;
}

using StepOf = std::function<std::uint32_t(std::uint32_t from, std::uint32_t to)>;

study::Pattern pattern_of(const char* name, std::uint32_t ranks, const std::vector<Load>& loads,
                          std::uint32_t steps, const StepOf& step_of) {
    study::Pattern pattern;
    pattern.name = name;
    pattern.ranks.assign(ranks, std::vector<study::Step>(steps));
    for (const Load& load : loads) {
        const std::uint32_t step = step_of(load.from, load.to);
        for (std::uint64_t i = 0; i < load.messages; ++i) {
            pattern.ranks[load.from][step].sends.push_back({load.to, load.bytes});
            pattern.ranks[load.to][step].receives.push_back({load.from, load.bytes});
        }
    }
    return pattern;
}

// Removes steps without a message.
study::Pattern without_gaps(study::Pattern pattern) {
    for (std::size_t step = pattern.steps(); step-- > 0;) {
        const bool used =
            std::any_of(pattern.ranks.begin(), pattern.ranks.end(),
                        [step](const auto& rank) { return !rank[step].sends.empty(); });
        if (!used) {
            for (auto& rank : pattern.ranks) {
                rank.erase(rank.begin() + static_cast<std::ptrdiff_t>(step));
            }
        }
    }
    return pattern;
}

} // namespace

OrderedTraffic order_traffic(const TrafficMatrix& traffic,
                             const std::vector<std::uint32_t>& hosts) {
    OrderedTraffic out;
    const std::vector<PairTraffic> pairs = heaviest_between_hosts(traffic, hosts);
    if (pairs.empty()) {
        return out;
    }
    const std::vector<Load> loads = loads_of(pairs);
    Bytes all = 0;
    Bytes taken = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        all += pairs[i].bytes;
        taken += i < loads.size() ? pairs[i].bytes : 0;
    }
    out.share = static_cast<double>(taken) / static_cast<double>(all);
    const std::uint32_t ranks = traffic.ranks;
    out.orders.push_back(without_gaps(
        pattern_of("shifted", ranks, loads, ranks, [ranks](std::uint32_t from, std::uint32_t to) {
            return (to + ranks - from) % ranks;
        })));
    out.orders.push_back(
        without_gaps(pattern_of("paired", ranks, loads, std::bit_ceil(ranks),
                                [](std::uint32_t from, std::uint32_t to) { return from ^ to; })));
    out.orders.push_back(
        pattern_of("together", ranks, loads, 1, [](std::uint32_t, std::uint32_t) { return 0u; }));
    return out;
}

} // namespace adaptib::advise
