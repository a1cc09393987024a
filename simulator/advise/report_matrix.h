// SPDX-License-Identifier: BSD-3-Clause
// The traffic matrix of a job's reports, which the program adaptib_report reads.
//
// Threads: none of its own; waits for the program.
// May touch: the system.
#pragma once

#include <string>

namespace adaptib::advise {

// Sets `out` to what `adaptib_report --matrix - DIRECTORY` prints. The program is the one beside
// this one, else that of the search path; its complaints go to standard error. Returns false with
// `error` if it cannot be run, or fails.
bool matrix_of_reports(const std::string& directory, std::string& out, std::string& error);

} // namespace adaptib::advise
