// SPDX-License-Identifier: BSD-3-Clause
// The conformance suite over shm with the fault decorator. A decorator without planned faults must
// behave like the fabric below it; one that delays completions must keep to fabric/README.md, too.
//
// May touch: fabric/, simulator/faults/fault.h.
#include "conformance/shm_world.h"
#include "simulator/faults/fault.h"

namespace adaptib::conformance {
namespace {

using Copy = ShmOptions::SingleCopy;

fault::FaultPlan delayed_completions() {
    fault::FaultPlan plan;
    plan.faults.push_back(
        {.fault = fault::Fault::completion_delayed, .rate = 0.3, .delay = {3, {}}});
    return plan;
}

// The log of all worlds, which run one after another. It also counts memory regions.
fault::FaultLog shared_log;

Wrap with(const fault::FaultPlan& plan) {
    const auto kept = std::make_shared<const fault::FaultPlan>(plan);
    return [kept](std::unique_ptr<Fabric> below, const Clock& clock) {
        shared_log.entries.clear();
        return fault::with_faults(std::move(below), *kept, clock, shared_log);
    };
}

[[maybe_unused]] const bool kAdded =
    add_world(shm_world("fault_none", 3, shm_options(1, Copy::cma, kMiB), with({}))) &&
    add_world(shm_world("fault_delays", 2, shm_options(2, Copy::none, 64 * kKiB),
                        with(delayed_completions())));

} // namespace
} // namespace adaptib::conformance
