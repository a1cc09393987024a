// SPDX-License-Identifier: BSD-3-Clause
#include "connect/sharing_rules.h"

#include <algorithm>

#include "connect/need.h"

namespace adaptib {

bool SharingRules::may_share(const Peer& peer) const {
    if (context_.options.shared == nullptr || peer.contact.name == context_.options.self ||
        peer.contact.route.count == 0) {
        return false;
    }
    return std::all_of(peer.contact.route.pairs.begin(),
                       peer.contact.route.pairs.begin() + peer.contact.route.count,
                       [&](const auto& pair) {
                           const AddressRail& remote = peer.contact.address.rails[pair.remote];
                           return context_.options.shared->is_open(pair.local) &&
                                  (remote.flags & kRailShares) != 0 &&
                                  context_.rails[pair.local]->dc_suits({remote.size, remote.bytes});
                       });
}

bool SharingRules::chooses(const Peer& peer) const {
    if (context_.options.sharing == Sharing::never || !may_share(peer)) {
        return false;
    }
    if (peer.connection.activity.preference != SharingPreference::any) {
        return peer.connection.activity.preference == SharingPreference::shared;
    }
    return context_.options.sharing == Sharing::all ||
           (!limit_.has_room() && !peer.connection.activity.chosen && shares_at_once(peer));
}

bool SharingRules::shares_at_once(const Peer& peer) const {
    return most_ == kAnyNumber || peer.transfers.users > 0;
}

bool SharingRules::may_share_now(const Peer& peer, bool awaited) const {
    const bool has_it = peer.connection.shared && peer.connection.slot_link.linked();
    return context_.options.sharing != Sharing::spare || awaited || peer.transfers.users > 0 ||
           has_it || has_room();
}

bool SharingRules::need_not_wait(const Peer& peer) const {
    return context_.options.sharing == Sharing::spare && peer.transfers.users > 0 &&
           chooses(peer) && may_ask(peer, context_.options.clock->now());
}

} // namespace adaptib
