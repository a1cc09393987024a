// SPDX-License-Identifier: BSD-3-Clause
// Messages to people: a core hands each, with its severity, to a function of its user.
//
// May touch: the standard library.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace adaptib {

enum class Severity : std::uint8_t { notice, failure };

using MessageFunction = std::function<void(Severity, const std::string&)>;

} // namespace adaptib
