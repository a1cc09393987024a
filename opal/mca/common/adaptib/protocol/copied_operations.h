// SPDX-License-Identifier: BSD-3-Clause
// CopiedOperations: puts, gets and atomics whose local memory cannot be registered, for example
// since locked memory is limited (memory/exposed_memory.h).
//
// Purpose: the data goes block by block through staging memory. Each operation holds one block
// until it ends. Rendezvous does the same by its way for data that is not contiguous.
// Ownership: owns the operations under way; refers to all else.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/, common_adaptib.h, completions.h, flush_epochs.h,
// transfer_engine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/id_table.h"
#include "base/severity.h"
#include "base/status.h"
#include "base/units.h"
#include "common_adaptib.h"
#include "common_adaptib_one_sided.h"
#include "memory/exposed_memory.h"
#include "memory/staging.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/flush_epochs.h"
#include "protocol/request.h"
#include "protocol/transfer.h"

namespace adaptib {

class TransferEngine;

struct CopiedOneSided final : Transfer {
    CopiedOneSided(TransferOwner& of, TransferEngine& by, Peer& to) : Transfer(of, by, to) {}

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0; // FlushEpochs
    std::unique_ptr<StagingBlock> block;
    std::byte* local = nullptr;
    std::uint64_t remote = 0;
    Bytes length = 0; // of the whole operation
    Bytes moved = 0;  // in completed blocks
};

class CopiedOperations final : public TransferOwner {
public:
    // `block_bytes`: of the staging blocks.
    CopiedOperations(Bytes block_bytes, ExposedMemory& memory, TransferEngine& transfers,
                     FlushEpochs& flush_epochs, Completions& completions, MessageFunction message)
        : block_bytes_(block_bytes), memory_(memory), transfers_(transfers),
          flush_epochs_(flush_epochs), completions_(completions), message_(std::move(message)) {}
    // Destroys the operations that will not end any more.
    ~CopiedOperations();
    CopiedOperations(const CopiedOperations&) = delete;
    CopiedOperations& operator=(const CopiedOperations&) = delete;

    // Sets `complete` to true if the request ended within the call. REQUIRES: the operation has
    // been checked, the peer has not failed. Errors: no_memory while others hold all staging
    // blocks; not_supported if there is no block to wait for.
    Status start(Peer& peer, const opal_common_adaptib_one_sided_t& operation, Opcode opcode,
                 UserRequest& user, bool& complete);
    // The block of an operation is through.
    void on_rma_done(Transfer& transfer) override;
    std::size_t under_way() const { return operations_.size(); }

private:
    StagingPool& staging(const Peer& peer) { return memory_.staging(peer.contact.route.fabric); }
    void start_block(CopiedOneSided& operation);

    const Bytes block_bytes_;
    ExposedMemory& memory_;
    TransferEngine& transfers_;
    FlushEpochs& flush_epochs_;
    Completions& completions_;
    MessageFunction message_;
    IdTable<CopiedOneSided> operations_;
};

} // namespace adaptib
