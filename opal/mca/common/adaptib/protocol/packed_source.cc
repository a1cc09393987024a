// SPDX-License-Identifier: BSD-3-Clause
// The sender packs non-contiguous data block by block; the receiver reads and releases each block.
#include <algorithm>

#include "protocol/rendezvous.h"

namespace adaptib {

// Fills and announces every free block, while there is data left. Without memory for any block, the
// message goes in fragments.
void Rendezvous::pack_blocks(SendTransfer& transfer) {
    const auto blocks = static_cast<std::uint32_t>(transfer.blocks.size());
    for (std::uint32_t i = 0; i < blocks && transfer.announced < transfer.wanted; ++i) {
        if (transfer.blocks[i].length == 0 && !pack_block(transfer, i)) {
            break;
        }
    }
    const bool any_busy = std::any_of(transfer.blocks.begin(), transfer.blocks.end(),
                                      [](const auto& block) { return block.length > 0; });
    if (!any_busy && transfer.blocks[0].memory == nullptr) {
        start_fragments(transfer);
    } else if (!any_busy) {
        options_.message(Severity::failure,
                         "A message could not be sent, since its data type cannot be packed.");
        Peer& peer = transfer.peer;
        const WrittenBody given_up{transfer.receive_id, 0};
        end_send(transfer, true);
        flow_.send_control(peer, MessageType::written, &given_up, sizeof given_up);
    }
}

// Returns false if nothing could be packed. May pack more than is wanted, since a packer stops at
// the end of an element; the excess is not announced.
bool Rendezvous::pack_block(SendTransfer& transfer, std::uint32_t index) {
    SendTransfer::Block& block = transfer.blocks[index];
    if (block.memory == nullptr && !staging(transfer.peer).take(block.memory).ok()) {
        return false;
    }
    const Data& data = transfer.request->data;
    const Bytes packed =
        gather_some(data, transfer.packed, block.memory->data(),
                    std::min<Bytes>(transfer.block_bytes, data.bytes - transfer.packed));
    if (packed == 0) {
        return false;
    }
    ++counters_.blocks_packed;
    block.length = std::min(packed, transfer.wanted - transfer.announced);
    BlockBody body{};
    body.receive_id = transfer.receive_id;
    body.offset = transfer.announced;
    body.address = reinterpret_cast<std::uintptr_t>(block.memory->data());
    body.length = static_cast<std::uint32_t>(block.length);
    body.block = index;
    body.key_count = block.memory->registration.key_count();
    body.key_epoch = transfers_.key_epoch();
    block.memory->registration.copy_remote_keys(body.keys);
    transfer.packed += packed;
    transfer.announced += block.length;
    flow_.send_control(transfer.peer, MessageType::block, &body, sizeof body);
    return true;
}

void Rendezvous::on_block(Peer& peer, const BlockBody& body) {
    ReceiveTransfer* transfer = receives_.find(body.receive_id);
    if (transfer == nullptr || &transfer->peer != &peer ||
        transfer->mode != ReceiveTransfer::Mode::packed || body.offset != transfer->started ||
        body.length > transfer->wanted - transfer->started ||
        (transfer->memory == nullptr &&
         (body.length > options_.block_bytes || transfer->spare.empty()))) {
        ++counters_.bad_packets;
        return;
    }
    transfer->started += body.length;
    start_block_read(*transfer, body.offset, body.length, body.address, body.keys, body.key_count,
                     body.key_epoch, body.block);
}

void Rendezvous::on_block_done(Peer& peer, const BlockDoneBody& body) {
    SendTransfer* transfer = sends_.find(body.send_id);
    if (transfer == nullptr || &transfer->peer != &peer || body.block >= transfer->blocks.size() ||
        transfer->blocks[body.block].length == 0) {
        ++counters_.bad_packets;
        return;
    }
    transfer->delivered += transfer->blocks[body.block].length;
    transfer->blocks[body.block].length = 0;
    if (transfer->delivered == transfer->wanted) {
        end_send(*transfer, false);
    } else {
        pack_blocks(*transfer);
    }
}

} // namespace adaptib
