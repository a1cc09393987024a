// SPDX-License-Identifier: BSD-3-Clause
// BounceBuffers: registered memory that small puts and gets are copied through.
//
// Purpose: to register the user's buffer costs as much as hundreds of such copies, so a small put
// is copied into one of these buffers, and a small get arrives in one, unless the user's buffer is
// registered (memory/frequent_buffers.h). Buffers come in blocks, each of one registration with all
// rails of a fabric; blocks are made as they are needed, up to a bound, and stay.
// Ownership: a buffer belongs to the taker until give(); all are given back, or their queue pairs
// gone, before the pool is destroyed.
// Errors: take() returns false if all are taken and there is no room for more; the caller registers
// the user's buffer then.
// Threads: one at a time.
// May touch: base/, fabric/, memory/registration.h.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/invariant.h"
#include "base/units.h"
#include "fabric/rail.h"
#include "memory/registration.h"

namespace adaptib {

struct BounceBuffer {
    std::byte* data = nullptr; // null: none
    const Registration* registration = nullptr;
};

class BounceBuffers {
public:
    static constexpr Bytes kBytes = 8 * kKiB; // of a buffer
    static constexpr std::size_t kInBlock = 32;
    static constexpr std::size_t kMost = 8 * kInBlock;

    BounceBuffers(RailList rails, RailRange with) : rails_(rails), with_(with) {}

    bool take(BounceBuffer& out) {
        if (free_.empty() && !add_block()) [[unlikely]] {
            return false;
        }
        out = free_.back();
        free_.pop_back();
        return true;
    }
    void give(BounceBuffer& buffer) {
        ADAPTIB_INVARIANT(buffer.data != nullptr && free_.size() < made(),
                          "a buffer that is given back was taken", buffer.data, free_.size());
        free_.push_back(buffer);
        buffer = BounceBuffer();
    }
    std::size_t made() const { return blocks_.size() * kInBlock; }

private:
    struct Block {
        std::unique_ptr<MemoryRegion> memory;
        Registration registration;
    };

    bool add_block();

    RailList rails_;
    RailRange with_;
    bool refused_ = false; // a rail had no room for another block
    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<BounceBuffer> free_; // has room for all that exist
};

} // namespace adaptib
