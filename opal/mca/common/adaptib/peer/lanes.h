// SPDX-License-Identifier: BSD-3-Clause
// PeerLanes: the part of a Peer for its connections over the paths, and the policy that spreads
// transfers over them.
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, schedule/, peer/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/units.h"
#include "base/wire.h"
#include "peer/subchannel.h"
#include "schedule/scheduler.h"

namespace adaptib {

struct alignas(kCacheLine / 2) PeerLanes {
    // Number of paths that the connection has.
    std::size_t live_subchannels() const {
        return static_cast<std::size_t>(
            std::count_if(subchannels.begin(), subchannels.end(),
                          [](const Subchannel& each) { return each.qp != nullptr; }));
    }
    // Returns the subchannels that carry traffic, as bits: those that are up, without standbys
    // unless only these are.
    std::uint64_t live_bits() const {
        std::uint64_t live = 0;
        std::uint64_t standby = 0;
        for (std::size_t i = 0; i < subchannels.size(); ++i) {
            const std::uint64_t bit = subchannels[i].qp != nullptr ? std::uint64_t{1} << i : 0;
            (subchannels[i].standby ? standby : live) |= bit;
        }
        return live != 0 ? live : standby;
    }
    // Returns the first standby that is up; null: none is.
    const Subchannel* first_standby() const {
        const auto found =
            std::find_if(subchannels.begin(), subchannels.end(),
                         [](const Subchannel& each) { return each.standby && each.qp != nullptr; });
        return found == subchannels.end() ? nullptr : &*found;
    }
    // Returns true if the connection has standbys and nothing else.
    bool only_standbys() const {
        return first_standby() != nullptr &&
               std::all_of(subchannels.begin(), subchannels.end(), [](const Subchannel& each) {
                   return each.standby || each.qp == nullptr;
               });
    }
    // Returns null if no subchannel has that queue pair.
    Subchannel* find(std::uint32_t rail, std::uint32_t qp_number) {
        const auto found =
            std::find_if(subchannels.begin(), subchannels.end(),
                         [&](const Subchannel& each) { return each.has(rail, qp_number); });
        return found == subchannels.end() ? nullptr : &*found;
    }

    std::vector<Subchannel> subchannels;
    std::unique_ptr<Scheduler> scheduler;
};
static_assert(kMaxSubchannels <= 64);

} // namespace adaptib
