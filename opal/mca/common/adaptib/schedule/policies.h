// SPDX-License-Identifier: BSD-3-Clause
// The policies, for make_scheduler, and what they share.
//
// plan() appends stripes as Scheduler::plan does; it is not asked for transfers below kLeastSpread, nor, for
// striping, below the threshold, nor where there is one subchannel only.
// May touch: base/ only.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "schedule/scheduler.h"

namespace adaptib {

// Atomics of one process have to go through one adapter, and shorter transfers gain nothing from
// another one: below this length everything goes over one subchannel.
constexpr Bytes kLeastSpread = 64;

// Policies that learn plan as much of a transfer at once: long beside what two further stripes cost, short
// beside what a wrong weight costs.
constexpr Bytes kRound = 512 * kKiB;

// [offset, offset + length) over one subchannel, in pieces that it can carry.
inline void append_stripes(const SubchannelView& chosen, Bytes offset, Bytes length,
                           std::vector<Stripe>& out) {
    for (const Bytes end = offset + length; offset < end;) {
        const Bytes part = std::min(end - offset, chosen.max_stripe);
        out.push_back({chosen.index, offset, part});
        offset += part;
    }
}

// A subchannel's part of a transfer, in any unit.
struct Share {
    const SubchannelView* path = nullptr;
    double weight = 0; // > 0
};

// What is shorter than this costs more as a stripe of its own than it gains: what the path carries in the
// time that posting and completing a further stripe takes, if min_stripe does not say.
Bytes least_stripe(const SubchannelView& path, Bytes min_stripe);

// The path's nominal rate; if it is not known, the slowest that is known of those that are up. > 0
double nominal_rate(const SubchannelView& path, std::span<const SubchannelView> up);

// What the weight of a path begins with: its nominal rate, of which a port that is further from the process than
// others of that rate has as much less (hwloc's distances, as the firmware tells them). > 0
double first_weight(const SubchannelView& path, std::span<const SubchannelView> up);

// Equal ones keep their order.
void heaviest_first(std::span<Share> shares);

// Cuts [0, length) into parts in proportion to the weights, in whole cache lines, heaviest first; the
// lightest get nothing where that would be less than their least stripe. Sorts `shares`.
void divide(Bytes length, Bytes min_stripe, std::span<Share> shares, std::vector<Stripe>& out);

// Whether a port has several of the paths.
bool share_ports(std::span<const SubchannelView> up);

// Makes shares of which the weights are rates, in any unit, such that all paths end at the same time, with
// what they have under way in that direction: the least loaded are filled up first, those that would
// be busy for longer anyway are left out (Vishnu, 5.2.2).
void level(const TransferView& transfer, std::vector<Share>& shares);

// Weights of paths, learnt from stripe times (Vishnu, equations 7.4 and 8.1). What was posted behind other stripes counts
// the less the more these were: all that was planned with the same weights teaches as much as one transfer.
class PathWeights {
public:
    // `ageing`: how far, per transfer, paths without a part in it go back to what they began with.
    PathWeights(double alpha, double ageing) : alpha_(alpha), ageing_(ageing) {}

    // The path's weight; what it begins with if it is new.
    double of(const SubchannelView& path, std::span<const SubchannelView> up) {
        const double weight = known(path.index);
        return weight > 0 ? weight : of(path.index, first_weight(path, up));
    }
    double of(std::uint32_t subchannel, double first); // `first` > 0
    // Of a path that is known; else 0.
    double known(std::uint32_t subchannel) const;
    double sum() const;
    double part(std::uint32_t subchannel) const { return known(subchannel) / std::max(1.0, sum()); }
    // It weighs again what it began with.
    void forget(std::uint32_t subchannel);
    // These paths (bits) are back, and those have carried all without them: they begin with little, and earn their
    // share, by their times or, where they get no part, with each transfer that is planned.
    void come_back(std::uint64_t returned, std::uint64_t stayed);
    void grow() { // a transfer is planned
        if (growing_ > 0) [[unlikely]] {
            grow_all();
        }
    }
    // The path had no part in a transfer that teaches nothing, since another carries all of it: it goes back a little
    // to what it began with, if it would have a part of `least` or more then.
    void age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length, Bytes least);
    // What these paths weigh together is dealt out anew among them, in proportion to what they carried
    // per second. `careful`: steps become shorter while each lesson takes back what the one before said, and longer again
    // once they keep their direction. For ports, whose times do not grow in proportion to their parts where they save
    // something up or begin late; paths of one port contradict each other for other reasons. False: fewer than two were timed.
    bool learn(std::span<const StripeTime> times, bool careful);

private:
    struct Path {
        double first = 0; // 0: not met yet
        double weight = 0;
        double goal = 0;   // 0: it does not grow by itself
        double step = 0;   // which the last lesson wanted; 0: it had no part
        bool used = false; // scratch of learn
        double speed = 0;
    };
    void grow_all();
    void end_growth(Path& path);
    void scale(double by); // all that is in the unit of weights

    double alpha_;
    double ageing_;
    double stride_ = 1;       // of alpha_, of careful steps
    std::size_t growing_ = 0; // paths with a goal
    std::vector<Path> paths_; // by subchannel
};

// The same of short, longer and long transfers apart. What a stripe takes whatever its length, and what a path saves up
// while it is idle, counts the more the shorter it is: weights with which the parts of 16 KiB end at the same time are far off
// for 256 KiB. Of lengths of which nothing was learnt those count that were learnt last.
class WeightsByLength {
public:
    WeightsByLength(double alpha, double ageing)
        : classes_{PathWeights{alpha, ageing}, PathWeights{alpha, ageing},
                   PathWeights{alpha, ageing}} {}

    // For planning a transfer, or a round of it, of that length.
    PathWeights& of(Bytes length) {
        const std::size_t at = class_of(length);
        return classes_[learnt_[at] ? at : last_];
    }
    // Those that were learnt last.
    const PathWeights& last() const { return classes_[last_]; }
    void come_back(std::uint64_t returned, std::uint64_t stayed);
    // As PathWeights; `times` are of most of one transfer or round.
    void age(std::uint32_t subchannel, std::uint32_t carrier, Bytes length, Bytes least);
    bool learn(std::span<const StripeTime> times, bool careful);

private:
    static constexpr std::size_t kClasses = 3; // below 64 KiB, below 256 KiB, the rest
    static std::size_t class_of(Bytes length) {
        return length < 64 * kKiB ? 0 : length < 256 * kKiB ? 1 : 2;
    }
    PathWeights& own(std::size_t at); // which begin with those that were learnt last
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
