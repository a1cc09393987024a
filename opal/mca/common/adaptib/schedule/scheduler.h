// SPDX-License-Identifier: BSD-3-Clause
// Schedulers: which subchannel carries which bytes of a transfer.
//
// Purpose: a policy is a class without I/O: numbers in, plan out. Small messages are whole (one
// subchannel); large transfers may be cut into stripes. Adding one: a file in this folder, a line
// in policies.h and in make_scheduler, and its name in the range of the parameter `scheduling`.
// Threads: one at a time; the state is the peer's own.
// Source: Vishnu, chapters 4-8 (the policies' names).
// May touch: base/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/stripe.h"

namespace adaptib {

class Scheduler {
public:
    virtual ~Scheduler() = default;

    // Appends stripes that cover [0, length) exactly, in order, none longer than its subchannel's
    // max_stripe, none empty. REQUIRES: up is not empty, length > 0.
    void plan(Bytes length, Marker marker, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) {
        plan_impl(length, marker, up, out);
    }

private:
    virtual void plan_impl(Bytes length, Marker marker, std::span<const SubchannelView> up,
                           std::vector<Stripe>& out) = 0;
};

struct SchedulerOptions {
    std::uint32_t position = 0;   // spreads the processes of one host over the subchannels
    Bytes striping_threshold = 0; // shorter transfers are not striped
};

// `policy`: "binding", "round_robin" or "even". Null for a policy that does not exist.
std::unique_ptr<Scheduler> make_scheduler(std::string_view policy, const SchedulerOptions& options);

} // namespace adaptib
