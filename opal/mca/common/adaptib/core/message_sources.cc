// SPDX-License-Identifier: BSD-3-Clause
#include "core/message_sources.h"

namespace adaptib {

void MessageSources::note(Nanoseconds now) {
    map_.look(now);
    peers_.for_each([this](Peer& peer) {
        const std::uint32_t news = peer.in.next_receive - peer.connection.activity.mapped;
        peer.connection.activity.mapped = peer.in.next_receive;
        map_.add(peer.contact.name, news);
    });
}

} // namespace adaptib
