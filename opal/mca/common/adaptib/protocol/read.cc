// SPDX-License-Identifier: BSD-3-Clause
// The receiver reads: straight into the user's buffer, or block by block to unpack.
#include <algorithm>

#include "protocol/rendezvous.h"

namespace adaptib {

void Rendezvous::start_read(ReceiveTransfer& transfer) {
    TransferPlan& rma = transfer.rma;
    rma.opcode = Opcode::read;
    rma.op_kind = transfer.source.op_kind;
    rma.local = transfer.local;
    rma.registration = transfer.memory;
    rma.remote = transfer.source.address;
    rma.remote_key_count = transfer.source.key_count;
    rma.keys.epoch = transfer.source.key_epoch;
    std::copy(std::begin(transfer.source.keys), std::end(transfer.source.keys), rma.remote_keys);
    rma.length = transfer.wanted;
    transfers_.start_transfer(transfer);
}

// True if the system could not reach the memory of one end: pages that a signal handler opens at
// the first access, say. Each end's processor then copies its own buffer, which its user has
// promised to be there; no address that a peer names is touched so.
bool Rendezvous::needs_processors(const Transfer& transfer) {
    return transfer.rma.failure == TransferFailure::fault && !transfer.peer.session.lost();
}

void Rendezvous::on_read(ReceiveTransfer& transfer) {
    if (!transfer.failed && needs_processors(transfer)) [[unlikely]] {
        ask_for_fragments(transfer);
        return;
    }
    transfer.failed = transfer.failed || transfer.rma.failed;
    end_receive(transfer);
}

// Takes memory for as many blocks as can be under way at a time. Returns false if there is none.
bool Rendezvous::take_blocks(ReceiveTransfer& transfer) {
    if (transfer.memory != nullptr) {
        return true; // the data needs no unpacking
    }
    StagingPool& pool = staging(transfer.peer);
    const bool known =
        transfer.source.kind == SourceKind::direct; // else the sender decides how long blocks are
    const std::size_t all = (transfer.wanted + options_.block_bytes - 1) / options_.block_bytes;
    transfer.spare.resize(known ? std::min(all, options_.block_depth) : options_.block_depth);
    for (std::unique_ptr<StagingBlock>& block : transfer.spare) {
        if (!pool.take(block).ok()) {
            give_blocks(transfer);
            return false;
        }
    }
    return true;
}

void Rendezvous::give_blocks(ReceiveTransfer& transfer) {
    for (std::unique_ptr<StagingBlock>& block : transfer.spare) {
        if (block != nullptr) {
            staging(transfer.peer).give(std::move(block));
        }
    }
    transfer.spare.clear();
}

// Keeps up to block_depth blocks under way.
void Rendezvous::start_block_reads(ReceiveTransfer& transfer) {
    const RendezvousBody source = transfer.source;
    const std::uint64_t id = transfer.id;
    // A block that cannot be read may end the transfer.
    while (receives_.find(id) != nullptr && !transfer.failed &&
           transfer.active.size() < options_.block_depth && transfer.started < transfer.wanted) {
        const Bytes length = std::min(options_.block_bytes, transfer.wanted - transfer.started);
        const Bytes offset = transfer.started;
        transfer.started += length;
        start_block_read(transfer, offset, length, source.address + offset, source.keys,
                         source.key_count, source.key_epoch, 0);
    }
}

// Reads [offset, offset + length) of the stream from `remote`. REQUIRES: fewer than block_depth
// blocks are under way.
void Rendezvous::start_block_read(ReceiveTransfer& transfer, Bytes offset, Bytes length,
                                  std::uint64_t remote, const std::uint32_t* keys,
                                  std::uint32_t key_count, std::uint8_t key_epoch,
                                  std::uint32_t remote_block) {
    transfer.active.push_back(
        std::make_unique<BlockRead>(*this, transfers_, transfer.peer, transfer));
    BlockRead* block = transfer.active.back().get();
    block->offset = offset;
    block->length = length;
    block->remote_block = remote_block;
    TransferPlan& rma = block->rma;
    rma.opcode = Opcode::read;
    rma.op_kind = transfer.source.op_kind;
    rma.remote = remote;
    rma.remote_key_count = key_count;
    rma.keys.epoch = key_epoch;
    std::copy_n(keys, kMaxRails, rma.remote_keys);
    rma.length = length;
    if (transfer.memory != nullptr) {
        rma.local = transfer.local + offset;
        rma.registration = transfer.memory;
    } else {
        block->memory = std::move(transfer.spare.back());
        transfer.spare.pop_back();
        rma.local = block->memory->data();
        rma.registration = &block->memory->registration;
    }
    transfers_.start_transfer(*block);
}

// Reads a block again that could not be read into the user's buffer, to be copied there. Returns
// false if there is no memory for it.
bool Rendezvous::read_aside(BlockRead& block) {
    std::vector<std::unique_ptr<StagingBlock>>& spare = block.transfer.spare;
    if (!spare.empty()) {
        block.memory = std::move(spare.back());
        spare.pop_back();
    } else if (!staging(block.peer).take(block.memory).ok()) {
        return false;
    }
    block.rma.begin_again();
    block.rma.failed = false;
    block.rma.failure = TransferFailure::path;
    block.rma.local = block.memory->data();
    block.rma.registration = &block.memory->registration;
    transfers_.start_transfer(block);
    return true;
}

void Rendezvous::on_block_read(BlockRead& block) {
    ReceiveTransfer& transfer = block.transfer;
    const bool own = block.memory == nullptr; // the user's buffer
    if (!transfer.failed && needs_processors(block)) [[unlikely]] {
        if (own && read_aside(block)) {
            return;
        }
        if (!own && transfer.mode == ReceiveTransfer::Mode::read_blocks) {
            transfer.rma.failure = TransferFailure::fault;
        }
    }
    const bool begins_again = transfer.rma.failure == TransferFailure::fault;
    transfer.failed = transfer.failed || (block.rma.failed && !begins_again);
    if (!transfer.failed && !block.rma.failed) {
        if (block.memory != nullptr) {
            ++counters_.blocks_packed;
            const Status status =
                scatter(transfer.request->data, block.offset, block.memory->data(), block.length);
            transfer.failed = !status.ok();
        }
        transfer.received += block.length;
        if (transfer.mode == ReceiveTransfer::Mode::packed) {
            const BlockDoneBody body{transfer.source.send_id, block.remote_block, 0};
            flow_.send_control(transfer.peer, MessageType::block_done, &body, sizeof body);
        }
    }
    if (block.memory != nullptr) {
        transfer.spare.push_back(std::move(block.memory));
    }
    std::erase_if(transfer.active, [&](const auto& each) { return each.get() == &block; });
    if (!transfer.failed && needs_processors(transfer)) [[unlikely]] {
        if (transfer.active.empty()) {
            transfer.received = 0;
            ask_for_fragments(transfer);
        }
    } else if (transfer.failed ? transfer.active.empty() : transfer.received == transfer.wanted) {
        end_receive(transfer);
    } else if (transfer.mode == ReceiveTransfer::Mode::read_blocks) {
        start_block_reads(transfer);
    }
}

} // namespace adaptib
