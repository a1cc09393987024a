// SPDX-License-Identifier: BSD-3-Clause
// The files of simulator/torture/routes.
// Threads: any.
#pragma once

#include <cstdio>
#include <string>

namespace adaptib::sim {

// Returns the decompressed content of the file; empty if it cannot be read.
inline std::string stored_routes_file(const std::string& name) {
    const std::string command = "xz -dc " ADAPTIB_TEST_SIM "/routes/" + name + ".xz";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) {
        return {};
    }
    std::string text;
    char block[65536];
    while (const std::size_t got = std::fread(block, 1, sizeof block, pipe)) {
        text.append(block, got);
    }
    return ::pclose(pipe) == 0 ? text : std::string();
}

} // namespace adaptib::sim
