// SPDX-License-Identifier: BSD-3-Clause
// Options that every benchmark program accepts.
// May touch: nothing.
#pragma once

#include <cstdio>
#include <cstring>

namespace adaptib::bench {

struct Options {
    bool quick = false;
    bool check = false;
};

// Parses the options; prints the usage and returns false if it finds an unknown one.
inline bool read_options(int argc, char** argv, Options& out) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--quick") == 0) {
            out.quick = true;
        } else if (std::strcmp(argv[i], "--check") == 0) {
            out.check = true;
        } else {
            std::fprintf(stderr, "usage: %s [--quick] [--check]\n", argv[0]);
            return false;
        }
    }
    return true;
}

} // namespace adaptib::bench
