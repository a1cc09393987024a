// SPDX-License-Identifier: BSD-3-Clause
// FlushEpochs: tells when the operations that were started before a flush are complete. The flush
// waits for no others, so that it ends although other threads go on starting operations.
//
// An operation belongs to the epoch in which it was started. An epoch ends when a flush waits for
// it and all operations of the epoch before are complete. So operations of at most two epochs are
// under way, and two counts are enough.
// May touch: the standard library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace adaptib {

class FlushEpochs {
public:
    // Counts an operation as under way. Returns its epoch, for leave().
    std::uint64_t enter() {
        ++open_[now_ % 2];
        return now_;
    }
    void leave(std::uint64_t epoch) { --open_[epoch % 2]; }

    std::size_t under_way() const { return open_[0] + open_[1]; }

    // Returns the last epoch of the operations now under way.
    std::uint64_t mark() const { return now_; }
    // Ends that epoch if it can end. Returns true if all operations up to it are complete.
    bool passed(std::uint64_t mark) {
        if (now_ == mark && open_[(mark + 1) % 2] == 0) {
            ++now_;
        }
        return now_ > mark + 1 || (now_ == mark + 1 && open_[mark % 2] == 0);
    }

private:
    std::uint64_t now_ = 1;
    std::array<std::size_t, 2> open_{}; // operations of the last two epochs
};

} // namespace adaptib
