// SPDX-License-Identifier: BSD-3-Clause
// SourceMap: messages by source and time for the whole run, in a few hundred units of time, for
// drawing.
//
// Purpose: the data of figures 3 to 5 of the paper. Unlike History, which looks back from now and
// forgets, all units are alike and nothing is lost: when there are kUnitsMost of them, each two
// become one. Memory follows the sources that sent.
// Threads: one at a time. Not for the critical path: counts are given once a unit.
// Source: Takagi et al., 2.2 (figures 3 to 5).
// May touch: base/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/units.h"

namespace adaptib {

class SourceMap {
public:
    static constexpr std::uint32_t kUnitsMost = 512;
    static constexpr Nanoseconds kFirstUnit{1'000'000};

    explicit SourceMap(Nanoseconds start) : start_(start) {}

    Nanoseconds unit() const { return unit_; }
    // End of the unit that the last look() fell into.
    Nanoseconds due() const { return due_; }
    // Tells that messages added from now on came before `now`. REQUIRES: not before the last
    // look().
    void look(Nanoseconds now);
    void add(std::uint64_t source, std::uint64_t messages);

    // The map as a file: lines that begin with # describe it, the others are unit, source and
    // messages. A source of `self`'s job is given as its rank, the low half of its name; others as
    // JOB:RANK.
    std::string text(std::uint64_t self) const;

private:
    Nanoseconds start_;
    Nanoseconds unit_ = kFirstUnit;
    Nanoseconds due_{0};
    std::uint32_t now_ = 0; // the unit that counts belong to
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> counts_; // by unit and source
};

} // namespace adaptib
