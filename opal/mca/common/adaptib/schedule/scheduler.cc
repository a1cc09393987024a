// SPDX-License-Identifier: BSD-3-Clause
// The table of policies.
#include "schedule/scheduler.h"

#include "schedule/policies.h"

namespace adaptib {

std::unique_ptr<Scheduler> make_scheduler(std::string_view policy,
                                          const SchedulerOptions& options) {
    if (policy == "binding") {
        return make_binding(options);
    }
    if (policy == "round_robin") {
        return make_round_robin(options);
    }
    if (policy == "even") {
        return make_even(options);
    }
    return nullptr;
}

} // namespace adaptib
