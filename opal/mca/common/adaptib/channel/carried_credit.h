// SPDX-License-Identifier: BSD-3-Clause
// CarriedCredit: the consumed count of the ring in the other direction, which a posted message
// takes along.
//
// Purpose: holds the count from exchange_credit() (channel/ring_credit.h) until a message takes it,
// and remembers the last one that went.
// Threads: one at a time.
// May touch: base/.
#pragma once

#include <cstdint>

namespace adaptib {

class CarriedCredit {
public:
    // Sets the count that the next posted message takes along (0: none).
    void carry(std::uint64_t count) { to_carry_ = count; }
    // Returns the last count that a message took along.
    std::uint64_t carried() const { return carried_; }

    // Reserves room for the count in the message that is being reserved, if there is a count.
    void reserve() { reserved_ = to_carry_ != 0; }
    bool reserved() const { return reserved_; }
    // Returns the count that the reserved message takes along.
    std::uint64_t count() const { return to_carry_; }
    // Called when the reserved message is posted.
    void on_posted() {
        if (reserved_) {
            carried_ = to_carry_;
            to_carry_ = 0;
        }
    }

private:
    bool reserved_ = false; // the reserved message takes to_carry_ along
    std::uint64_t to_carry_ = 0;
    std::uint64_t carried_ = 0;
};

} // namespace adaptib
