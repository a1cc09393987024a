// SPDX-License-Identifier: BSD-3-Clause
// A run: a program on a driver, and the verdict of the models.
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulator/torture/driver.h"
#include "simulator/torture/program.h"

namespace adaptib::torture {

struct Outcome {
    std::vector<std::string> problems;
    std::uint64_t messages = 0;  // two-sided and active
    std::uint64_t one_sided = 0; // operations
    std::uint64_t faults = 0;    // injected
    std::uint64_t datagrams = 0; // in a world
    Nanoseconds time{0};         // virtual
    std::uint64_t course = 0;    // digest of all times of completion: the same for the same program
};

// Makes the cores that the program asks for. Null with `problem` set if they cannot be made.
// `trace`: the file that gets their traces at their end; empty: none.
std::unique_ptr<Driver> open(const Program& program, std::string& problem,
                             const std::string& trace = {});

Outcome run(const Program& program, std::unique_ptr<Driver> driver);

} // namespace adaptib::torture
