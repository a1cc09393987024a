// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: an RTS (`rendezvous`) is matched; who moves the data, and how; how it ends.
#include <algorithm>

#include "protocol/protocol.h"

namespace adaptib {

void Protocol::on_rendezvous(Peer& peer, const MessageHeader& header, const RendezvousBody& body) {
    const Envelope envelope{header.context, header.source, header.tag};
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        accept(peer, envelope, body, *static_cast<ReceiveRequest*>(posted));
        return;
    }
    InboundMessage* message = store(envelope, body.bytes, sizeof body);
    if (message == nullptr) {
        on_peer_failed(peer, no_memory_text(peer, sizeof body));
        return;
    }
    message->type = MessageType::rendezvous;
    new (message->payload()) RendezvousBody(body);
    queue_unexpected(peer, *message);
}

void Protocol::accept(Peer& peer, const Envelope& envelope, const RendezvousBody& source,
                      ReceiveRequest& request) {
    const Bytes wanted = std::min<Bytes>(source.bytes, request.data.bytes);
    request.envelope = envelope;
    if (peer.state == ConnectState::failed) {
        complete_receive(request, envelope, source.bytes, 0, OPAL_COMMON_ADAPTIB_UNREACHABLE);
        return;
    }
    if (wanted == 0 || read_at_once(peer, source, request.data.base, wanted)) {
        const IdBody body{source.send_id};
        flow_.send_control(peer, MessageType::finish, &body, sizeof body);
        complete_receive(request, envelope, source.bytes, wanted, OPAL_COMMON_ADAPTIB_SUCCESS);
        return;
    }
    auto* transfer = new ReceiveTransfer(*this, transfers_, peer);
    transfer->request = &request;
    transfer->source = source;
    transfer->wanted = wanted;
    transfer->id = receives_.add(transfer);
    ++peer.users;
    // Requesting a connection may fail the peer at once, and with it every transfer.
    const std::uint64_t id = transfer->id;
    undecided_.push_back(*transfer);
    connections_.request(peer);
    if (receives_.find(id) != transfer) {
        return;
    }
    const bool open = peer.state == ConnectState::open;
    if (open ? peer.yields : !peer.connecting()) {
        ask_for_fragments(*transfer);
        return;
    }
    if (is_contiguous(request.data)) { // registers while the connection comes up, if it has to
        transfer->memory =
            registered(peer, transfer->own, request.data.base, wanted, kLocalWrite | kRemoteWrite);
    }
    if (open) {
        undecided_.remove(*transfer);
        decide(*transfer);
    }
}

// REQUIRES: the peer is open.
void Protocol::decide(ReceiveTransfer& transfer) {
    const RendezvousBody& source = transfer.source;
    ClearBody clear{};
    clear.send_id = source.send_id;
    clear.receive_id = transfer.id;
    clear.wanted = transfer.wanted;
    clear.block_depth = static_cast<std::uint16_t>(options_.block_depth);
    clear.block_bytes = static_cast<std::uint32_t>(options_.block_bytes);
    if (!take_blocks(transfer)) {
        ask_for_fragments(transfer);
        return;
    }
    if (source.kind == SourceKind::packed) {
        transfer.mode = ReceiveTransfer::Mode::packed;
    } else if (transfer.memory == nullptr) {
        transfer.mode = ReceiveTransfer::Mode::read_blocks;
        start_block_reads(transfer);
        return;
    } else if (!options_.put) {
        transfer.mode = ReceiveTransfer::Mode::read;
        start_read(transfer);
        return;
    } else {
        transfer.mode = ReceiveTransfer::Mode::written;
        clear.address = reinterpret_cast<std::uintptr_t>(transfer.request->data.base);
        clear.key_count = static_cast<std::uint16_t>(transfer.memory->key_count());
        transfer.memory->copy_remote_keys(clear.keys);
    }
    flow_.send_control(transfer.peer, MessageType::clear_to_send, &clear, sizeof clear);
}

// Calls f for the peer's undecided transfers, in their order. Each leaves the list before its call.
template <typename F> void Protocol::for_each_undecided(Peer& peer, F&& f) {
    for (std::size_t left = undecided_.size(); left > 0 && !undecided_.empty(); --left) {
        ReceiveTransfer& transfer = *undecided_.pop_front();
        if (&transfer.peer == &peer) {
            f(transfer);
        } else {
            undecided_.push_back(transfer);
        }
    }
}

void Protocol::on_interrupted(Peer& peer) {
    if (!peer.interrupted) {
        transfers_.stop_balancing(peer);
        flow_.interrupt(peer);
    }
}

void Protocol::on_connected(Peer& peer) {
    flow_.resume(peer);
    for_each_undecided(peer, [this](ReceiveTransfer& transfer) {
        if (transfer.peer.state == ConnectState::open) {
            decide(transfer);
        } else {
            ask_for_fragments(transfer);
        }
    });
}

void Protocol::on_unconnected(Peer& peer) {
    if (peer.interrupted) {
        flow_.resume(peer);
    }
    for_each_undecided(peer, [this](ReceiveTransfer& transfer) { ask_for_fragments(transfer); });
}

void Protocol::on_clear_to_send(Peer& peer, std::uint8_t flags, const ClearBody& body) {
    SendTransfer* transfer = sends_.find(body.send_id);
    const bool put = body.address != 0;
    const bool push = flags == kClearPush;
    const bool blocks = body.block_depth > 0 && body.block_bytes > 0;
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent || transfer->cleared ||
        body.wanted == 0 || body.wanted > transfer->request->data.bytes ||
        put != (transfer->kind == SourceKind::direct && !push) || !(put || push || blocks)) {
        ++counters_.bad_packets;
        return;
    }
    transfer->cleared = true;
    ++peer.users;
    transfer->receive_id = body.receive_id;
    transfer->wanted = body.wanted;
    if (push) {
        start_fragments(*transfer);
    } else if (put) {
        transfer->rma.remote = body.address;
        transfer->rma.remote_key_count = body.key_count;
        std::copy(std::begin(body.keys), std::end(body.keys), transfer->rma.remote_keys);
        start_write(*transfer);
    } else {
        transfer->block_bytes = std::min<Bytes>(options_.block_bytes, body.block_bytes);
        transfer->blocks.resize(std::min<std::size_t>(options_.block_depth, body.block_depth));
        pack_blocks(*transfer);
    }
}

// Takes a FIN: the receiver has read the message, or as much of it as it has room for, or gives up.
void Protocol::on_finish(Peer& peer, const IdBody& body) {
    ++peer.finishes;
    SendTransfer* transfer = sends_.find(body.id);
    if (transfer == nullptr || &transfer->peer != &peer || !transfer->sent || transfer->pushing ||
        (transfer->cleared && transfer->kind == SourceKind::direct)) {
        ++counters_.bad_packets;
        return;
    }
    end_send(*transfer, false);
}

void Protocol::end_send(SendTransfer& transfer, bool failed) {
    SendRequest& request = *transfer.request;
    transfer.peer.users -= transfer.cleared ? 1 : 0;
    for (SendTransfer::Block& block : transfer.blocks) {
        if (block.memory != nullptr) {
            staging(transfer.peer).give(std::move(block.memory));
        }
    }
    sends_.remove(transfer.id);
    delete &transfer;
    complete(*request.user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
             failed ? 0 : request.data.bytes);
}

// REQUIRES: no block is active and no stripe outstanding.
void Protocol::end_receive(ReceiveTransfer& transfer) {
    ReceiveRequest& request = *transfer.request;
    const Bytes message_bytes = transfer.source.bytes;
    const Bytes wanted = transfer.wanted;
    const bool failed = transfer.failed;
    // A sender that packs ends with its last block, a sender that writes ends by itself. After a
    // failure, the sender has to be told.
    const bool tell =
        !transfer.sender_ended && (failed || transfer.mode == ReceiveTransfer::Mode::read ||
                                   transfer.mode == ReceiveTransfer::Mode::read_blocks);
    Peer& peer = transfer.peer;
    --peer.users;
    if (transfer.undecided_link.linked()) {
        undecided_.remove(transfer);
    }
    give_blocks(transfer);
    const IdBody body{transfer.source.send_id};
    receives_.remove(transfer.id);
    delete &transfer;
    if (tell) {
        flow_.send_control(peer, MessageType::finish, &body, sizeof body);
    }
    const bool lost = peer.work_failed || peer.state == ConnectState::failed;
    const int failure = !failed ? OPAL_COMMON_ADAPTIB_SUCCESS
                        : lost  ? OPAL_COMMON_ADAPTIB_UNREACHABLE
                                : OPAL_COMMON_ADAPTIB_ERROR;
    complete_receive(request, request.envelope, message_bytes, failed ? 0 : wanted, failure);
}

} // namespace adaptib
