// SPDX-License-Identifier: BSD-3-Clause
// Sharing: which peers are connected over queue pairs that many peers share
// (connect/sharing_rules.h), as the channel policy decides (select/policy.h).
// May touch: nothing.
#pragma once

#include <cstdint>

namespace adaptib {

enum class Sharing : std::uint8_t {
    never,
    spare, // peers for which there is no queue pair of their own
    all,
};

} // namespace adaptib
