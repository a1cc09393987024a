// SPDX-License-Identifier: BSD-3-Clause
// Receives that are posted below, by the numbers that they have there.
//
// Purpose: gives the caller its own wr_id back. Numbers are never used again, so that a completion
// from before a RESET finds nothing.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstdint>
#include <map>

namespace adaptib::fault {

class PostedReceives {
public:
    // Number of the receive that add() adds next.
    std::uint64_t next() const { return next_; }
    void add(std::uint64_t wr_id) { posted_[next_++] = wr_id; }
    // Looks up the caller's wr_id of a completed receive; returns false if the number is unknown.
    bool take(std::uint64_t number, std::uint64_t& wr_id) {
        const auto found = posted_.find(number);
        if (found == posted_.end()) {
            return false;
        }
        wr_id = found->second;
        posted_.erase(found);
        return true;
    }
    void clear() { posted_.clear(); }

private:
    std::uint64_t next_ = 0;
    std::map<std::uint64_t, std::uint64_t> posted_; // by number: the caller's wr_id
};

} // namespace adaptib::fault
