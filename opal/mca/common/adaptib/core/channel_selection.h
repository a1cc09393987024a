// SPDX-License-Identifier: BSD-3-Clause
// ChannelSelection: selection of the peers that get a connection and a ring while there is no room
// for all (parameter `channel_policy`).
//
// Purpose: once per period the messages of each peer are counted, in both directions: a connection
// serves both, so its two ends see the same number. Counting costs nothing per message, since
// messages are numbered. For the peers that select/selector.h chooses a connection is requested; if
// need be, connections of others are closed for them (connect/connection_limit.h). With dynamically
// connected queue pairs, a peer that is worth a ring but not a queue pair gets a ring over these.
// Threads: one at a time (the core's lock).
// Source: Takagi et al., section 3.
// May touch: base/, peer/, select/, connect/, stats/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "connect/connection_manager.h"
#include "peer/peer_table.h"
#include "select/cost_meter.h"
#include "select/policy.h"
#include "select/selector.h"
#include "stats/counters.h"

namespace adaptib {

class ChannelSelection {
public:
    struct Options {
        bool selects = false;  // ChannelPlan
        Nanoseconds period{0}; // likewise, and so are the next
        Sharing sharing = Sharing::never;
        std::uint64_t rings = 0;
        ChannelCosts costs;         // used for costs that are not measured
        CostMeter* meter = nullptr; // null: costs are the model's
    };
    ChannelSelection(const Options& options, const PeerTable& peers, ConnectionManager& connections,
                     Counters& counters);

    // True if channels are to be selected now.
    bool is_due(Nanoseconds now) const {
        return selector_.has_value() && now >= select_at_ &&
               (!connections_.limit().has_room() || connections_.limit().shared() > 0);
    }
    void select_channels(Nanoseconds now);
    // Hands the costs to the selection, and notes them for the report and the counters. REQUIRES:
    // channels are selected.
    void note_costs();

    // For a caller that selects channels itself. promote() moves the peer one step up, if there is
    // room: from the shared queue to a ring written over shared (DC) queue pairs, if there are any,
    // to a ring with queue pairs of its own. demote() moves it one step down, if nothing needs its
    // connection.
    void promote(Peer& peer);
    void demote(Peer& peer);

private:
    void connect_selected(const std::vector<std::uint64_t>& talking, Nanoseconds now);

    Options options_;
    const PeerTable& peers_;
    ConnectionManager& connections_;
    Counters& counters_;
    std::optional<Selector> selector_; // none: channels are not selected
    Nanoseconds select_at_{0};
};

} // namespace adaptib
