// SPDX-License-Identifier: BSD-3-Clause
// Rails of this process, as their words in the segment say (tools/adaptib_rails sets them).
//
// Purpose: tells which rails are down, and paces what leaves over a slowed one.
// Threads: one thread at a time uses the whole fabric; the words change at any time.
// May touch: base/, layout.h; in fabric/: event.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/invariant.h"
#include "base/units.h"
#include "fabric/event.h"
#include "fabric/shm/layout.h"

namespace adaptib::shm {

class OwnRails {
public:
    OwnRails(const RailEntry* entries, std::uint32_t count)
        : entries_(entries), count_(count), free_at_(count, Nanoseconds{0}),
          was_down_(count, false) {}

    std::uint64_t word(std::uint32_t rail) const {
        return entries_[rail].word.load(std::memory_order_acquire);
    }
    const std::atomic<std::uint64_t>& word_of(std::uint32_t rail) const {
        return entries_[rail].word;
    }
    // Returns `all` ORed with the words of all rails.
    std::uint64_t words(std::uint64_t all) const {
        for (std::uint32_t rail = 0; rail < count_; ++rail) {
            all |= word(rail);
        }
        return all;
    }
    // Reserves a slowed rail, slowed at this end or the peer's, for `bytes` more and returns the
    // time at which they have left it; 0 if no rail is slowed.
    Nanoseconds pace(std::uint32_t rail, std::uint64_t peer_word, Bytes bytes, const Clock& clock);
    // Calls raise(EventKind, rail) for each rail that went down, or came back, since the last call.
    template <class Raise> void look(Raise&& raise) {
        for (std::uint32_t rail = 0; rail < count_; ++rail) {
            const std::uint64_t state = word(rail);
            const bool down = (state & kRailDown) != 0;
            if (down != was_down_[rail]) {
                was_down_[rail] = down;
                raise(down ? EventKind::port_error : EventKind::port_active, rail);
            }
            if (state == 0) {
                free_at_[rail] = Nanoseconds{0};
            }
        }
    }

private:
    const RailEntry* entries_;
    std::uint32_t count_;
    std::vector<Nanoseconds> free_at_;
    std::vector<bool> was_down_;
};

inline Nanoseconds OwnRails::pace(std::uint32_t rail, std::uint64_t peer_word, Bytes bytes,
                                  const Clock& clock) {
    ADAPTIB_INVARIANT(rail < count_, "a rail that is paced is one of this process", rail, count_);
    const std::uint64_t own = word(rail) & kRailRateMask;
    const std::uint64_t other = peer_word & kRailRateMask;
    const std::uint64_t rate = own == 0 ? other : other == 0 ? own : std::min(own, other);
    if (rate == 0) {
        return Nanoseconds{0};
    }
    const Nanoseconds start = std::max(clock.now(), free_at_[rail]);
    free_at_[rail] = start + time_for(bytes, BytesPerSecond{rate});
    return free_at_[rail];
}

} // namespace adaptib::shm
