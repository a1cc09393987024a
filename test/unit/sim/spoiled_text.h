// SPDX-License-Identifier: BSD-3-Clause
// Text that is not quite what a reader of files expects.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/random.h"

namespace adaptib::sim {

// Returns `text` with `with` in the place of the first `what`.
inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
    const std::size_t place = text.find(what);
    EXPECT_NE(place, std::string::npos) << what;
    return text.replace(std::min(place, text.size()), what.size(), with);
}

// Spoils a text at one to three places: changes a byte, leaves out a piece, or doubles one.
// REQUIRES: the text is longer than 120 bytes.
inline std::string spoiled(std::string text, Random& random) {
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
        const std::size_t at = random.below(text.size());
        switch (random.below(4)) {
        case 0: text[at] = static_cast<char>(random.below(256)); break;
        case 1: text[at] = "0123456789\"[]\n#x"[random.below(16)]; break;
        case 2: text.erase(at, 1 + random.below(40)); break;
        default: text.insert(at, text.substr(random.below(text.size()), 60)); break;
        }
    }
    return text;
}

} // namespace adaptib::sim
