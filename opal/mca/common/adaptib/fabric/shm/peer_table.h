// SPDX-License-Identifier: BSD-3-Clause
// Peers whose segments this process has mapped.
//
// Purpose: maps a peer's segment when an address leads to it for the first time, refuses a peer
// that cannot be mapped, and looks after those that are: their processes, their rails.
// Ownership: queue pairs and address handles share a segment; the table only knows it.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, layout.h, limits.h, obstacle.h, segment.h; in fabric/: rail_address.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/units.h"
#include "fabric/rail_address.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/obstacle.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

class PeerTable {
public:
    // open() sets `error_text` to its failure, for a person, or to nothing.
    PeerTable(OwnSegment& segment, std::string& error_text)
        : segment_(segment), error_text_(error_text) {}

    bool empty() const { return peers_.empty(); }
    // Finds the peer that a path leads to, and maps its segment if it is not mapped yet; `rail` is
    // the rail named in the address.
    Status open(const RailAddress& address, std::shared_ptr<PeerSegment>& out, std::uint32_t& rail);
    // Tells the process at that address, which sends to this one, that this process never replies
    // to it.
    void refuse(const RailAddress& address, Reason why);

    PeerSegment* find(std::uint64_t cookie) const;
    // Cookie of the process that wrote a record; 0 if there is none.
    std::uint64_t producer_cookie(std::uint32_t slot) const {
        if (slot >= kMaxProducers) {
            return 0;
        }
        return producers_of(segment_.base())[slot].cookie.load(std::memory_order_acquire);
    }

    // Checks whether a peer's process is still there, each time another one, at intervals.
    void look_after_one(Nanoseconds now);
    // Returns the OR of the words of all peers' rails; `news` becomes the number of peers that have
    // gone or refused this process since the last call.
    std::uint64_t look_at_rails(std::uint32_t& news) const;

private:
    OwnSegment& segment_;
    std::string& error_text_;
    std::map<std::uint64_t, std::weak_ptr<PeerSegment>> peers_; // by cookie
    Obstacle obstacle_;                                         // that open() met last
    std::uint64_t obstacle_cookie_ = 0;                         // peer with which it met obstacle_
    std::uint64_t looked_at_ = 0;
    Nanoseconds next_look_{0};
};

} // namespace adaptib::shm
