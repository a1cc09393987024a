// SPDX-License-Identifier: BSD-3-Clause
// Pairing the rails of two processes (peer/route.h).
#include "peer/route.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

namespace adaptib {

void pair_rails(PeerRoute& route, bool lower, const OfRails& subnet_match, const OfRails& rate) {
    struct Choice {
        std::uint32_t subnet_match;
        std::uint32_t rate;
        PeerRoute::Pair pair;
    };
    std::vector<Choice> choices;
    for (std::uint32_t i = route.local.first; i < route.local.end(); ++i) {
        for (std::uint32_t j = route.remote.first; j < route.remote.end(); ++j) {
            if (const std::uint32_t match = subnet_match(i, j); match != kNoPair) {
                choices.push_back(
                    {match,
                     rate(i, j),
                     {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(j), 0}});
            }
        }
    }
    std::sort(choices.begin(), choices.end(), [lower](const Choice& a, const Choice& b) {
        const auto lower_of = [lower](const PeerRoute::Pair& pair) {
            return lower ? pair.local : pair.remote;
        };
        const auto higher_of = [lower](const PeerRoute::Pair& pair) {
            return lower ? pair.remote : pair.local;
        };
        return a.subnet_match != b.subnet_match       ? a.subnet_match > b.subnet_match
               : a.rate != b.rate                     ? a.rate > b.rate
               : lower_of(a.pair) != lower_of(b.pair) ? lower_of(a.pair) < lower_of(b.pair)
                                                      : higher_of(a.pair) < higher_of(b.pair);
    });
    std::bitset<kMaxRails> ours;
    std::bitset<kMaxRails> theirs;
    route.count = 0;
    std::vector<Choice> spare;
    std::uint32_t least = 0;
    for (const Choice& choice : choices) {
        const PeerRoute::Pair& pair = choice.pair;
        if (!ours[pair.local] && !theirs[pair.remote]) {
            ours.set(pair.local);
            theirs.set(pair.remote);
            route.pairs[route.count++] = pair;
            least = choice.subnet_match;
        } else {
            spare.push_back(choice);
        }
    }
    route.total = route.count;
    for (const Choice& choice : spare) {
        // Other pairs join networks that have nothing to do with each other; but the first rails of
        // both sides may be all that there is for datagrams.
        const bool firsts =
            choice.pair.local == route.local.first && choice.pair.remote == route.remote.first;
        if (choice.subnet_match >= least || firsts) {
            route.pairs[route.total++] = choice.pair;
        }
    }
}

void add_paths(PeerRoute& route, const OfRails& paths) {
    const std::size_t pairs = route.count;
    const std::vector<PeerRoute::Pair> spare(route.pairs.begin() + route.count,
                                             route.pairs.begin() + route.total);
    std::array<std::uint32_t, kMaxRails> of_pair{};
    for (std::size_t i = 0; i < pairs; ++i) {
        of_pair[i] = paths(route.pairs[i].local, route.pairs[i].remote);
    }
    for (std::uint8_t path = 1; path < kMaxSubchannels; ++path) {
        for (std::size_t i = 0; i < pairs && route.count < kMaxSubchannels; ++i) {
            if (path < of_pair[i]) {
                route.pairs[route.count] = route.pairs[i];
                route.pairs[route.count++].path = path;
            }
        }
    }
    std::copy(spare.begin(), spare.end(), route.pairs.begin() + route.count);
    route.total = static_cast<std::uint8_t>(route.count + spare.size());
}

std::vector<std::uint8_t> pair_anew(PeerRoute& route, std::span<const std::uint8_t> order) {
    std::bitset<kMaxRails> ours;
    std::bitset<kMaxRails> theirs;
    std::vector<std::uint8_t> chosen;
    for (const std::uint8_t number : order) {
        const PeerRoute::Pair& pair = route.pairs[number];
        if (!ours[pair.local] && !theirs[pair.remote]) {
            ours.set(pair.local);
            theirs.set(pair.remote);
            chosen.push_back(number);
        }
    }
    const auto* const begin = route.pairs.begin();
    const bool one_path = std::all_of(begin, begin + route.count,
                                      [](const PeerRoute::Pair& pair) { return pair.path == 0; });
    if (!one_path || chosen.size() != route.count) {
        return {};
    }
    std::vector<std::uint8_t> numbers;
    const auto take = [&](auto found) {
        numbers.push_back(*found);
        chosen.erase(found);
    };
    std::vector<std::uint8_t> places; // of rails that are not chosen any more
    for (std::uint8_t i = 0; i < route.count; ++i) {
        const auto same = std::find_if(chosen.begin(), chosen.end(), [&](std::uint8_t number) {
            return route.pairs[number].local == route.pairs[i].local;
        });
        if (same != chosen.end()) {
            take(same);
        } else {
            places.push_back(i);
            numbers.push_back(0);
        }
    }
    for (const std::uint8_t place : places) {
        numbers[place] = chosen.front();
        chosen.erase(chosen.begin());
    }
    for (std::uint8_t i = 0; i < route.total; ++i) {
        if (std::find(numbers.begin(), numbers.begin() + route.count, i) ==
            numbers.begin() + route.count) {
            numbers.push_back(i);
        }
    }
    if (std::is_sorted(numbers.begin(), numbers.end())) {
        return {};
    }
    const auto before = route.pairs;
    for (std::uint8_t i = 0; i < route.total; ++i) {
        route.pairs[i] = before[numbers[i]];
    }
    return numbers;
}

} // namespace adaptib
