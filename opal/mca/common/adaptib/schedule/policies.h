// SPDX-License-Identifier: BSD-3-Clause
// The policies, for make_scheduler, and what they share.
// May touch: base/ only.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "schedule/scheduler.h"

namespace adaptib {

// Atomics of one process have to go through one adapter, and shorter transfers gain nothing from
// another one: below this length every policy is binding.
constexpr Bytes kLeastSpread = 64;

// [offset, offset + length) over one subchannel, in pieces that it can carry.
inline void append_stripes(const SubchannelView& chosen, Bytes offset, Bytes length,
                           std::vector<Stripe>& out) {
    for (const Bytes end = offset + length; offset < end;) {
        const Bytes part = std::min(end - offset, chosen.max_stripe);
        out.push_back({chosen.index, offset, part});
        offset += part;
    }
}

std::unique_ptr<Scheduler> make_binding(const SchedulerOptions& options);
std::unique_ptr<Scheduler> make_round_robin(const SchedulerOptions& options);
std::unique_ptr<Scheduler> make_even(const SchedulerOptions& options);

} // namespace adaptib
