// SPDX-License-Identifier: BSD-3-Clause
// Partitions of a port, and the one in which two ports talk.
//
// Purpose: P_Keys with full membership go before those with limited membership, since two limited
// members of a partition cannot talk. A port publishes its P_Keys in that order; the first is that
// of its datagrams, whose queue pair has one P_Key for all peers. Each connection takes the best
// one that both ends have; both ends come to the same result.
// Source: InfiniBand Architecture Specification, vol. 1, 10.9 (partitioning).
// Ownership: value types.  Threads: functions without state.
// May touch: base/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/invariant.h"

namespace adaptib::verbs {

constexpr std::uint16_t kPartitionMask = 0x7fff; // of a P_Key; the highest bit is full membership
constexpr bool is_full_member(std::uint16_t pkey) { return (pkey & ~kPartitionMask) != 0; }
std::string pkey_text(std::uint16_t pkey); // "0xffff"

// One entry of a port's table.
struct Partition {
    std::uint16_t pkey = 0;
    std::uint16_t index = 0; // in the table
};

// At most kMost partitions of a port, of which the full memberships are kept rather than others.
class Partitions {
public:
    static constexpr std::size_t kMost = 13; // as many as an address has room for

    // Adds an entry; entries come in the order of their table.
    void add(Partition entry);
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    // REQUIRES: i < size().
    const Partition& operator[](std::size_t i) const {
        ADAPTIB_INVARIANT(i < size_, "a partition is one of the port's", i, size_);
        return entries_[i];
    }
    std::string text() const; // "0x8001, 0x7fff"; "none"

private:
    std::array<Partition, kMost> entries_{}; // full memberships first
    std::size_t size_ = 0;
    std::size_t full_ = 0;
};

// Chooses the partition of a connection: two full members go before a full and a limited one, then
// early entries of both lists go first. False: the two ports cannot talk, and `why` names the
// P_Keys of both.
bool choose_partition(const Partitions& here, const Partitions& there, Partition& out,
                      std::string& why);

// Checks that datagrams, which take the first entry of each list, get through. False: `why` tells,
// and which value of the parameter helps if one does.
bool check_datagrams(const Partitions& here, const Partitions& there, std::string& why);

} // namespace adaptib::verbs
