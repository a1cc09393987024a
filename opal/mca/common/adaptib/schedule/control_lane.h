// SPDX-License-Identifier: BSD-3-Clause
// The control lane of a process at a peer: the subchannel that carries everything that is not cut.
//
// Purpose: the ring, its credit, transfers of less than 64 bytes and those of the policy `binding`
// use this one subchannel. Over rails that are alike, the processes of one host take turns. Over
// unequal rails, each process takes the rail that offers it the most bandwidth beside the processes
// before it: a slow rail only once the fast ones carry more processes, in proportion to their
// rates. So while all processes are busy, no unstriped message is slower than it would be without
// the slow rail. (While the others are idle, a process on the slow rail would be faster on a fast
// one, but cannot know that.)
// A rail is left out if one that is at least as fast is nearer to the process.
// Source: Vishnu, 4.1.2 (binding); the rule for unequal rails is not in the source.
// May touch: base/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/stripe.h"

namespace adaptib {

// Returns the learnt rate of a subchannel's port, in any unit; 0: nothing is known.
using LearntRate = std::function<double(const SubchannelStats&)>;

// Returns the control lane, as an index into `up`. `position`: the number of processes of this host
// that chose before. Learnt rates count only if they are known for all of `up` and contradict the
// nominal rates by more than noise. REQUIRES: up is not empty.
std::size_t control_lane_of(std::span<const SubchannelStats> up, std::uint32_t position,
                            const LearntRate& learnt);

} // namespace adaptib
