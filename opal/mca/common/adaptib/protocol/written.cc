// SPDX-License-Identifier: BSD-3-Clause
// The sender writes into the receiver's buffer and says when all of it is there (put).
#include "protocol/protocol.h"

namespace adaptib {

void Protocol::start_write(SendTransfer& transfer) {
    Move& move = transfer.move;
    move.opcode = Opcode::write;
    move.local = static_cast<std::byte*>(transfer.request->data.base);
    move.registration = &transfer.registration;
    move.length = transfer.wanted;
    start_move(transfer);
}

// A write's completion means that its data is in the receiver's memory, on every rail.
void SendTransfer::on_move_done() {
    if (!move.failed) {
        const WrittenBody body{receive_id, wanted};
        protocol.send_control(peer, MessageType::written, &body, sizeof body);
    }
    protocol.end_send(*this, move.failed);
}

void Protocol::on_written(Peer& peer, const WrittenBody& body) {
    ReceiveTransfer* transfer = receives_.find(body.receive_id);
    if (transfer == nullptr || &transfer->peer != &peer ||
        transfer->mode != ReceiveTransfer::Mode::written || body.bytes != transfer->wanted) {
        ++counters_.bad_packets;
        return;
    }
    end_receive(*transfer);
}

} // namespace adaptib
