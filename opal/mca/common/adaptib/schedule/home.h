// SPDX-License-Identifier: BSD-3-Clause
// The home of a process at a peer: the subchannel that carries what is not cut.
//
// Purpose: rings, credit, transfers of less than 64 bytes and the policy `binding` have one subchannel each.
// Of rails that are alike the processes of one host take turns. Of unequal ones each takes the rail on which it
// fares best with those before it: a slow one only when the fast ones have as many more as they are faster. So a
// message that is not striped is never slower than it would be if the slow rail were not there, be the
// others busy or not there at all.
// A rail that is further from the process than one that is as fast is left out.
// Source: Vishnu, 4.1.2 (binding); the rule for unequal rails is ours.
// May touch: base/ only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/stripe.h"

namespace adaptib {

// What is known of a subchannel's port, in any unit; 0: nothing.
using LearntRate = std::function<double(const SubchannelView&)>;

// Index into `up`. `position`: how many processes of this host chose before. What was learnt counts where it is
// known of all of `up` and contradicts the nominal rates by more than noise. REQUIRES: up is not empty.
std::size_t home_of(std::span<const SubchannelView> up, std::uint32_t position,
                    const LearntRate& learnt);

} // namespace adaptib
