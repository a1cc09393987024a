// SPDX-License-Identifier: BSD-3-Clause
// Staging blocks (memory/staging.h).
#include "memory/staging.h"

#include <utility>

namespace adaptib {

Status StagingPool::take(std::unique_ptr<StagingBlock>& out) {
    if (!free_.empty()) {
        out = std::move(free_.back());
        free_.pop_back();
        return kOk;
    }
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite;
    auto block = std::make_unique<StagingBlock>();
    Status status = rails_[with_.first]->allocate(block_bytes_, kAccess, block->memory);
    if (status.ok()) {
        status = block->registration.make(rails_, with_, block->memory->address(), block_bytes_,
                                          kAccess);
    }
    if (status.ok()) {
        out = std::move(block);
    }
    return status;
}

void StagingPool::give(std::unique_ptr<StagingBlock> block) {
    if (free_.size() < kept_) {
        free_.push_back(std::move(block));
    }
}

} // namespace adaptib
