// SPDX-License-Identifier: BSD-3-Clause
// Neighbours: programs that differ from another one in one or two things that happen.
//
// Purpose: chance seldom gives the two events that show a defect of connections in the order and
// within the microseconds that it takes. A short program has few places where something can happen:
// each of its datagrams late, by times from a quarter of a microsecond to 16 ms, doubled or lost;
// each request, each queue pair of each rank failing; each port out, each rank stopped or dead at
// each time; where the program names the kind "address", each port of the first host with another
// address at each time. One such change at a time is tried in all places; all pairs of the kinds
// that the program names ("around KIND KIND"; a kind is a setting's name without its number), and
// others at random. Where datagrams are reliable nothing fails.
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "simulator/torture/program.h"
#include "simulator/torture/run.h"

namespace adaptib::torture {

class Neighbours {
public:
    // `outcome`: of the program.
    Neighbours(Program program, const Outcome& outcome);

    // The program as all neighbours have it.
    static Program prepared(Program program);
    // The same, with datagrams that may overtake each other.
    static Program numbered(Program program);

    // Those with one change, and with pairs of the kinds that the program names.
    std::uint64_t count() const { return changes_.size() + pairs_.size(); }
    // REQUIRES: number < count().
    Program at(std::uint64_t number) const;
    // A neighbour with two changes, or seldom three, and any times.
    Program pair(std::uint64_t seed) const;

private:
    struct Change {
        std::vector<Setting> Program::*list;
        Setting setting;
        bool is_time; // its value
    };
    void add(std::vector<Setting> Program::*list, const std::string& name, std::uint64_t value,
             std::int32_t rank = Setting::kAllRanks, bool is_time = false);
    void add_datagrams(std::uint64_t count);
    void add_faults();
    void add_timed(Nanoseconds until);
    void add_pairs();
    static void apply(const Change& change, Program& program);

    Program program_;
    std::vector<Change> changes_;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_; // of changes
};

} // namespace adaptib::torture
