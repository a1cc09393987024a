// SPDX-License-Identifier: BSD-3-Clause
// Active messages: an eager message for the listener instead of for matching.
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
    return start_send(request, complete_now);
}

void Protocol::on_active(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (active_handler_ == nullptr) {
        ++counters_.bad_packets;
        return;
    }
    active_handler_(active_context_, peer, header.flags, body, header.length);
}

} // namespace adaptib
