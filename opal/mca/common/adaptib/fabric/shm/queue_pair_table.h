// SPDX-License-Identifier: BSD-3-Clause
// Numbers of this process's queue pairs, and of its shared receive queues.
//
// Purpose: gives a queue pair an entry of the segment's table and a number that names it, and finds
// the queue pair of a number. A number is used again as late as possible.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, layout.h, segment.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

class LocalQueuePair;

class QueuePairTable {
public:
    // A failure for lack of memory sets `error_text`.
    QueuePairTable(OwnSegment& segment, std::string& error_text)
        : segment_(segment), error_text_(error_text) {}

    Status add(LocalQueuePair* qp, std::uint32_t& number);
    void remove(std::uint32_t number);
    // Null: no such queue pair.
    LocalQueuePair* find(std::uint32_t number) const {
        const std::uint32_t index = qp_index(number);
        return index < used_.size() && used_[index].number == number ? used_[index].qp : nullptr;
    }
    template <class Visit> void for_each(Visit&& visit) const {
        for (const Used& used : used_) {
            if (used.qp != nullptr) {
                visit(*used.qp);
            }
        }
    }

private:
    struct Used {
        LocalQueuePair* qp = nullptr;
        std::uint32_t number = 0; // of the last queue pair at this index
    };
    OwnSegment& segment_;
    std::string& error_text_;
    std::vector<Used> used_; // by index
    std::deque<std::uint32_t> free_;
};

class SrqTable {
public:
    explicit SrqTable(OwnSegment& segment) : segment_(segment) {}

    Status add(std::uint32_t& index);
    void remove(std::uint32_t index) {
        ADAPTIB_INVARIANT(index < end_ && free_.size() < end_, "a queue that ends was taken", index,
                          end_, free_.size());
        ADAPTIB_AUDIT(std::count(free_.begin(), free_.end(), index) == 0, "a queue ends once",
                      index);
        free_.push_back(index);
    }

private:
    OwnSegment& segment_;
    std::vector<std::uint32_t> free_;
    std::uint32_t end_ = 0;
};

} // namespace adaptib::shm
