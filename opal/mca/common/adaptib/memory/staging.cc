// SPDX-License-Identifier: BSD-3-Clause
// Staging blocks (memory/staging.h).
#include "memory/staging.h"

#include <utility>

#include "base/invariant.h"

namespace adaptib {

Status StagingPool::take(std::unique_ptr<StagingBlock>& out) {
    if (!free_.empty()) {
        out = std::move(free_.back());
        free_.pop_back();
        ++taken_;
        return kOk;
    }
    auto block = std::make_unique<StagingBlock>();
    Status status = make(*block);
    if (status.wants_room()) {
        registrations_.make_room();
        block = std::make_unique<StagingBlock>();
        status = make(*block);
    }
    if (status.ok()) {
        out = std::move(block);
        ++taken_;
    }
    return status;
}

Status StagingPool::make(StagingBlock& block) const {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite;
    const Status status = allocate_from(rails_, with_, block_bytes_, kAccess, block.memory);
    return status.ok() ? block.registration.make(rails_, with_, block.memory->address(),
                                                 block_bytes_, kAccess)
                       : status;
}

void StagingPool::give(std::unique_ptr<StagingBlock> block) {
    ADAPTIB_INVARIANT(block != nullptr && block->memory != nullptr && taken_ > 0,
                      "a block that is given back was taken", free_.size());
    --taken_;
    if (free_.size() < kept_) {
        free_.push_back(std::move(block));
    }
}

} // namespace adaptib
