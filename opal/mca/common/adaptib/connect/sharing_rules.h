// SPDX-License-Identifier: BSD-3-Clause
// SharingRules: which peers may be connected over shared queue pairs, and which are.
//
// Purpose: the policy (Sharing), the paths to the peer, the room for queue pairs of its own
// and the activity of the peer decide. The selection of channels (core/channel_selection.h) decides
// for single peers, and limits the number of those that share for the sake of small messages.
// Threads: one at a time.
// May touch: base/, channel/, peer/.
#pragma once

#include <cstddef>

#include "connect/connect_context.h"
#include "connect/connection_limit.h"

namespace adaptib {

class SharingRules {
public:
    SharingRules(const ConnectContext& context, const ConnectionLimit& limit)
        : context_(context), limit_(limit) {}

    // Returns true if the peer can be connected over shared queue pairs.
    bool may_share(const Peer& peer) const;
    // Returns true if the peer's request for such a connection is to be accepted now. `awaited`: it
    // is for a large or one-sided operation. These hardly manage without a connection, and a change
    // of target costs them hardly anything. REQUIRES: may_share().
    bool may_share_now(const Peer& peer, bool awaited) const;
    // Returns true if the next connection is to be requested over shared queue pairs.
    bool chooses(const Peer& peer) const;
    // Returns true if the peer may share without a decision of the selection.
    bool shares_at_once(const Peer& peer) const;
    // Returns true if the peer waits for queue pairs of its own, and a large or one-sided operation
    // has come up meanwhile.
    bool need_not_wait(const Peer& peer) const;
    // With Sharing::spare: limits the number of peers that share for the sake of small messages
    // (select/mapping.h, shared_most).
    void limit(std::size_t most) { most_ = most; }
    bool limited() const { return most_ != kAnyNumber; }
    bool has_room() const { return limit_.shared() < most_; }

private:
    static constexpr std::size_t kAnyNumber = ~std::size_t{0};

    const ConnectContext& context_;
    const ConnectionLimit& limit_;
    std::size_t most_ = kAnyNumber;
};

} // namespace adaptib
