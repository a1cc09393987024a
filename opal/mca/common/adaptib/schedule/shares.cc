// SPDX-License-Identifier: BSD-3-Clause
// Cutting a transfer in proportion to weights, and learning weights (schedule/policies.h).
#include <algorithm>
#include <cmath>

#include "base/invariant.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

// Time that posting, acknowledging and completing a further stripe costs both sides.
constexpr double kStripeSeconds = 1e-6;
constexpr double kRounding = 1 + 1e-9; // equal weights may differ in their last digits
[[maybe_unused]] constexpr double kRoundingOfSum = 1e-6;
constexpr double kReturned = 1.0 / 8;    // initial part of its share for a path that is up again
constexpr double kGrowth = 1.25;         // growth of that part with each transfer that is planned
constexpr double kLeastStride = 1.0 / 8; // least part of alpha, while lessons are contradictory
constexpr double kLonger = 1.5;          // growth of that part with each lesson that is not
// Part of the sum of weights that each path keeps, so that it can recover.
constexpr double kLeastPart = 1.0 / 1024;

// Insertion sort: equal shares keep their order and, unlike in std::stable_sort, nothing is
// allocated.
template <typename Key> void sort_by(std::span<Share> shares, Key&& key) {
    for (std::size_t i = 1; i < shares.size(); ++i) {
        const Share share = shares[i];
        const double own = key(share);
        std::size_t at = i;
        for (; at > 0 && own < key(shares[at - 1]); --at) {
            shares[at] = shares[at - 1];
        }
        shares[at] = share;
    }
    ADAPTIB_AUDIT(
        std::is_sorted(shares.begin(), shares.end(),
                       [&key](const Share& a, const Share& b) { return key(a) < key(b); }),
        "shares are in the order of their keys", shares.size());
}

} // namespace

Bytes least_stripe(const SubchannelStats& path, Bytes min_stripe) {
    const auto worth = static_cast<Bytes>(static_cast<double>(path.rate.value) * kStripeSeconds);
    return std::max(min_stripe > 0 ? min_stripe : worth, kCacheLine);
}

double nominal_rate(const SubchannelStats& path, std::span<const SubchannelStats> up) {
    if (path.rate.value > 0) {
        return static_cast<double>(path.rate.value);
    }
    std::uint64_t slowest = 0;
    for (const SubchannelStats& other : up) {
        const std::uint64_t rate = other.rate.value;
        slowest = slowest == 0 || (rate > 0 && rate < slowest) ? rate : slowest;
    }
    return std::max(1.0, static_cast<double>(slowest));
}

double first_weight(const SubchannelStats& path, std::span<const SubchannelStats> up) {
    const double rate = nominal_rate(path, up);
    std::uint32_t nearest = path.distance;
    for (const SubchannelStats& other : up) {
        if (other.distance < nearest && nominal_rate(other, up) == rate) {
            nearest = other.distance;
        }
    }
    return rate * (std::max(1.0, static_cast<double>(nearest)) /
                   std::max(1.0, static_cast<double>(path.distance)));
}

void heaviest_first(std::span<Share> shares) {
    sort_by(shares, [](const Share& share) { return -share.weight; });
}

void divide(Bytes length, Bytes min_stripe, std::span<Share> shares, StripePlan& out) {
    ADAPTIB_INVARIANT(!shares.empty(), "a transfer has a path", length);
    heaviest_first(shares);
    double all = 0;
    for (const Share& share : shares) {
        all += share.weight;
    }
    const auto total = static_cast<double>(length);
    while (shares.size() > 1) {
        const Share& lightest = shares.back();
        const auto least = static_cast<double>(least_stripe(*lightest.path, min_stripe));
        if (total * lightest.weight * kRounding >= least * all) {
            break;
        }
        all -= lightest.weight;
        shares = shares.first(shares.size() - 1);
    }
    ADAPTIB_INVARIANT(all > 0, "the share of a path is positive", shares.size(), length);
    double carried = 0;
    Bytes offset = 0;
    for (std::size_t i = 0; i < shares.size() && offset < length; ++i) {
        carried += shares[i].weight;
        const auto end = static_cast<Bytes>(total * (carried / all));
        const bool last = i + 1 == shares.size();
        const Bytes next = last ? length : std::min(length, round_up(end, kCacheLine));
        ADAPTIB_INVARIANT(next >= offset, "a transfer is cut from its front to its end", offset,
                          next);
        append_stripes(*shares[i].path, offset, next - offset, out);
        offset = next;
    }
    ADAPTIB_INVARIANT(offset == length, "a transfer is cut to its end", offset, length);
}

bool share_ports(std::span<const SubchannelStats> up) {
    std::uint64_t seen = 0; // bits of ports below 64; a port beyond counts as shared
    for (const SubchannelStats& path : up) {
        const std::uint64_t bit = path.port < 64 ? std::uint64_t{1} << path.port : seen;
        if ((seen & bit) != 0) {
            return true;
        }
        seen |= bit;
    }
    return false;
}

void level(const TransferShape& transfer, std::vector<Share>& shares) {
    const auto load = [&transfer](const Share& share) {
        const auto direction = static_cast<std::size_t>(transfer.direction);
        return static_cast<double>(share.path->outstanding[direction]);
    };
    const auto end = [&load](const Share& share) { return load(share) / share.weight; };
    sort_by(shares, end);
    // Fills paths until the next one is busy for longer than the filled ones would be with the
    // transfer.
    double bytes = static_cast<double>(transfer.length);
    double rates = 0;
    std::size_t filled = 0;
    for (const Share& share : shares) {
        if (filled > 0 && bytes <= end(share) * rates) {
            break;
        }
        bytes += load(share);
        rates += share.weight;
        ++filled;
    }
    ADAPTIB_INVARIANT(filled > 0 && rates > 0, "one path at least carries a transfer", filled,
                      shares.size());
    shares.resize(filled);
    for (Share& share : shares) {
        share.weight = std::max(bytes / rates * share.weight - load(share), 1.0);
    }
}

double PathWeights::of(std::uint32_t subchannel, double first) {
    if (subchannel >= paths_.size()) {
        paths_.resize(subchannel + 1);
    }
    ADAPTIB_INVARIANT(first > 0, "the initial weight of a path is positive", subchannel);
    Path& path = paths_[subchannel];
    if (path.first == 0) {
        path.first = path.weight = first;
    }
    return path.weight;
}

double PathWeights::known(std::uint32_t subchannel) const {
    return subchannel < paths_.size() ? paths_[subchannel].weight : 0;
}

void PathWeights::forget(std::uint32_t subchannel) {
    if (subchannel < paths_.size()) {
        end_growth(paths_[subchannel]);
        paths_[subchannel].weight = paths_[subchannel].first;
    }
}

double PathWeights::sum() const {
    double sum = 0;
    for (const Path& path : paths_) {
        sum += path.weight;
    }
    return sum;
}

void PathWeights::come_back(std::uint64_t returned, std::uint64_t stayed) {
    stride_ = 1;
    const double all = sum();
    double weight = 0;
    double first = 0;
    for (std::size_t i = 0; i < paths_.size() && i < 64; ++i) {
        if ((stayed >> i & 1) != 0) {
            weight += paths_[i].weight;
            first += paths_[i].first;
        }
    }
    for (std::size_t i = 0; i < paths_.size() && i < 64 && first > 0; ++i) {
        Path& path = paths_[i];
        if ((returned >> i & 1) != 0 && path.first > 0) {
            const double share = weight * (path.first / first);
            growing_ += path.goal == 0 ? 1 : 0;
            path.goal = share;
            path.weight = std::min(path.weight, kReturned * share);
        }
    }
    // Two paths that return in turn would make each other's weight smaller for ever.
    scale(all > 0 ? all / sum() : 1);
}

void PathWeights::grow_all() {
    ADAPTIB_AUDIT(std::count_if(paths_.begin(), paths_.end(),
                                [](const Path& path) { return path.goal > 0; }) ==
                      static_cast<std::ptrdiff_t>(growing_),
                  "the paths that grow to a goal are counted", growing_);
    for (Path& path : paths_) {
        if (path.goal > 0) {
            path.weight = std::min(path.goal, kGrowth * path.weight);
            if (path.weight == path.goal) {
                end_growth(path);
            }
        }
    }
}

void PathWeights::age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length, Bytes least) {
    ADAPTIB_INVARIANT(subchannel < paths_.size() && carrier < paths_.size(),
                      "a path that ages has a weight, and so has the carrier", subchannel, carrier,
                      paths_.size());
    double first = 0;
    for (const Path& path : paths_) {
        first += path.first;
    }
    Path& path = paths_[subchannel];
    const double all = sum();
    const double part = path.first / (path.first + paths_[carrier].first);
    if (path.goal == 0 && static_cast<double>(length) * part >= static_cast<double>(least)) {
        path.weight += ageing_ * (all * (path.first / first) - path.weight);
        scale(all / sum());
    }
}

void PathWeights::end_growth(Path& path) {
    ADAPTIB_INVARIANT(path.goal == 0 || growing_ > 0, "a path that grows to a goal is counted",
                      growing_);
    growing_ -= path.goal > 0 ? 1 : 0;
    path.goal = 0;
}

bool PathWeights::learn(std::span<const StripeTime> times, bool careful) {
    std::size_t compared = 0;
    double used_weight = 0;
    double speeds = 0;
    double first = 0;
    double lengths = 0;
    double ahead = 0;
    for (Path& path : paths_) {
        path.used = false;
        first += path.first;
    }
    for (const StripeTime& time : times) {
        if (time.subchannel >= paths_.size() || paths_[time.subchannel].used ||
            paths_[time.subchannel].first == 0 || time.seconds <= 0) {
            continue; // the first stripe counts for a path that had several
        }
        Path& path = paths_[time.subchannel];
        path.used = true;
        ++compared;
        end_growth(path);
        path.speed = static_cast<double>(time.length) / time.seconds;
        used_weight += path.weight;
        speeds += path.speed;
        lengths += static_cast<double>(time.length);
        ahead += static_cast<double>(time.ahead);
    }
    if (compared < 2) { // one path alone compares with nothing
        return false;
    }
    ADAPTIB_INVARIANT(used_weight > 0 && speeds > 0, "paths that were timed carried something",
                      compared, times.size());
    const double unit = used_weight / speeds;
    double all = 0;
    double turn = 0; // < 0: this lesson takes back the last one
    for (Path& path : paths_) {
        const double step = path.used ? unit * path.speed - path.weight : 0;
        turn += step * path.step;
        path.step = step;
        all += path.weight;
    }
    if (careful) {
        stride_ = turn < 0 ? std::max(stride_ / 2, kLeastStride) : std::min(stride_ * kLonger, 1.0);
    }
    const double stride = alpha_ * (careful ? stride_ : 1.0) * lengths / (lengths + ahead);
    for (Path& path : paths_) {
        if (path.used) {
            path.weight += stride * path.step;
        } else if (path.first > 0) {
            path.weight += ageing_ * (all * (path.first / first) - path.weight);
        }
        path.weight = std::max(path.weight, path.first == 0 ? 0 : all * kLeastPart);
    }
    scale(all / sum()); // restores the sum, which aging has changed
    ADAPTIB_AUDIT(std::abs(sum() - all) <= all * kRoundingOfSum,
                  "a lesson keeps the sum of the weights", compared, paths_.size());
    return true;
}

void PathWeights::scale(double by) {
    ADAPTIB_INVARIANT(by > 0, "weights stay positive", paths_.size());
    for (Path& path : paths_) {
        path.weight *= by;
        path.goal *= by;
        path.step *= by;
    }
}

void WeightsByLength::come_back(std::uint64_t returned, std::uint64_t stayed) {
    for (PathWeights& weights : classes_) {
        weights.come_back(returned, stayed);
    }
}

PathWeights& WeightsByLength::own(std::size_t at) {
    if (!learnt_[at]) {
        learnt_[at] = true;
        classes_[at] = classes_[last_];
    }
    return classes_[at];
}

void WeightsByLength::age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length,
                          Bytes least) {
    own(class_of(length)).age(subchannel, carrier, length, least);
}

bool WeightsByLength::learn(std::span<const StripeTime> times, bool careful) {
    Bytes length = 0;
    for (const StripeTime& time : times) {
        length += time.length;
    }
    const std::size_t at = class_of(length);
    const bool learnt = own(at).learn(times, careful);
    last_ = learnt ? at : last_;
    return learnt;
}

} // namespace adaptib
