// SPDX-License-Identifier: BSD-3-Clause
// What a flush waits for: the operations that were started before it, and no others, so that it ends although other threads go
// on starting some.
//
// Operations belong to the epoch in which they were started. An epoch ends when somebody waits for it and those of the one before
// are all complete; so there are at most two of which operations are under way, and two counts are enough.
// May touch: the standard library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace adaptib {

class FlushEpochs {
public:
    // An operation that is under way from now on: its epoch, for leave().
    std::uint64_t enter() {
        ++open_[now_ % 2];
        return now_;
    }
    void leave(std::uint64_t epoch) { --open_[epoch % 2]; }

    std::size_t under_way() const { return open_[0] + open_[1]; }

    // The last epoch of what is under way now.
    std::uint64_t mark() const { return now_; }
    // All up to this epoch is complete. What the caller asks for ends with it.
    bool passed(std::uint64_t mark) {
        if (now_ == mark && open_[(mark + 1) % 2] == 0) {
            ++now_;
        }
        return now_ > mark + 1 || (now_ == mark + 1 && open_[mark % 2] == 0);
    }

private:
    std::uint64_t now_ = 1;
    std::array<std::size_t, 2> open_{}; // of the last two epochs
};

} // namespace adaptib
