// SPDX-License-Identifier: BSD-3-Clause
// The target of a transfer is asked for the keys of its memory (RegionKeys says when), and answers.
#include <vector>

#include "protocol/transfer_engine.h"

namespace adaptib {

namespace {

std::uint32_t access_for(Opcode opcode) {
    switch (opcode) {
    case Opcode::write: return kRemoteWrite;
    case Opcode::read: return kRemoteRead;
    default: return kRemoteAtomic;
    }
}

} // namespace

void TransferEngine::ask_for_keys(Transfer& transfer) {
    const RegionQueryBody body{asking_.add(&transfer), transfer.rma.remote, transfer.rma.length,
                               access_for(transfer.rma.opcode), 0};
    flow_.send_one_sided(transfer.peer, MessageType::region_query, &body, sizeof body);
}

void TransferEngine::on_region_keys(Peer& peer, const RegionKeysBody& body) {
    Transfer* const transfer = asking_.find(body.id);
    if (transfer == nullptr || &transfer->peer != &peer) {
        ++counters_.bad_packets;
        return;
    }
    asking_.remove(body.id);
    TransferPlan& rma = transfer->rma;
    if (body.key_count == 0) {
        rma.failed = true;
        if (rma.one_sided) {
            region_keys_.refuse(peer, rma);
        }
        transfer->owner.on_rma_done(*transfer);
        return;
    }
    for (std::uint32_t i = 0; i < body.key_count; ++i) {
        counters_.keys_replaced += rma.remote_keys[i] != body.keys[i] ? 1 : 0;
        rma.remote_keys[i] = body.keys[i];
    }
    rma.remote_key_count = body.key_count;
    rma.keys.epoch = body.key_epoch;
    if (rma.one_sided) {
        start_operation(*transfer);
    } else {
        start_transfer(*transfer);
    }
}

void TransferEngine::fail_asking(const Peer& peer) {
    std::vector<Transfer*> lost;
    asking_.remove_if([&](Transfer* transfer) {
        const bool its = &transfer->peer == &peer;
        if (its) {
            lost.push_back(transfer);
        }
        return its;
    });
    for (Transfer* transfer : lost) {
        transfer->rma.failed = true;
        transfer->owner.on_rma_done(*transfer);
    }
}

} // namespace adaptib
