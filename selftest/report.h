// SPDX-License-Identifier: BSD-3-Clause
// Report: lines that adaptib_selftest reads. Fields are separated by tabs.
//
//   check    NAME  SUBJECT  ok|note|skipped|failed  TEXT
//   fact     NAME  SUBJECT  VALUE
//   host     NUMBER  JSON of adaptib_info on one line
//   fatal    TEXT
//
// Only the first process prints; the second one's facts reach it with the outcome of a check.
// Threads: one.
// May touch: outcome.h.
#pragma once

#include <string>

#include "selftest/outcome.h"

namespace adaptib::selftest {

class Report {
public:
    explicit Report(bool prints) : prints_(prints) {}

    void check(const std::string& name, const std::string& subject, const Outcome& outcome) const;
    void fact(const std::string& name, const std::string& subject, const std::string& value) const;
    void host(int number, const std::string& json) const;
    void fatal(const std::string& text) const;

private:
    void print(const std::string& line) const;

    bool prints_;
};

// Joins the outcomes of both processes: the graver one, with the texts of both if both have one.
Outcome joined(const Outcome& a, const Outcome& b);

} // namespace adaptib::selftest
