// SPDX-License-Identifier: BSD-3-Clause
// Fragments: the way of a message if there is no connection and no room for one, no memory to pack
// into or unpack from, or if the system cannot reach the buffer of one end. The receiver asks for
// fragments (kClearPush), or the sender finds that it has to send them. Fragments go among the
// sender's other messages, over the same channel.
#include <algorithm>

#include "protocol/rendezvous.h"

namespace adaptib {

namespace {

constexpr int kFragmentsInARow = 8; // then the peer's other pending sends have their turn

} // namespace

void Rendezvous::ask_for_fragments(ReceiveTransfer& transfer) {
    if (transfer.undecided_link.linked()) {
        undecided_.remove(transfer);
    }
    transfer.mode = ReceiveTransfer::Mode::pushed;
    ClearBody clear{};
    clear.send_id = transfer.source.send_id;
    clear.receive_id = transfer.id;
    clear.wanted = transfer.wanted;
    flow_.send_control(transfer.peer, MessageType::clear_to_send, &clear, sizeof clear, kClearPush);
}

void Rendezvous::start_fragments(SendTransfer& transfer) {
    transfer.pushing = true;
    transfer.packed = transfer.announced = 0;
    flow_.stall(transfer.peer, transfer.fragments);
}

// Packs the next bytes, for one fragment. Returns their number; 0: they cannot be packed. May pack
// more than is wanted, since a packer stops at the end of an element.
Bytes Rendezvous::fill_fragment(SendTransfer& transfer, Bytes room) {
    const Data& data = transfer.request->data;
    const Bytes most = std::min<Bytes>(room, data.bytes - transfer.packed);
    fragment_.resize(std::max<std::size_t>(fragment_.size(), most));
    return gather_some(data, transfer.packed, fragment_.data(), most);
}

bool Rendezvous::transmit(PendingSend& send) {
    SendTransfer& transfer = static_cast<SendTransfer::Fragments&>(send).transfer;
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
            flow_.send_control(peer, MessageType::written, &given_up, sizeof given_up);
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
            lost_.lose(peer, reason_text(status.reason())); // the transfer ends with it
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
    peer.out.pending.add(transfer.fragments); // behind the others
    return true;
}

// A receiver that cannot unpack still takes the rest, so that both sides end.
void Rendezvous::on_fragment(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const auto fragment = read_body<FragmentBody>(body);
    const Bytes bytes = header.length - sizeof fragment;
    ReceiveTransfer* transfer = receives_.find(fragment.receive_id);
    const auto expects = [](const ReceiveTransfer& each) {
        return each.mode == ReceiveTransfer::Mode::pushed ||
               each.mode == ReceiveTransfer::Mode::written ||
               (each.mode == ReceiveTransfer::Mode::packed && each.started == 0);
    };
    if (transfer == nullptr || &transfer->peer != &peer || !expects(*transfer) ||
        fragment.offset != transfer->received || bytes == 0 ||
        bytes > transfer->wanted - transfer->received) {
        ++counters_.bad_packets;
        return;
    }
    // Was `packed` if the sender lacks block memory, `written` if it cannot write.
    transfer->mode = ReceiveTransfer::Mode::pushed;
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
