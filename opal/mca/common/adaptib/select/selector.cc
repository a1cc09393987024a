// SPDX-License-Identifier: BSD-3-Clause
// Selector: comparison and change of mappings (select/selector.h).
#include "select/selector.h"

#include <algorithm>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

double Selector::compare(std::uint64_t from, const ChannelLimits& limits, Mapping& best) {
    history_.sum(from, window_);
    if (window_.messages <= 0) {
        return 0;
    }
    for (SourceCount& count : window_.counts) {
        count.count *= std::binary_search(beside_.begin(), beside_.end(), count.source) ? 2 : 1;
    }
    ADAPTIB_AUDIT(std::is_sorted(beside_.begin(), beside_.end()),
                  "the sources beside this process are sorted", beside_.size());
    const double current = gain_of(mapping_, window_.counts, costs_);
    sorted_ = window_.counts;
    Choice choice = find_mapping(sorted_, costs_, limits);
    best = std::move(choice.mapping);
    return (choice.gain - current) / window_.messages;
}

void Selector::move_to(Mapping& mapping, std::uint64_t from) {
    ADAPTIB_INVARIANT(from < history_.now(), "a window has a period", from, history_.now());
    mapping_ = std::move(mapping);
    begin_ = from;
    end_ = history_.now();
}

// True if in the short window `extended` is worse than the mapping in use. REQUIRES: window_ is the
// short one.
bool Selector::is_outdated(const Mapping& extended) {
    return window_.messages > 0 &&
           gain_of(extended, window_.counts, costs_) < gain_of(mapping_, window_.counts, costs_);
}

Selector::Step Selector::tick(std::vector<SourceCount> counts, const ChannelLimits& limits) {
    const double threshold = threshold_ * costs_.connected_ring / ChannelCosts{}.connected_ring;
    history_.add(std::move(counts));
    if (end_ == 0) { // T1
        Mapping best;
        if (compare(0, limits, best) > (mapping_.rings() > 0 ? threshold : 0)) {
            mapping_ = std::move(best);
        }
        end_ = history_.now();
        return Step::first;
    }
    ADAPTIB_INVARIANT(begin_ < end_ && end_ < history_.now(),
                      "the mapping in use was chosen by a window of the past", begin_, end_,
                      history_.now());
    const std::uint64_t half = std::max<std::uint64_t>(1, (end_ - begin_) / 2);
    const std::uint64_t late = history_.now() - half;
    Mapping extended;
    Mapping shrunk;
    gains_.extended = compare(begin_, limits, extended); // T2
    gains_.shrunk = compare(late, limits, shrunk);       // T3
    if (std::max(gains_.extended, gains_.shrunk) <= threshold) {
        return Step::none; // T4
    }
    const bool outdated = gains_.extended > threshold && is_outdated(extended);
    if (gains_.shrunk > threshold && (outdated || gains_.shrunk > gains_.extended)) {
        move_to(shrunk, late);
        return Step::shrunk;
    }
    if (outdated) {
        begin_ = late;
        end_ = history_.now();
        return Step::none;
    }
    move_to(extended, begin_);
    return Step::extended;
}

} // namespace adaptib
