// SPDX-License-Identifier: BSD-3-Clause
// SharedReceiveQueue: receives that several queue pairs take from (Capability::srq).
//
// Ownership: Rail::create_srq makes a queue, and its caller owns it, longer than the queue pairs
//   that use it.
// Threads: one thread at a time uses a queue.
// May touch: base/, work.h.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "fabric/work.h"

namespace adaptib {

class SharedReceiveQueue {
public:
    virtual ~SharedReceiveQueue() = default;
    Status post(const ReceiveWork& work) { return post_impl(work); }
    // Raises the event srq_limit once, when fewer than `limit` receives are posted. 0 disarms it.
    Status arm_limit(std::uint32_t limit) { return arm_limit_impl(limit); }

private:
    virtual Status post_impl(const ReceiveWork& work) = 0;
    virtual Status arm_limit_impl(std::uint32_t limit) = 0;
};

} // namespace adaptib
