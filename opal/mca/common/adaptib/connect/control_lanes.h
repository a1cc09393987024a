// SPDX-License-Identifier: BSD-3-Clause
// ControlLanes: the subchannel of each connection that carries its ring and credit.
//
// Purpose: chooses the control lane of a new connection, says which subchannels could carry it, and
// posts the empty write that shows that nothing on it is under way (Flush).
// Once chosen, a control lane is changed by LaneMigrations alone: everything posted there has to be
// over before anything goes another way.
// Threads: one at a time.
// May touch: base/, fabric/, peer/, schedule/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "connect/connect_context.h"

namespace adaptib {

class ControlLanes {
public:
    explicit ControlLanes(const ConnectContext& context) : context_(context) {}

    // Returns the index of the peer's control lane; chooses one if there is none
    // (schedule/control_lane.h).
    std::size_t get_or_choose(Peer& peer);
    // Returns true if the subchannel is up, as far as is known.
    bool can_carry(const Peer& peer, std::uint32_t index) const;
    // Posts an empty write on the control lane, which carries everything that this side posts
    // besides transfers. Errors: of the queue pair; again.
    Status post_flush(Peer& peer, FlushWork& by);
    // Posts it on that subchannel of the peer.
    Status post_flush(const Peer& peer, Subchannel& subchannel, FlushWork& by);
    // Counts a post for the connection itself. posts() returns the number.
    void count_post() { ++posts_; }
    std::uint64_t posts() const { return posts_; }

private:
    const ConnectContext& context_;
    std::vector<SubchannelStats> subchannel_stats_; // scratch of get_or_choose()
    std::uint64_t posts_ = 0;
};

} // namespace adaptib
