// SPDX-License-Identifier: BSD-3-Clause
// When to move to another mapping of channels: the time window follows the program's phases.
//
// Purpose: once per period, given the messages of the period, compares the mapping in use with the best one for
// the window that it was chosen by, extended to now, and with the best one for a window half as long that ends
// now. The one that saves most per message is taken, if that is more than a threshold: a pattern that stays
// makes the window grow and the decision firm, one that changes is noticed by the short window. What the long window
// says is not done if in the short one it would have cost time: then what is longer ago is over.
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
    // Table 2: gamma, nanoseconds per message, where r is the 150 ns of that table; else in proportion to r.
    static constexpr double kThreshold = 25;

    enum class Step : std::uint8_t { none, first, extended, shrunk };
    struct Gains {
        double extended = 0; // per message, over the mapping in use
        double shrunk = 0;
    };

    explicit Selector(const ChannelCosts& costs, double threshold = kThreshold)
        : costs_(costs), threshold_(threshold) {}

    // What is known of costs by now; the next tick goes by it.
    void use(const ChannelCosts& costs) { costs_ = costs; }
    // The mapping in use, where it is not the last one: channels were not to be had, or others are there.
    void now_in_use(Mapping mapping) { mapping_ = std::move(mapping); }
    // Sources that take turns with us on one processor, sorted: what either end of a message saves is time of both, so
    // theirs count twice. Of the other sources only our end's is ours.
    void now_beside(std::vector<std::uint64_t> sources) { beside_ = std::move(sources); }
    // One more period has passed. none: mapping() stays.
    Step tick(std::vector<SourceCount> counts, const ChannelLimits& limits);

    const Mapping& mapping() const { return mapping_; }
    const Gains& gains() const { return gains_; } // of the last tick that was not the first
    // The window by which the mapping in use was chosen: [begin, end) in periods.
    std::uint64_t begin() const { return begin_; }
    std::uint64_t end() const { return end_; }
    std::size_t memory_bytes() const { return history_.memory_bytes(); }

private:
    bool is_outdated(const Mapping& extended);
    // The best mapping for [from, now), and what it saves more than the one in use, per message.
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
