// SPDX-License-Identifier: BSD-3-Clause
// Outcome: how one check of the self-test ended, and the exceptions by which a check ends early.
//
// Threads: value types.
// May touch: nothing.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace adaptib::selftest {

// ok: as it has to be. note: works, but worth knowing. skipped: the devices lack the feature.
// failed: a device breaks a rule on which adaptib relies.
enum class Verdict : std::uint8_t { ok, note, skipped, failed };

struct Outcome {
    Verdict verdict = Verdict::ok;
    std::string text;
};

// Ends a check in this process: a rule is broken, or the device reports nothing.
struct Failed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Ends a check in this process because it has ended in the other one, which knows the reason.
struct PartnerEnded : std::exception {};

} // namespace adaptib::selftest
