// SPDX-License-Identifier: BSD-3-Clause
// Active messages: eager messages for the listener instead of for matching. A message longer than
// the channel takes goes in parts, which follow each other in the order of the peer's messages.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "protocol/protocol.h"

namespace adaptib {

Status Protocol::send_active(Peer& peer, std::uint8_t tag, const Data& data, UserRequest& user,
                             bool& complete_now) {
    if (data.bytes > active_max_) {
        return Status::error(Reason::bad_argument);
    }
    SendRequest& request = make_send(user);
    request.peer = &peer;
    assign(request.data, data);
    request.type = MessageType::active;
    request.tag = tag;
    return sends_.start(request, complete_now);
}

// Returns false if there is no room now; the next call continues with the next part, and nothing
// else goes to the peer before. Data is packed as a whole, so that packing cannot fail between
// parts.
bool Protocol::transmit_parts(SendRequest& request) {
    Peer& peer = *request.peer;
    const Data& data = request.data;
    const Bytes next = std::min<Bytes>(data.bytes - request.parts_sent, peer.message_capacity());
    if (peer.reserve(next) == nullptr) {
        return false; // before anything is packed
    }
    const auto* from = static_cast<const std::byte*>(data.base);
    if (from == nullptr) {
        fragment_.resize(std::max<std::size_t>(fragment_.size(), data.bytes));
        if (!gather_all(data, 0, fragment_.data(), data.bytes).ok()) {
            completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
            return true;
        }
        from = fragment_.data();
    }
    while (request.parts_sent < data.bytes) {
        const Bytes left = data.bytes - request.parts_sent;
        const Bytes bytes = std::min(left, peer.message_capacity());
        std::byte* to = peer.reserve(bytes);
        if (to == nullptr) {
            return false;
        }
        std::memcpy(to, from + request.parts_sent, bytes);
        MessageHeader header;
        header.type = bytes == left ? MessageType::active : MessageType::active_part;
        header.flags = request.tag;
        header.length = static_cast<std::uint32_t>(bytes);
        const Status status = peer.commit(header);
        if (status.is_again()) {
            return false;
        }
        if (!status.ok()) {
            completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_UNREACHABLE, 0);
            on_peer_failed(peer, reason_text(status.reason()));
            report_peer_failure(peer);
            return true;
        }
        request.parts_sent += static_cast<std::uint32_t>(bytes);
        sends_.note_sent(peer);
    }
    completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, data.bytes);
    return true;
}

void Protocol::on_active_part(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (header.length == 0 || header.length > active_max_ - peer.in.parts.size()) {
        ++counters_.bad_packets;
        on_peer_failed(peer, "a message in parts is longer than the longest that is ever sent");
        return;
    }
    peer.in.parts.insert(peer.in.parts.end(), body, body + header.length);
}

// Takes the last part of a message, or a message without a listener.
void Protocol::on_active_end(Peer& peer, std::uint8_t tag, const std::byte* body, Bytes length) {
    if (active_handler_ == nullptr) {
        ++counters_.bad_packets;
        return;
    }
    std::vector<std::byte> whole = std::exchange(peer.in.parts, {});
    whole.insert(whole.end(), body, body + length);
    active_handler_(active_context_, peer, tag, whole.data(), whole.size());
}

bool Protocol::put_active_in_ring(Peer& peer, std::uint8_t tag, const void* first,
                                  Bytes first_bytes, const void* second, Bytes second_bytes) {
    const Bytes bytes = first_bytes + second_bytes;
    std::byte* to = peer.flows(bytes) ? peer.reserve_in_ring(bytes) : nullptr;
    if (to == nullptr) [[unlikely]] {
        return false;
    }
    copy_small(to, first, first_bytes);
    copy_small(to + first_bytes, second, second_bytes);
    MessageHeader header = active_header(tag, bytes);
    return peer.commit_in_ring(header).ok();
}

} // namespace adaptib
