// SPDX-License-Identifier: BSD-3-Clause
// Sharing: who is connected over queue pairs that many peers share (connect/sharing.cc), as the policy has it
// (select/policy.h).
// May touch: nothing.
#pragma once

#include <cstdint>

namespace adaptib {

enum class Sharing : std::uint8_t {
    never,
    spare, // for whom there is no queue pair of their own
    all,
};

} // namespace adaptib
