// SPDX-License-Identifier: BSD-3-Clause
// An RTS (`rendezvous`) is sent, or arrives and is matched (rendezvous.h does the rest).
#include <algorithm>

#include "protocol/message_sends.h"
#include "protocol/tagged_receives.h"

namespace adaptib {

bool MessageSends::transmit_rendezvous(SendRequest& request) {
    Peer& peer = *request.peer;
    const Status status = rendezvous_.announce(request);
    if (!status.ok()) [[unlikely]] {
        if (status.is_again()) {
            return false;
        }
        lost_.lose(peer, reason_text(status.reason())); // the transfer ends with it
        return true;
    }
    flow_.note_sent(peer);
    events_.want_connection(peer);
    on_own_send_waits();
    return true;
}

void TaggedReceives::on_rendezvous(Peer& peer, const MessageHeader& header,
                                   const RendezvousBody& body) {
    const Envelope envelope{header.context, header.source, header.tag};
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        accept(peer, envelope, body, *static_cast<ReceiveRequest*>(posted));
        return;
    }
    InboundMessage* message = store(envelope, body.bytes, sizeof body);
    if (message == nullptr) {
        lost_.lose(peer, no_memory_text(peer, sizeof body));
        return;
    }
    message->type = MessageType::rendezvous;
    new (message->payload()) RendezvousBody(body);
    queue_unexpected(peer, *message);
}

bool TaggedReceives::read_at_once(Peer& peer, const RendezvousBody& source, void* to,
                                  Bytes wanted) {
    const Registration* all = parts_.memory.whole(peer.contact.route.fabric);
    if (all == nullptr || source.kind != SourceKind::direct || to == nullptr || options_.put) {
        return false;
    }
    RmaWork work;
    work.opcode = Opcode::read;
    work.local = to;
    work.length = wanted;
    work.remote_address = source.address;
    const std::span<const std::uint32_t> keys{source.keys, source.key_count};
    return parts_.synchronous.read_message(peer, work, *all, keys, source.send_id);
}

void TaggedReceives::accept(Peer& peer, const Envelope& envelope, const RendezvousBody& source,
                            ReceiveRequest& request) {
    const Bytes wanted = std::min<Bytes>(source.bytes, request.data.bytes);
    request.envelope = envelope;
    if (lost_.is_lost(peer)) {
        completions_.complete_receive(request, envelope, source.bytes, 0,
                                      OPAL_COMMON_ADAPTIB_UNREACHABLE);
        return;
    }
    if (wanted == 0 || read_at_once(peer, source, request.data.base, wanted)) {
        const IdBody body{source.send_id};
        parts_.flow.send_control(peer, MessageType::finish, &body, sizeof body);
        note_event(trace_, TraceKind::copied_at_once, {.peer = peer.contact.name, .value = wanted});
        completions_.complete_receive(request, envelope, source.bytes, wanted,
                                      OPAL_COMMON_ADAPTIB_SUCCESS);
        return;
    }
    parts_.rendezvous.receive(peer, source, request, wanted);
}

} // namespace adaptib
