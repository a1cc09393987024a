// SPDX-License-Identifier: BSD-3-Clause
// Who is to have a connection and a ring while there is no room for all (parameter `channel_policy`).
//
// Once per period the messages of each peer are counted, both ways: a connection serves both, so its two ends
// see the same number. That costs nothing per message, since messages are numbered. The peers that
// select/selector.h chooses are asked for a connection, and have the others' closed if need be
// (connect/limits.cc).
// Source: Takagi et al., section 3; without shared rings, for which the fabrics have no queue pairs.
// May touch: what core/core.h may.
#include <algorithm>

#include "core/core.h"

namespace adaptib {

bool Core::select_due(Nanoseconds now) const {
    return selector_ != nullptr && now >= select_at_ && connections_->crowded();
}

void Core::select_channels(Nanoseconds now) {
    select_at_ = now + select_period_;
    std::vector<SourceCount> counts;
    std::vector<std::uint64_t> talking;
    peers_.for_each([&](Peer& peer) {
        const std::uint32_t messages = peer.messages();
        const std::uint32_t news = messages - peer.usage.counted;
        peer.usage.counted = messages;
        if (news > 0) {
            counts.push_back({peer.name, static_cast<double>(news)});
            talking.push_back(peer.name);
        }
    });
    const auto room = static_cast<std::size_t>(connections_->room());
    const Mapping before = selector_->mapping();
    selector_->tick(std::move(counts), {room, room, false});
    ++counters_.selections;
    counters_.selections_changed += selector_->mapping() == before ? 0 : 1;
    counters_.selection_bytes = selector_->memory_bytes();
    const std::vector<std::uint64_t>& chosen = selector_->mapping().connected;
    peers_.for_each([&](Peer& peer) {
        peer.usage.chosen = std::binary_search(chosen.begin(), chosen.end(), peer.name);
    });
    for (const std::uint64_t name : talking) { // who is silent has no use for one, chosen or not
        Peer* peer = peers_.find(name);
        if (peer != nullptr && peer->usage.chosen && peer->datagram.handle != nullptr &&
            !peer->released) {
            connections_->request(*peer); // may end others, so not from within for_each
        }
    }
}

} // namespace adaptib
