// SPDX-License-Identifier: BSD-3-Clause
// OpenEndpoints: the endpoints of this process that are open, in the order in which they were.
//
// Purpose: what visits the endpoints of a process visits these alone, so that those that nobody
// uses cost nothing.
// Ownership: the endpoints are the Process's.
// Threads: any may read at any time, without a lock; one at a time adds.
// May touch: base/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "base/process_name.h"
#include "common_adaptib.h"

namespace adaptib {

class OpenEndpoints {
public:
    using Handle = opal_common_adaptib_core;

    // REQUIRES: fewer than kMaxEndpoints have been added.
    void add(Handle* endpoint) {
        const std::uint32_t count = count_.load(std::memory_order_relaxed);
        list_[count] = endpoint;
        count_.store(count + 1, std::memory_order_release);
    }
    // REQUIRES: nobody reads meanwhile.
    void clear() { count_.store(0, std::memory_order_relaxed); }
    std::span<Handle* const> all() const {
        return {list_.data(), count_.load(std::memory_order_acquire)};
    }

private:
    std::atomic<std::uint32_t> count_{0};
    std::array<Handle*, kMaxEndpoints> list_{};
};

} // namespace adaptib
