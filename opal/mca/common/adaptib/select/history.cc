// SPDX-License-Identifier: BSD-3-Clause
// History: buckets, their merging and sums (select/history.h).
#include "select/history.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

bool by_source(const SourceCount& a, const SourceCount& b) { return a.source < b.source; }

// Adds up the counts of each source. REQUIRES: `counts` is sorted by source.
void fold(std::vector<SourceCount>& counts) {
    ADAPTIB_AUDIT(std::is_sorted(counts.begin(), counts.end(), by_source),
                  "counts are folded in the order of their sources", counts.size());
    std::size_t kept = 0;
    for (const SourceCount& count : counts) {
        if (kept > 0 && counts[kept - 1].source == count.source) {
            counts[kept - 1].count += count.count;
        } else {
            counts[kept++] = count;
        }
    }
    counts.resize(kept);
}

} // namespace

void History::add(std::vector<SourceCount> counts) {
    ADAPTIB_INVARIANT(buckets_.empty() || buckets_.back().begin + buckets_.back().width == now_,
                      "periods follow each other without a gap", now_, buckets_.size());
    Bucket bucket;
    bucket.begin = now_++;
    std::erase_if(counts, [](const SourceCount& c) { return c.count <= 0; });
    std::sort(counts.begin(), counts.end(), by_source);
    counts.shrink_to_fit();
    for (const SourceCount& count : counts) {
        bucket.messages += count.count;
    }
    bucket.counts = std::move(counts);
    buckets_.push_back(std::move(bucket));
    for (std::uint64_t width = 1; width <= kWidest; width *= 2) {
        merge_oldest(width);
    }
}

// Merges the two oldest buckets of a width if there are too many; drops the oldest of the widest.
void History::merge_oldest(std::uint64_t width) {
    std::size_t first = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        if (buckets_[i].width == width) {
            first = count++ == 0 ? i : first;
        }
    }
    if (count <= kPerWidth) {
        return;
    }
    if (width == kWidest) {
        ADAPTIB_INVARIANT(first == 0, "the widest buckets are the oldest", first, width);
        buckets_.pop_front();
        return;
    }
    join(buckets_[first], buckets_[first + 1]);
    buckets_.erase(buckets_.begin() + static_cast<std::ptrdiff_t>(first) + 1);
}

void History::join(Bucket& into, const Bucket& later) {
    ADAPTIB_INVARIANT(into.begin + into.width == later.begin && into.width == later.width,
                      "buckets that are joined are neighbors of one width", into.begin, into.width,
                      later.begin, later.width);
    std::vector<SourceCount> counts;
    counts.reserve(into.counts.size() + later.counts.size());
    std::merge(into.counts.begin(), into.counts.end(), later.counts.begin(), later.counts.end(),
               std::back_inserter(counts), by_source);
    fold(counts);
    if (counts.size() > kSourcesMost) {
        const auto end = counts.begin() + kSourcesMost;
        std::nth_element(
            counts.begin(), end, counts.end(),
            [](const SourceCount& a, const SourceCount& b) { return a.count > b.count; });
        counts.erase(end, counts.end());
        std::sort(counts.begin(), counts.end(), by_source);
    }
    ADAPTIB_INVARIANT(counts.size() <= kSourcesMost, "a long bucket knows the busiest sources",
                      counts.size());
    counts.shrink_to_fit();
    into.counts = std::move(counts);
    into.width += later.width;
    into.messages += later.messages;
}

void History::sum(std::uint64_t from, Window& out) const {
    out.counts.clear();
    out.messages = 0;
    for (const Bucket& bucket : buckets_) {
        const std::uint64_t end = bucket.begin + bucket.width;
        ADAPTIB_INVARIANT(end <= now_, "a bucket is of periods that are over", end, now_);
        if (end <= from) {
            continue;
        }
        const double share = static_cast<double>(end - std::max(from, bucket.begin)) /
                             static_cast<double>(bucket.width);
        out.messages += share * bucket.messages;
        for (const SourceCount& count : bucket.counts) {
            out.counts.push_back({count.source, share * count.count});
        }
    }
    std::sort(out.counts.begin(), out.counts.end(), by_source);
    fold(out.counts);
}

std::size_t History::memory_bytes() const {
    std::size_t bytes = sizeof *this + buckets_.size() * sizeof(Bucket);
    for (const Bucket& bucket : buckets_) {
        bytes += bucket.counts.capacity() * sizeof(SourceCount);
    }
    return bytes;
}

} // namespace adaptib
