// SPDX-License-Identifier: BSD-3-Clause
// The sender writes into the receiver's buffer and says when all of it is there (put).
#include "protocol/rendezvous.h"

namespace adaptib {

void Rendezvous::start_write(SendTransfer& transfer) {
    TransferPlan& rma = transfer.rma;
    rma.opcode = Opcode::write;
    rma.local = transfer.local;
    rma.registration = transfer.memory;
    rma.length = transfer.wanted;
    rma.op_kind = transfer.request->op_kind;
    transfers_.start_transfer(transfer);
}

// A write's completion means that its data is in the receiver's memory, on every rail.
void Rendezvous::on_write_done(SendTransfer& transfer) {
    if (needs_processors(transfer)) [[unlikely]] {
        start_fragments(transfer);
        return;
    }
    Peer& receiver = transfer.peer;
    const bool written = !transfer.rma.failed;
    const WrittenBody body{transfer.receive_id, transfer.wanted};
    end_send(transfer, !written);
    if (written) {
        flow_.send_control(receiver, MessageType::written, &body, sizeof body);
    }
}

// Fewer bytes than wanted: the sender has given up.
void Rendezvous::on_written(Peer& peer, const WrittenBody& body) {
    ReceiveTransfer* transfer = receives_.find(body.receive_id);
    const bool whole = transfer != nullptr && body.bytes == transfer->wanted;
    if (transfer == nullptr || &transfer->peer != &peer ||
        (transfer->mode != ReceiveTransfer::Mode::written &&
         (whole || (transfer->mode != ReceiveTransfer::Mode::packed &&
                    transfer->mode != ReceiveTransfer::Mode::pushed)))) {
        ++counters_.bad_packets;
        return;
    }
    transfer->failed = transfer->failed || !whole;
    transfer->sender_ended = true;
    if (transfer->active.empty()) {
        end_receive(*transfer);
    }
}

} // namespace adaptib
