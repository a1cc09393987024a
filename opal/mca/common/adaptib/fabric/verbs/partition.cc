// SPDX-License-Identifier: BSD-3-Clause
// Choice of partitions (partition.h).
#include "fabric/verbs/partition.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "base/invariant.h"

namespace adaptib::verbs {

namespace {

bool same_partition(std::uint16_t a, std::uint16_t b) { return ((a ^ b) & kPartitionMask) == 0; }

bool can_talk(std::uint16_t a, std::uint16_t b) {
    return same_partition(a, b) && (is_full_member(a) || is_full_member(b));
}

// Returns a limited membership that both ends have; 0: none.
std::uint16_t common_limited(const Partitions& here, const Partitions& there) {
    for (std::size_t i = 0; i < here.size(); ++i) {
        for (std::size_t j = 0; j < there.size(); ++j) {
            if (here[i].pkey == there[j].pkey) {
                return here[i].pkey;
            }
        }
    }
    return 0;
}

} // namespace

std::string pkey_text(std::uint16_t pkey) {
    char text[8];
    std::snprintf(text, sizeof text, "0x%04x", pkey);
    return text;
}

void Partitions::add(Partition entry) {
    if (!is_full_member(entry.pkey)) {
        if (size_ < kMost) {
            entries_[size_++] = entry;
        }
        return;
    }
    if (full_ == kMost) {
        return;
    }
    size_ = std::min(size_ + 1, kMost);
    std::move_backward(entries_.begin() + static_cast<std::ptrdiff_t>(full_),
                       entries_.begin() + static_cast<std::ptrdiff_t>(size_ - 1),
                       entries_.begin() + static_cast<std::ptrdiff_t>(size_));
    entries_[full_++] = entry;
    ADAPTIB_INVARIANT(full_ <= size_ && size_ <= kMost,
                      "full memberships are part of those that are kept", full_, size_);
}

std::string Partitions::text() const {
    std::string out;
    for (std::size_t i = 0; i < size_; ++i) {
        out += (out.empty() ? "" : ", ") + pkey_text(entries_[i].pkey);
    }
    return out.empty() ? "none" : out;
}

bool choose_partition(const Partitions& here, const Partitions& there, Partition& out,
                      std::string& why) {
    // Both ends compute the same rank: the sum and the P_Key do not depend on the side.
    std::tuple<bool, std::size_t, int> best{true, SIZE_MAX, 0};
    bool found = false;
    for (std::size_t i = 0; i < here.size(); ++i) {
        for (std::size_t j = 0; j < there.size(); ++j) {
            if (!can_talk(here[i].pkey, there[j].pkey)) {
                continue;
            }
            const bool mixed = here[i].pkey != there[j].pkey;
            const std::tuple<bool, std::size_t, int> rank{mixed, i + j,
                                                          here[i].pkey & kPartitionMask};
            if (!found || rank < best) {
                best = rank;
                out = here[i];
                found = true;
            }
        }
    }
    if (found) {
        return true;
    }
    if (const std::uint16_t limited = common_limited(here, there); limited != 0) {
        why = "both ends are only limited members of partition " + pkey_text(limited) +
              ", and limited members cannot talk; P_Keys here: " + here.text() +
              "; there: " + there.text();
    } else {
        why = "the partition keys differ: " + here.text() + " here, " + there.text() + " there";
    }
    return false;
}

bool check_datagrams(const Partitions& here, const Partitions& there, std::string& why) {
    Partition common;
    if (!choose_partition(here, there, common, why)) {
        return false;
    }
    if (can_talk(here[0].pkey, there[0].pkey)) {
        return true;
    }
    why = "datagrams use partition " + pkey_text(here[0].pkey) + " here and " +
          pkey_text(there[0].pkey) +
          " there; both ends have another one in common: set opal_common_adaptib_partition to " +
          pkey_text(common.pkey | 0x8000) + " for all";
    return false;
}

} // namespace adaptib::verbs
