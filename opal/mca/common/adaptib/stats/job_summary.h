// SPDX-License-Identifier: BSD-3-Clause
// JobSummary: one page on a whole job, made from the reports of its processes.
//
// Purpose: says how much each carrier moved, how evenly the processes worked, and which of the
// counters that point to trouble are not 0, with the process where they are largest.
// Threads: functions without state.
// May touch: base/, stats/.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stats/process_report.h"

namespace adaptib {

// `processes`: of the job; those without a report are counted. 0: unknown.
std::string job_summary(std::span<const ProcessReport> reports, std::uint32_t processes);

} // namespace adaptib
