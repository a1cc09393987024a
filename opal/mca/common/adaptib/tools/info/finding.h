// SPDX-License-Identifier: BSD-3-Clause
// Finding: one thing that adaptib_info has to say about this host, and what to do about it.
// Threads: value types.
// May touch: nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace adaptib {

// good: as it should be. note: works, but worth knowing. problem: something will not work.
enum class Verdict : std::uint8_t { good, note, problem };

struct Finding {
    std::string topic; // short: "locked memory"
    Verdict verdict = Verdict::good;
    std::string text;
    std::string advice; // empty: nothing to do
};

using Findings = std::vector<Finding>;

inline const char* verdict_text(Verdict verdict) {
    return verdict == Verdict::good ? "ok" : verdict == Verdict::note ? "note" : "PROBLEM";
}

} // namespace adaptib
