// SPDX-License-Identifier: BSD-3-Clause
// Bootstrap: how a process finds the address of another one.
//
// Purpose: looks up the blob (base/address.h) that a process published; PMIx in a job, a table in a
// test. Called at first contact only.
// Threads: called under the core's lock, which a look-up may give up: other threads may call the
// core meanwhile, and the caller looks again for what they may have changed.
// May touch: base/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace adaptib {

class Bootstrap {
public:
    virtual ~Bootstrap() = default;
    // Errors: unreachable if nothing was published under `name`.
    virtual Status lookup(std::uint64_t name, std::vector<std::byte>& blob) = 0;
    // Returns the number of endpoints of a process, a power of two; 1 if nothing is known of it,
    // so that lookup() tells what is wrong.
    virtual std::uint32_t endpoints_of(std::uint64_t /*process*/) { return 1; }
};

} // namespace adaptib
