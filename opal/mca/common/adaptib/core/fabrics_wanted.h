// SPDX-License-Identifier: BSD-3-Clause
// FabricsWanted: opens the fabrics that the parameter `fabric` asks for and that the machine has.
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
#include "base/status.h"
#include "fabric/fabric.h"

namespace adaptib {

struct FabricsWanted {
    const Parameters& parameters;
    const char* host;
    std::uint64_t job;
    bool one_host;                 // all processes of the job are on it
    std::uint32_t local_processes; // of the job, on this host
    const Clock& clock;            // outlives the fabrics
    // The fabric of the process's first endpoint, whose measurements hold for all; null: this is
    // it.
    const Fabric* first = nullptr;

    // Opens the fabrics, nearest first. With auto, RDMA devices are skipped if the job has no use
    // for them, or if they cannot be used; `left_out` then says why, in case a peer turns out to
    // need them. Errors: the status of a fabric; `text` explains it to a person.
    Status open(std::vector<std::unique_ptr<Fabric>>& fabrics, std::string& left_out,
                std::string& text) const;
};

} // namespace adaptib
