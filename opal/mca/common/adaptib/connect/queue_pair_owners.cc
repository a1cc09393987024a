// SPDX-License-Identifier: BSD-3-Clause
#include "connect/queue_pair_owners.h"

namespace adaptib {

namespace {

std::uint32_t index_of(const Peer& peer, const Subchannel& subchannel) {
    return static_cast<std::uint32_t>(&subchannel - peer.lanes.subchannels.data());
}

} // namespace

void QueuePairOwners::add(Peer& peer, const Subchannel& subchannel) {
    owners_.emplace(key_of(subchannel.local_rail, subchannel.qp->number()),
                    Owner{&peer, index_of(peer, subchannel)});
}

void QueuePairOwners::remove(const Peer& peer, const Subchannel& subchannel) {
    const auto [first, end] =
        owners_.equal_range(key_of(subchannel.local_rail, subchannel.qp->number()));
    for (auto each = first; each != end; ++each) {
        if (each->second.peer == &peer && each->second.subchannel == index_of(peer, subchannel)) {
            owners_.erase(each);
            return;
        }
    }
}

std::vector<Peer*> QueuePairOwners::find(std::uint32_t rail, std::uint32_t qp_number) {
    std::vector<Peer*> found;
    const auto [first, end] = owners_.equal_range(key_of(rail, qp_number));
    for (auto each = first; each != end;) {
        Peer& peer = *each->second.peer;
        const std::uint32_t index = each->second.subchannel;
        if (index < peer.lanes.subchannels.size() &&
            peer.lanes.subchannels[index].has(rail, qp_number)) {
            found.push_back(&peer);
            ++each;
        } else {
            each = owners_.erase(each);
        }
    }
    return found;
}

} // namespace adaptib
