// SPDX-License-Identifier: BSD-3-Clause
// A run: a program on a driver, and what the models say of it.
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/driver.h"
#include "sim/program.h"

namespace adaptib::torture {

struct Outcome {
    std::vector<std::string> problems;
    std::uint64_t messages = 0;  // two-sided and active
    std::uint64_t one_sided = 0; // operations
    std::uint64_t course = 0;    // a digest of what completed when: the same for the same program
};

// The cores that the program asks for. Null: they cannot be made; `problem` says why.
std::unique_ptr<Driver> open(const Program& program, std::string& problem);

Outcome run(const Program& program, std::unique_ptr<Driver> driver);

} // namespace adaptib::torture
