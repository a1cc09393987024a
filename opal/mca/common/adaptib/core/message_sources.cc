// SPDX-License-Identifier: BSD-3-Clause
#include "core/message_sources.h"

namespace adaptib {

void MessageSources::note(Nanoseconds now) {
    map_.look(now);
    peers_.for_each([this](Peer& peer) {
        const std::uint32_t news = peer.next_receive - peer.activity.mapped;
        peer.activity.mapped = peer.next_receive;
        map_.add(peer.name, news);
    });
}

} // namespace adaptib
