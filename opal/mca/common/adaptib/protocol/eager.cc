// SPDX-License-Identifier: BSD-3-Clause
// Eager messages, and the acknowledgement of synchronous ones.
#include <algorithm>

#include "protocol/protocol.h"

namespace adaptib {

void Protocol::on_eager(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const Bytes fixed = header.type == MessageType::eager ? 0 : sizeof(SyncBody);
    const std::byte* payload = body + fixed;
    const Bytes length = header.length - fixed;
    const Envelope envelope{header.context, header.source, header.tag};
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        deliver_eager(*static_cast<ReceiveRequest*>(posted), envelope, payload, length);
        if (fixed != 0) {
            send_control(peer, MessageType::sync_ack, body, sizeof(IdBody));
        }
        return;
    }
    InboundMessage* message = store(envelope, length, length);
    if (message == nullptr) {
        on_peer_failed(peer, "out of memory for an unexpected message");
        return;
    }
    message->peer = &peer;
    message->type = header.type;
    message->send_id = fixed != 0 ? read_body<SyncBody>(body).send_id : 0;
    if (length > 0) {
        std::memcpy(message->payload(), payload, length);
    }
    matcher_.add_unexpected(*message);
}

void Protocol::deliver_eager(ReceiveRequest& request, const Envelope& envelope,
                             const std::byte* payload, Bytes length) {
    const Bytes taken = std::min<Bytes>(length, request.data.bytes);
    const bool failed = taken > 0 && !scatter(request.data, 0, payload, taken).ok();
    complete_receive(request, envelope, length, taken,
                     failed ? OPAL_COMMON_ADAPTIB_ERROR : OPAL_COMMON_ADAPTIB_SUCCESS);
}

void Protocol::on_sync_ack(Peer& peer, const IdBody& body) {
    SendRequest* request = waiting_acks_.find(body.id);
    if (request == nullptr || request->peer != &peer || !request->sent) {
        ++counters_.bad_packets;
        return;
    }
    waiting_acks_.remove(body.id);
    complete(*request->user, OPAL_COMMON_ADAPTIB_SUCCESS, request->data.bytes);
}

} // namespace adaptib
