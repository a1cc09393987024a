// SPDX-License-Identifier: BSD-3-Clause
// Which fabrics a process opens: what the parameter `fabric` asks for, and the machine has.
//
// Ownership: the caller's. Threads: one.
// May touch: base/, fabric/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/parameters.h"
#include "base/random.h"
#include "base/status.h"
#include "fabric/fabric.h"

namespace adaptib {

struct FabricsWanted {
    const Parameters& parameters;
    const char* host;
    std::uint64_t job;
    bool one_host;                 // all processes of the job are on it
    std::uint32_t local_processes; // of the job, on this host
    const Clock& clock;            // this and the next outlive the fabrics
    Random& random;
};

// Nearest first. With auto, devices are left alone where the job has no use for them, and done without where
// they cannot be used: `left_out` says why, should a peer turn out to need them.
// Errors: what a fabric says; `text` says it to a person.
Status open_fabrics(const FabricsWanted& wanted, std::vector<std::unique_ptr<Fabric>>& fabrics,
                    std::string& left_out, std::string& text);

} // namespace adaptib
