// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations through staging memory (protocol/copied_operations.h).
#include "protocol/copied_operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/transfer_engine.h"

namespace adaptib {

CopiedOperations::~CopiedOperations() {
    operations_.for_each([](CopiedOneSided* operation) { delete operation; });
}

Status CopiedOperations::start(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                               Opcode opcode, UserRequest& user, bool& complete_now) {
    auto started = std::make_unique<CopiedOneSided>(*this, transfers_, peer);
    if (const Status status = staging(peer).take(started->block); !status.ok()) {
        if (staging(peer).any_taken()) { // by operations, or by long messages
            return Status::error(Reason::no_memory);
        }
        message_(Severity::failure,
                 std::string("A one-sided operation is refused: its buffer cannot be "
                             "registered, and neither can a block to copy it through (") +
                     reason_text(status.reason()) + "). Raise the limit of locked memory.");
        return Status::error(Reason::not_supported);
    }
    CopiedOneSided& copied = *started.release();
    copied.user = &user;
    copied.id = operations_.add(&copied);
    copied.epoch = flush_epochs_.enter();
    copied.local = static_cast<std::byte*>(operation.local);
    copied.remote = operation.remote_address;
    copied.length = operation.bytes;
    ++peer.transfers.one_sided;
    ++peer.transfers.users;
    ++peer.transfers.rma_operations;
    TransferPlan& rma = copied.rma;
    rma.describe(operation, opcode);
    rma.keys.found = peer.session.is_open();
    rma.local = copied.block->data();
    rma.registration = &copied.block->registration;
    completions_.begin(user);
    start_block(copied);
    complete_now = completions_.end();
    return kOk;
}

void CopiedOperations::start_block(CopiedOneSided& operation) {
    TransferPlan& rma = operation.rma;
    rma.remote = operation.remote + operation.moved;
    rma.length = std::min(block_bytes_, operation.length - operation.moved);
    rma.begin_again();
    if (rma.opcode == Opcode::write) {
        std::memcpy(rma.local, operation.local + operation.moved, rma.length);
    }
    transfers_.start_operation(operation);
}

void CopiedOperations::on_rma_done(Transfer& transfer) {
    auto& operation = static_cast<CopiedOneSided&>(transfer);
    TransferPlan& rma = operation.rma;
    if (!rma.failed) {
        if (rma.opcode != Opcode::write) {
            std::memcpy(operation.local + operation.moved, rma.local, rma.length);
        }
        operation.moved += rma.length;
        if (operation.moved < operation.length) {
            start_block(operation);
            return;
        }
    }
    UserRequest& user = *operation.user;
    const int status = rma.status();
    const Bytes bytes = operation.length;
    --operation.peer.transfers.one_sided;
    --operation.peer.transfers.users;
    --operation.peer.transfers.rma_operations;
    operations_.remove(operation.id);
    flush_epochs_.leave(operation.epoch);
    staging(operation.peer).give(std::move(operation.block));
    delete &operation;
    completions_.complete(user, status, status == OPAL_COMMON_ADAPTIB_SUCCESS ? bytes : 0);
}

} // namespace adaptib
