// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/ring_sends.h"

#include "protocol/gathered_sends.h"

namespace adaptib {

bool RingSends::copy_into_ring(Peer& peer, std::uint32_t context, std::int32_t source,
                               std::int32_t tag, const void* base, Bytes bytes) {
    std::byte* to = peer.may_use_ring(bytes) ? peer.reserve_in_ring(bytes) : nullptr;
    if (to == nullptr) [[unlikely]] {
        return false;
    }
    copy_small(to, base, bytes);
    MessageHeader header = eager_header({context, source, tag}, bytes);
    return peer.commit_in_ring(header).ok();
}

bool RingSends::copy_unless_gathered(Peer& peer, std::uint32_t context, std::int32_t source,
                                     std::int32_t tag, const void* base, Bytes bytes) {
    const bool gathers = peer.flow.gathers != nullptr && peer.may_use_ring(bytes) &&
                         peer.flow.gathers->wants(peer, base, bytes);
    return !gathers && copy_into_ring(peer, context, source, tag, base, bytes);
}

} // namespace adaptib
