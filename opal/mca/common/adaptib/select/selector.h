// SPDX-License-Identifier: BSD-3-Clause
// Selector: decides when to change to another mapping of channels; its time window follows the
// program's phases.
//
// Purpose: once per period, given the messages of the period, compares the mapping in use with two
// others: the best one for the window by which the mapping in use was chosen, extended to now, and
// the best one for a window half as long that ends now. Takes the one that saves most per message,
// if that is more than a threshold. A stable pattern makes the window grow and the decision firm;
// the short window notices a change. The long window's choice is not taken if it would have cost
// time in the short one: then the older past does not count any more.
// Threads: one at a time. Not for the critical path: some microseconds per period.
// Source: Takagi et al., section 3.4 (steps T1 to T4).
// May touch: base/.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "select/history.h"
#include "select/mapping.h"

namespace adaptib {

class Selector {
public:
    // Table 2: gamma, nanoseconds per message, for the table's r of 150 ns; scaled in proportion to
    // r.
    static constexpr double kThreshold = 25;

    enum class Step : std::uint8_t { none, first, extended, shrunk };
    struct Gains {
        double extended = 0; // per message, over the mapping in use
        double shrunk = 0;
    };

    explicit Selector(const ChannelCosts& costs, double threshold = kThreshold)
        : costs_(costs), threshold_(threshold) {}

    // Sets the costs known by now, which the next tick uses.
    void use(const ChannelCosts& costs) { costs_ = costs; }
    // Sets the mapping in use, if it is not the last chosen one: channels were not available, or
    // others exist.
    void now_in_use(Mapping mapping) { mapping_ = std::move(mapping); }
    // Sets the sources, sorted, that run on the same processor as this process. What either end of
    // a message saves is time of both, so their messages count twice; of other sources only what
    // this end saves counts.
    void now_beside(std::vector<std::uint64_t> sources) { beside_ = std::move(sources); }
    // Ends one more period. none: mapping() stays.
    Step tick(std::vector<SourceCount> counts, const ChannelLimits& limits);

    const Mapping& mapping() const { return mapping_; }
    const Gains& gains() const { return gains_; } // of the last tick that was not the first
    // The window by which the mapping in use was chosen: [begin, end) in periods.
    std::uint64_t begin() const { return begin_; }
    std::uint64_t end() const { return end_; }
    std::size_t memory_bytes() const { return history_.memory_bytes(); }

private:
    bool is_outdated(const Mapping& extended);
    // Finds the best mapping for [from, now); returns its gain over the one in use, per message.
    double compare(std::uint64_t from, const ChannelLimits& limits, Mapping& best);
    void move_to(Mapping& mapping, std::uint64_t from);

    ChannelCosts costs_;
    double threshold_;
    History history_;
    Mapping mapping_;
    std::vector<std::uint64_t> beside_;
    Gains gains_;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    History::Window window_; // scratch
    std::vector<SourceCount> sorted_;
};

} // namespace adaptib
