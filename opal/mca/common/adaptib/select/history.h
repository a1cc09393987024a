// SPDX-License-Identifier: BSD-3-Clause
// History: the number of messages from each source over time, fine for the recent past, coarse for
// long ago.
//
// Purpose: sums over any window of time, in memory that follows the sources that were active, not
// all that exist. Periods are kept one by one at first. Of each width there are at most kPerWidth
// buckets; beyond that the two oldest become one of twice the width (an exponential histogram).
// Counts older than the widest buckets are forgotten, and so are all but the busiest sources of a
// bucket of more than one period.
// Time counts in periods from the first add() on. A window that begins within a bucket gets its
// share of it.
// Threads: one at a time.
// Source: Takagi et al., 3.4 and table 2 keep a table of 2048 periods by all processes; exponential
//   histograms: Datar, Gionis, Indyk, Motwani, "Maintaining stream statistics over sliding
//   windows", 2002.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "select/mapping.h"

namespace adaptib {

class History {
public:
    static constexpr std::size_t kPerWidth = 8;
    static constexpr std::uint64_t kWidest = 1u << 12; // periods
    static constexpr std::size_t kSourcesMost = 1024;  // of a bucket of several periods

    struct Window {
        std::vector<SourceCount> counts; // sorted by source
        double messages = 0;             // including those of forgotten sources
    };

    // Adds one more period. REQUIRES: no source twice.
    void add(std::vector<SourceCount> counts);
    std::uint64_t now() const { return now_; }
    // Sums the messages of [from, now()).
    void sum(std::uint64_t from, Window& out) const;

    std::size_t memory_bytes() const;

private:
    struct Bucket {
        std::uint64_t begin = 0;
        std::uint64_t width = 1;
        double messages = 0;
        std::vector<SourceCount> counts; // sorted by source
    };
    void merge_oldest(std::uint64_t width);
    static void join(Bucket& into, const Bucket& later);

    std::deque<Bucket> buckets_; // oldest first, so widths fall
    std::uint64_t now_ = 0;
};

} // namespace adaptib
