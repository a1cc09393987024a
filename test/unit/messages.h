// SPDX-License-Identifier: BSD-3-Clause
// Records messages to people (base/severity.h).
#pragma once

#include <string>
#include <vector>

#include "base/severity.h"

namespace adaptib::test {

// `texts` outlives the function.
inline MessageFunction messages_into(std::vector<std::string>& texts) {
    return [&texts](Severity, const std::string& text) { texts.push_back(text); };
}

inline void ignore_message(Severity, const std::string&) {}

} // namespace adaptib::test
