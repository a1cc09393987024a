// SPDX-License-Identifier: BSD-3-Clause
// There is no connection, and no room for one, or no memory to pack into or unpack from: the receiver asks for the
// message itself, or the sender finds that it has to; it sends it in fragments, among its other messages and over the
// channel that they take.
#include <algorithm>

#include "protocol/protocol.h"

namespace adaptib {

namespace {

constexpr int kFragmentsInARow = 8; // then others that wait for the peer have their turn

} // namespace

void Protocol::ask_for_fragments(ReceiveTransfer& transfer) {
    if (transfer.undecided_link.linked()) {
        undecided_.remove(transfer);
    }
    transfer.mode = ReceiveTransfer::Mode::pushed;
    ClearBody clear{};
    clear.send_id = transfer.source.send_id;
    clear.receive_id = transfer.id;
    clear.wanted = transfer.wanted;
    send_control(transfer.peer, MessageType::clear_to_send, &clear, sizeof clear, kClearPush);
}

void Protocol::start_fragments(SendTransfer& transfer) {
    transfer.pushing = true;
    transfer.packed = transfer.announced = 0;
    stall(transfer.peer, transfer.fragments);
}

// The next bytes, for one fragment; 0: they cannot be packed. More than is wanted may be packed, since a
// packer stops at an element's end.
Bytes Protocol::fill_fragment(SendTransfer& transfer, Bytes room) {
    const Data& data = transfer.request->data;
    const Bytes most = std::min<Bytes>(room, data.bytes - transfer.packed);
    fragment_.resize(std::max<std::size_t>(fragment_.size(), most));
    return gather_some(data, transfer.packed, fragment_.data(), most);
}

// False if there is no room now. The transfer is gone when all of it is sent, or the peer is broken.
bool Protocol::send_fragments(SendTransfer& transfer) {
    Peer& peer = transfer.peer;
    for (int i = 0; i < kFragmentsInARow; ++i) {
        const Bytes most = peer.message_capacity() - sizeof(FragmentBody);
        if (peer.reserve(most + sizeof(FragmentBody)) == nullptr) {
            return false;
        }
        const Bytes packed = fill_fragment(transfer, most);
        if (packed == 0) {
            const WrittenBody given_up{transfer.receive_id, 0};
            end_send(transfer, true);
            send_control(peer, MessageType::written, &given_up, sizeof given_up);
            return true;
        }
        const Bytes bytes = std::min(packed, transfer.wanted - transfer.announced);
        const FragmentBody body{transfer.receive_id, transfer.announced};
        MessageHeader header;
        header.type = MessageType::fragment;
        header.length = static_cast<std::uint32_t>(sizeof body + bytes);
        std::byte* to = peer.reserve(header.length);
        if (to == nullptr) {
            return false;
        }
        std::memcpy(to, &body, sizeof body);
        std::memcpy(to + sizeof body, fragment_.data(), bytes);
        const Status status = peer.commit(header);
        if (status.is_again()) {
            return false;
        }
        if (!status.ok()) {
            on_peer_failed(peer, reason_text(status.reason())); // ends the transfer
            return true;
        }
        ++counters_.fragments_sent;
        transfer.packed += packed;
        transfer.announced += bytes;
        if (transfer.announced == transfer.wanted) {
            end_send(transfer, false);
            return true;
        }
    }
    peer.pending.add(transfer.fragments); // behind the others
    return true;
}

// A receiver that cannot unpack takes the rest all the same: so both sides end.
void Protocol::on_fragment(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const auto fragment = read_body<FragmentBody>(body);
    const Bytes bytes = header.length - sizeof fragment;
    ReceiveTransfer* transfer = receives_.find(fragment.receive_id);
    const auto expects = [](const ReceiveTransfer& each) {
        return each.mode == ReceiveTransfer::Mode::pushed ||
               (each.mode == ReceiveTransfer::Mode::packed && each.started == 0);
    };
    if (transfer == nullptr || &transfer->peer != &peer || !expects(*transfer) ||
        fragment.offset != transfer->received || bytes == 0 ||
        bytes > transfer->wanted - transfer->received) {
        ++counters_.bad_packets;
        return;
    }
    transfer->mode = ReceiveTransfer::Mode::pushed; // or the sender has no memory for blocks
    if (!transfer->failed) {
        transfer->failed =
            !scatter(transfer->request->data, transfer->received, body + sizeof fragment, bytes)
                 .ok();
    }
    transfer->received += bytes;
    if (transfer->received == transfer->wanted) {
        transfer->sender_ended = true;
        end_receive(*transfer);
    }
}

} // namespace adaptib
