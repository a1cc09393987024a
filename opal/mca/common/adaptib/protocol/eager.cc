// SPDX-License-Identifier: BSD-3-Clause
// Eager messages arrive, synchronous or not.
#include <algorithm>

#include "base/copy.h"
#include "protocol/tagged_receives.h"

namespace adaptib {

void TaggedReceives::on_eager_sync(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const std::byte* payload = body + sizeof(SyncBody);
    const Bytes length = header.length - sizeof(SyncBody);
    const Envelope envelope{header.context, header.source, header.tag};
    note_event(trace_, TraceKind::message_arrived, {.peer = peer.contact.name, .value = length});
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        deliver_eager(*static_cast<ReceiveRequest*>(posted), envelope, payload, length);
        parts_.flow.send_control(peer, MessageType::sync_ack, body, sizeof(IdBody));
        return;
    }
    InboundMessage* message =
        keep(peer, header.context, header.source, header.tag, payload, length);
    if (message != nullptr) {
        message->type = header.type;
        message->send_id = read_body<SyncBody>(body).send_id;
    }
}

// Keeps a message until its receive is posted. Returns null if there is no memory, which fails the
// peer.
InboundMessage* TaggedReceives::keep(Peer& peer, std::uint32_t context, std::int32_t source,
                                     std::int32_t tag, const std::byte* payload, Bytes length) {
    InboundMessage* message = store({context, source, tag}, length, length);
    if (message == nullptr) {
        lost_.lose(peer, no_memory_text(peer, length));
        return nullptr;
    }
    copy_small(message->payload(), payload, length);
    queue_unexpected(peer, *message);
    return message;
}

// Delivers into a buffer that is not contiguous, or is shorter than the message.
void TaggedReceives::deliver_part(ReceiveRequest& request, const Envelope& envelope,
                                  const std::byte* payload, Bytes length) {
    const Bytes taken = std::min<Bytes>(length, request.data.bytes);
    const bool failed = taken > 0 && !scatter(request.data, 0, payload, taken).ok();
    completions_.complete_receive(request, envelope, length, taken,
                                  failed ? OPAL_COMMON_ADAPTIB_ERROR : OPAL_COMMON_ADAPTIB_SUCCESS);
}

} // namespace adaptib
