// SPDX-License-Identifier: BSD-3-Clause
// Endpoints: which ranks of a run are endpoints of the same process.
//
// Purpose: each rank of a run is a core. In production a process may have several, its endpoints
// (interface/process.h), each a peer of its own, whose name is that of the process with a number
// (base/process_name.h). Here the endpoints of a process are ranks that follow each other.
// Threads: any; constant once made.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/process_name.h"

namespace adaptib::sim {

class Endpoints {
public:
    // `counts`: the number of endpoints of each process, whose sum is `ranks`; empty: each rank is
    // a process with one.
    explicit Endpoints(std::size_t ranks = 0, const std::vector<std::uint32_t>& counts = {});

    std::size_t ranks() const { return of_rank_.size(); }
    std::size_t processes() const { return first_.size(); }
    std::uint32_t process(std::size_t rank) const { return of_rank_[rank].process; }
    // The rank's number among the endpoints of its process.
    std::uint32_t index(std::size_t rank) const { return of_rank_[rank].index; }
    // The rank that is endpoint number `index`, modulo their number, of a process.
    std::uint32_t rank(std::uint32_t process, std::uint32_t index) const {
        return first_[process] + index % count(process);
    }
    std::uint32_t count(std::uint32_t process) const {
        const std::size_t end = process + 1 < first_.size() ? first_[process + 1] : ranks();
        return static_cast<std::uint32_t>(end) - first_[process];
    }
    std::uint64_t name(std::size_t rank) const {
        return endpoint_name(kJob << 32 | process(rank), index(rank));
    }
    // REQUIRES: the name is that of a rank.
    std::uint32_t rank_named(std::uint64_t name) const {
        return rank(rank_of(name), endpoint_of(name));
    }

private:
    struct Place {
        std::uint32_t process;
        std::uint32_t index;
    };
    static constexpr std::uint64_t kJob = 1;

    std::vector<Place> of_rank_;
    std::vector<std::uint32_t> first_; // rank of each process's first endpoint
};

} // namespace adaptib::sim
