// SPDX-License-Identifier: BSD-3-Clause
// Blocks of registered buffers (memory/bounce_buffers.h).
#include "memory/bounce_buffers.h"

#include <utility>

#include "base/invariant.h"

namespace adaptib {

bool BounceBuffers::add_block() {
    if (refused_ || made() == kMost) {
        return false;
    }
    auto block = std::make_unique<Block>();
    constexpr Bytes kLength = kInBlock * kBytes;
    refused_ =
        !allocate_from(rails_, with_, kLength, kLocalWrite, block->memory).ok() ||
        !block->registration.make(rails_, with_, block->memory->address(), kLength, kLocalWrite)
             .ok();
    if (refused_) {
        return false;
    }
    auto* const first = static_cast<std::byte*>(block->memory->address());
    free_.reserve(made() + kInBlock);
    for (std::size_t i = kInBlock; i > 0; --i) {
        free_.push_back({first + (i - 1) * kBytes, &block->registration});
    }
    blocks_.push_back(std::move(block));
    ADAPTIB_INVARIANT(made() <= kMost && free_.size() <= made(),
                      "buffers come in blocks, up to a bound", made(), free_.size());
    return true;
}

} // namespace adaptib
