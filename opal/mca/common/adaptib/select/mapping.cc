// SPDX-License-Identifier: BSD-3-Clause
// Search for the best mapping of channels to sources (select/mapping.h).
#include "select/mapping.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "base/invariant.h"

namespace adaptib {

namespace {

bool busier(const SourceCount& a, const SourceCount& b) {
    return a.count != b.count ? a.count > b.count : a.source < b.source;
}

// The best result so far: l rings, and how many of them are connections.
struct Best {
    std::size_t rings = 0;
    std::size_t connections = 0;
    double gain = 0;
};

// For a given number of rings, one more connection among them saves n (r - d) - (rho - delta) more,
// and n falls from source to source. If a connection saves at least as much per message as a shared
// ring (r >= d), connections are added as long as that is positive. If not, the sum falls first or
// grows throughout, so the best is none or all.
class Search {
public:
    Search(std::span<const SourceCount> sorted, const ChannelCosts& costs,
           const ChannelLimits& limits)
        : sorted_(sorted), costs_(costs), limits_(limits) {}

    Best run() { return costs_.change > 0 && limits_.shared_rings ? run_changing() : run_plain(); }

private:
    Best run_plain() {
        const double polls = sorted_.empty() ? 0 : sorted_[0].count / 2 * costs_.poll;
        Best best;
        for (std::size_t l = 1; l <= sorted_.size(); ++l) {
            add(sorted_[l - 1].count);
            if (!limits_.shared_rings && connections_ < l) {
                break;
            }
            const double gain = saved_ - polls * static_cast<double>(l);
            if (gain > best.gain) {
                best = {l, connections_, gain};
            }
        }
        return best;
    }

    // The published double loop, over sums. If a change costs more than a ring saves, few of its
    // pairs are possible.
    Best run_changing() {
        const std::size_t all = sorted_.size();
        std::vector<double> sums(all + 1, 0);
        for (std::size_t i = 0; i < all; ++i) {
            sums[i + 1] = sums[i] + sorted_[i].count;
        }
        const double polls = all == 0 ? 0 : sorted_[0].count / 2 * costs_.poll;
        const double credit = costs_.credit / costs_.ring_messages;
        const std::size_t most = shared_most(costs_);
        Best best;
        for (std::size_t l = 1; l <= all; ++l) {
            for (std::size_t m = l - std::min(l, most); m <= std::min(l, limits_.connections);
                 ++m) {
                const std::size_t steady = std::min(l - m, costs_.initiators);
                const double gain = sums[m] * costs_.connected_ring +
                                    (sums[l] - sums[m]) * costs_.shared_ring -
                                    (sums[l] - sums[m + steady]) * costs_.change -
                                    sums[l] * credit - static_cast<double>(m) * costs_.establish -
                                    static_cast<double>(l - m) * costs_.establish_shared -
                                    polls * static_cast<double>(l);
                if (gain > best.gain) {
                    best = {l, m, gain};
                }
            }
        }
        return best;
    }

    // Adds the ring of one more source; the sources before it keep their kind, or all change it.
    void add(double count) {
        const double shared = of(count, costs_.shared_ring, costs_.establish_shared);
        const double connected = of(count, costs_.connected_ring, costs_.establish);
        saved_shared_ += shared;
        if (counted_ < limits_.connections) {
            saved_connected_ += connected;
        } else {
            saved_connected_ += shared;
        }
        ++counted_;
        if (!limits_.shared_rings || costs_.connected_ring < costs_.shared_ring) {
            const bool all = !limits_.shared_rings || saved_connected_ > saved_shared_;
            connections_ = all ? std::min(counted_, limits_.connections) : 0;
            saved_ = all ? saved_connected_ : saved_shared_;
        } else if (connections_ < limits_.connections && connected > shared) {
            ++connections_;
            saved_ += connected;
        } else {
            saved_ += shared;
        }
        ADAPTIB_INVARIANT(connections_ <= counted_ && connections_ <= limits_.connections,
                          "connections are some of the rings, up to their limit", connections_,
                          counted_, limits_.connections);
    }
    double of(double count, double per_message, double establish) const {
        return count * (per_message - costs_.credit / costs_.ring_messages) - establish;
    }

    std::span<const SourceCount> sorted_;
    const ChannelCosts& costs_;
    const ChannelLimits& limits_;
    std::size_t counted_ = 0;
    std::size_t connections_ = 0;
    double saved_ = 0;
    double saved_shared_ = 0;
    double saved_connected_ = 0; // with as many connections as allowed
};

double count_of(std::span<const SourceCount> counts, std::uint64_t source) {
    const auto at =
        std::lower_bound(counts.begin(), counts.end(), source,
                         [](const SourceCount& c, std::uint64_t name) { return c.source < name; });
    return at != counts.end() && at->source == source ? at->count : 0;
}

} // namespace

std::size_t shared_most(const ChannelCosts& costs) {
    const double saved = costs.shared_ring - costs.credit / costs.ring_messages;
    return costs.change > 0 && costs.change >= saved ? costs.initiators
                                                     : std::numeric_limits<std::size_t>::max();
}

Choice find_mapping(std::vector<SourceCount>& counts, const ChannelCosts& costs,
                    const ChannelLimits& limits) {
    const auto end = std::partition(counts.begin(), counts.end(),
                                    [](const SourceCount& c) { return c.count > 0; });
    const auto active = static_cast<std::size_t>(end - counts.begin());
    const std::size_t most = std::min(limits.rings, active);
    const auto last = counts.begin() + static_cast<std::ptrdiff_t>(most);
    if (most < active) {
        std::nth_element(counts.begin(), last, end, busier);
    }
    std::sort(counts.begin(), last, busier);
    const Best best = Search(std::span(counts).first(most), costs, limits).run();
    ADAPTIB_INVARIANT(best.connections <= best.rings && best.rings <= most &&
                          best.connections <= limits.connections,
                      "a mapping keeps to its limits", best.connections, best.rings, most,
                      limits.connections);
    Choice choice;
    choice.gain = best.gain;
    for (std::size_t i = 0; i < best.rings; ++i) {
        Mapping& mapping = choice.mapping;
        (i < best.connections ? mapping.connected : mapping.shared).push_back(counts[i].source);
    }
    std::sort(choice.mapping.connected.begin(), choice.mapping.connected.end());
    std::sort(choice.mapping.shared.begin(), choice.mapping.shared.end());
    return choice;
}

double gain_of(const Mapping& mapping, std::span<const SourceCount> counts,
               const ChannelCosts& costs) {
    ADAPTIB_AUDIT(std::is_sorted(counts.begin(), counts.end(),
                                 [](const SourceCount& a, const SourceCount& b) {
                                     return a.source < b.source;
                                 }),
                  "counts are sorted by source", counts.size());
    double busiest = 0;
    for (const SourceCount& count : counts) {
        busiest = std::max(busiest, count.count);
    }
    const double credit = costs.credit / costs.ring_messages;
    double gain = -busiest / 2 * costs.poll * static_cast<double>(mapping.rings());
    for (const std::uint64_t source : mapping.connected) {
        gain += count_of(counts, source) * (costs.connected_ring - credit);
    }
    std::vector<double> shared;
    shared.reserve(mapping.shared.size());
    for (const std::uint64_t source : mapping.shared) {
        shared.push_back(count_of(counts, source));
        gain += shared.back() * (costs.shared_ring - credit);
    }
    if (costs.change > 0 && shared.size() > costs.initiators) { // the busiest get one each
        const auto changing = shared.begin() + static_cast<std::ptrdiff_t>(costs.initiators);
        std::nth_element(shared.begin(), changing, shared.end(), std::greater<>());
        gain -= std::accumulate(changing, shared.end(), 0.0) * costs.change;
    }
    return gain;
}

} // namespace adaptib
