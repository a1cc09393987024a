// SPDX-License-Identifier: BSD-3-Clause
// Staging blocks: registered memory through which non-contiguous data is packed and unpacked.
//
// Purpose: blocks of one size for the peers of one fabric, from memory of its first working rail
// (which local peers can map), registered with its rails; kept for the next transfer up to a limit.
// Ownership: a block belongs to the taker from take() until give().
// Threads: one at a time.
// May touch: base/, fabric/, memory/registration.h.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "memory/registration.h"
#include "memory/registration_cache.h"

namespace adaptib {

struct StagingBlock {
    std::unique_ptr<MemoryRegion> memory;
    Registration registration;

    std::byte* data() const { return static_cast<std::byte*>(memory->address()); }
};

class StagingPool {
public:
    // `registrations`: the cache of the same rails, which gives up idle ones for a block.
    StagingPool(RailList rails, RailRange with, Bytes block_bytes, std::size_t kept,
                RegistrationCache& registrations)
        : rails_(rails), with_(with), block_bytes_(block_bytes), kept_(kept),
          registrations_(registrations) {}

    // Errors: no_memory, locked_memory when the rail has no room for another block.
    Status take(std::unique_ptr<StagingBlock>& out);
    void give(std::unique_ptr<StagingBlock> block);
    // Returns true while blocks are taken, which will be given back.
    bool any_taken() const { return taken_ > 0; }

private:
    Status make(StagingBlock& block) const;

    RailList rails_;
    RailRange with_;
    Bytes block_bytes_;
    std::size_t kept_;
    RegistrationCache& registrations_;
    std::size_t taken_ = 0;
    std::vector<std::unique_ptr<StagingBlock>> free_;
};

} // namespace adaptib
