// SPDX-License-Identifier: BSD-3-Clause
// The policies, for make_scheduler, and the helpers that they share.
//
// Policy::plan() appends stripes as Scheduler::plan() does. The scheduler does not call it for
// transfers below kLeastSpread, nor where only one subchannel is up. It calls a striping policy
// only from the striping threshold on.
// May touch: base/ only.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/invariant.h"
#include "schedule/scheduler.h"

namespace adaptib {

// Policies that learn plan this much of a transfer at once: a lot compared with the cost of two
// further stripes, and little compared with the cost of a wrong weight.
constexpr Bytes kRound = 512 * kKiB;

// Appends [offset, offset + length) over one subchannel, in stripes that it can carry.
inline void append_stripes(const SubchannelStats& chosen, Bytes offset, Bytes length,
                           StripePlan& out) {
    ADAPTIB_INVARIANT(chosen.max_stripe > 0, "a subchannel carries a byte at least", chosen.index,
                      length);
    for (const Bytes end = offset + length; offset < end;) {
        const Bytes part = std::min(end - offset, chosen.max_stripe);
        out.push_back({chosen.index, offset, part});
        offset += part;
    }
}

// A subchannel's part of a transfer, in any unit.
struct Share {
    const SubchannelStats* path = nullptr;
    double weight = 0; // > 0
};

// Returns the least length of a stripe; a shorter one costs more than it gains. This is
// `min_stripe` or, if that is 0, what the path carries in the time that posting and completing a
// further stripe takes; at least a cache line.
Bytes least_stripe(const SubchannelStats& path, Bytes min_stripe);

// Returns the path's nominal rate; if it is not known, the slowest known rate in `up`. > 0
double nominal_rate(const SubchannelStats& path, std::span<const SubchannelStats> up);

// Returns the initial weight of a path: its nominal rate. If its port is further from the process
// than others of that rate, the weight is less in proportion to hwloc's distances, which are those
// that the firmware reports. > 0
double first_weight(const SubchannelStats& path, std::span<const SubchannelStats> up);

// Sorts by falling weight; equal shares keep their order.
void heaviest_first(std::span<Share> shares);

// Cuts [0, length) into parts in proportion to the weights, in whole cache lines, heaviest share
// first. The lightest shares get nothing if their part would be shorter than their least stripe.
// Sorts `shares`.
void divide(Bytes length, Bytes min_stripe, std::span<Share> shares, StripePlan& out);

// Returns true if several of the paths belong to one port.
bool share_ports(std::span<const SubchannelStats> up);

// Turns weights that are rates, in any unit, into parts such that all paths finish at the same
// time, including what they have under way in the transfer's direction. The least loaded paths are
// filled up first; paths that would be busy for longer anyway are left out (Vishnu, 5.2.2).
void level(const TransferShape& transfer, std::vector<Share>& shares);

// Weights of paths, learnt from stripe times (Vishnu, equations 7.4 and 8.1). A stripe counts less
// the more bytes its path had under way when it was posted: all transfers that were planned with
// the same weights teach together as much as one.
class PathWeights {
public:
    // `ageing`: the fraction by which, in each transfer, the paths without a part in it return
    // toward their initial weights.
    PathWeights(double alpha, double ageing) : alpha_(alpha), ageing_(ageing) {}

    // Returns the path's weight; a new path gets its initial weight.
    double of(const SubchannelStats& path, std::span<const SubchannelStats> up) {
        const double weight = known(path.index);
        return weight > 0 ? weight : of(path.index, first_weight(path, up));
    }
    double of(std::uint32_t subchannel, double first); // `first` > 0
    // Returns the weight of the path if it is known, else 0.
    double known(std::uint32_t subchannel) const;
    double sum() const;
    double part(std::uint32_t subchannel) const { return known(subchannel) / std::max(1.0, sum()); }
    // Resets the path to its initial weight.
    void forget(std::uint32_t subchannel);
    // Handles the return of paths (bits) that had failed, while the paths in `stayed` carried
    // everything. A returned path begins with little, and earns its share: by its times or, while
    // it gets no part, with each transfer that is planned.
    void come_back(std::uint64_t returned, std::uint64_t stayed);
    void grow() { // for each transfer that is planned
        if (growing_ > 0) [[unlikely]] {
            grow_all();
        }
    }
    // Ages a path that has no part in a transfer; `carrier` carries all of it, so nothing is
    // learnt. The path returns a little toward its initial weight, if that weight would give it a
    // part of `least` bytes or more.
    void age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length, Bytes least);
    // Redistributes the sum of the weights of the timed paths among them, in proportion to the
    // bytes that each carried per second. `careful`: steps become shorter while each lesson takes
    // back what the one before said, and longer again once they keep their direction. That is for
    // ports, whose times do not grow in proportion to their parts where ports save something up (a
    // shaper's credit) or begin late. Paths of one port contradict each other for other reasons.
    // Returns false if fewer than two paths were timed.
    bool learn(std::span<const StripeTime> times, bool careful);

private:
    struct Path {
        double first = 0; // the initial weight; 0: not seen yet
        double weight = 0;
        double goal = 0;   // the weight that it grows to by itself; 0: it does not
        double step = 0;   // the change that the last lesson asked for; 0: no part in it
        bool used = false; // scratch of learn
        double speed = 0;
    };
    void grow_all();
    void end_growth(Path& path);
    void scale(double by); // everything that is in the unit of weights

    double alpha_;
    double ageing_;
    double stride_ = 1;       // factor on alpha_ in careful steps
    std::size_t growing_ = 0; // paths with a goal
    std::vector<Path> paths_; // by subchannel
};

// PathWeights for short, longer and long transfers, learnt separately. The shorter a stripe is, the
// more its fixed cost counts, and the more what a path saves up while idle: weights with which the
// parts of 16 KiB finish at the same time are far off for 256 KiB. A class of lengths that has
// learnt nothing uses the weights that were learnt last.
class WeightsByLength {
public:
    WeightsByLength(double alpha, double ageing)
        : classes_{PathWeights{alpha, ageing}, PathWeights{alpha, ageing},
                   PathWeights{alpha, ageing}} {}

    // Returns the weights for planning a transfer of that length, or a round of one.
    PathWeights& of(Bytes length) {
        const std::size_t at = class_of(length);
        return classes_[learnt_[at] ? at : last_];
    }
    // Returns the weights that were learnt last.
    const PathWeights& last() const { return classes_[last_]; }
    void come_back(std::uint64_t returned, std::uint64_t stayed);
    // As in PathWeights; `times` cover most of one transfer or round.
    void age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length, Bytes least);
    bool learn(std::span<const StripeTime> times, bool careful);

private:
    static constexpr std::size_t kClasses = 3; // below 64 KiB, below 256 KiB, the rest
    static std::size_t class_of(Bytes length) {
        return length < 64 * kKiB ? 0 : length < 256 * kKiB ? 1 : 2;
    }
    PathWeights& own(std::size_t at); // a new class begins with the weights that were learnt last
    std::array<PathWeights, kClasses> classes_;
    std::array<bool, kClasses> learnt_{};
    std::size_t last_ = 0;
};

std::unique_ptr<Policy> make_round_robin(const SchedulerOptions& options);
std::unique_ptr<Policy> make_weighted_round_robin(const SchedulerOptions& options);
std::unique_ptr<Policy> make_window_round_robin(const SchedulerOptions& options);

std::unique_ptr<Policy> make_auto(const SchedulerOptions& options);
std::unique_ptr<Policy> make_even(const SchedulerOptions& options);
std::unique_ptr<Policy> make_weighted(const SchedulerOptions& options);
std::unique_ptr<Policy> make_adaptive(const SchedulerOptions& options);
std::unique_ptr<Policy> make_load_balanced(const SchedulerOptions& options);
std::unique_ptr<Policy> make_bss(const SchedulerOptions& options);
std::unique_ptr<Policy> make_epc(const SchedulerOptions& options);

} // namespace adaptib
