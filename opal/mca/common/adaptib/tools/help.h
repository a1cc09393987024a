// SPDX-License-Identifier: BSD-3-Clause
// The option --help (or -h), which all tools take.
// May touch: nothing.
#pragma once

#include <string_view>

namespace adaptib {

// Returns true if one of the arguments asks for the summary of the options.
inline bool wants_help(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--help" || argument == "-h") {
            return true;
        }
    }
    return false;
}

} // namespace adaptib
