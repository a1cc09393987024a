// SPDX-License-Identifier: BSD-3-Clause
// ReceiveQueue: the posted receives of a queue pair or of a shared receive queue, for fabrics that
// keep them in software.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, work.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/growing_ring.h"
#include "base/invariant.h"
#include "base/status.h"
#include "fabric/work.h"

namespace adaptib {

inline constexpr std::uint32_t kMaxGather = 8; // gather or scatter entries of one work request

struct QueuedReceive {
    std::uint64_t wr_id = 0;
    std::uint32_t scatter_count = 0;
    std::array<Gather, kMaxGather> scatter{};

    std::span<const Gather> list() const { return {scatter.data(), scatter_count}; }
    Bytes room() const {
        Bytes sum = 0;
        for (const Gather& entry : list()) {
            sum += entry.length;
        }
        return sum;
    }
};

class ReceiveQueue {
public:
    explicit ReceiveQueue(std::uint32_t depth) : posted_(depth) {}
    // Errors: bad_argument for more than kMaxGather entries; again(queue_full) beyond the depth.
    Status post(const ReceiveWork& work) {
        if (work.scatter_count > kMaxGather ||
            (work.scatter_count > 0 && work.scatter == nullptr)) {
            return Status::error(Reason::bad_argument);
        }
        if (posted_.full()) {
            return Status::again(Reason::queue_full);
        }
        QueuedReceive& receive = posted_.push();
        receive.wr_id = work.wr_id;
        receive.scatter_count = work.scatter_count;
        std::copy_n(work.scatter, work.scatter_count, receive.scatter.begin());
        return kOk;
    }
    // Oldest receive; null if there is none.
    const QueuedReceive* peek() { return posted_.empty() ? nullptr : &posted_.front(); }
    // REQUIRES: there is a receive.
    void drop() {
        ADAPTIB_INVARIANT(!posted_.empty(), "a receive that is taken was posted", posted_.size());
        posted_.pop();
    }
    std::size_t size() const { return posted_.size(); }
    void clear() { posted_.clear(); }

private:
    GrowingRing<QueuedReceive> posted_;
};

} // namespace adaptib
