// SPDX-License-Identifier: BSD-3-Clause
// OneSidedOperations: put, get and 64-bit atomics.
//
// Purpose: finds the way of each operation, and sees it through:
//
//     within the call        the fabric executes it (intranode/synchronous_rma.h)
//     by RDMA                a transfer, without order or sequence numbers (Vishnu, 5.2), from or
//                            to the user's memory, or a bounce buffer if it is small
//     through staging        a transfer whose local memory cannot be registered
//                            (copied_operations.h)
//     by the target          an atomic that the target's processor executes (emulated_atomics.h)
//
// The target's part of operations of peers of this host is RmaTarget's.
// Bound: kMostUnderWay operations at a time on windows; the caller tries again when some have
// ended. Those of messages (pml/ob1's) pass: they are no more than its messages, and it tries again
// only when one of its own ends.
// Ownership: owns the operations under way, in the pool; refers to all else.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, memory/, channel/, peer/, schedule/, stats/, common_adaptib.h, and of
// protocol/ completions.h, copied_operations.h, emulated_atomics.h, flush_epochs.h, intranode/,
// one_sided_operation.h, region_keys.h, send_flow.h, transfer_engine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/id_table.h"
#include "base/severity.h"
#include "base/status.h"
#include "base/units.h"
#include "common_adaptib.h"
#include "common_adaptib_one_sided.h"
#include "fabric/rail.h"
#include "fabric/work.h"
#include "memory/block_pool.h"
#include "memory/exposed_memory.h"
#include "peer/peer.h"
#include "protocol/completions.h"
#include "protocol/copied_operations.h"
#include "protocol/emulated_atomics.h"
#include "protocol/flush_epochs.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/lost_peers.h"
#include "protocol/one_sided_operation.h"
#include "protocol/region_keys.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"

namespace adaptib {

class OneSidedOperations final : public TransferOwner {
public:
    static constexpr std::size_t kMostUnderWay = 16384;

    struct Options {
        std::uint64_t self = 0;      // name of this process
        bool serves_atomics = false; // executes atomics on its windows for the peers
        Bytes block_bytes = 0;       // of the staging blocks
    };
    // Parts of the protocol that operations share with messages. Transfers and flow need not be
    // constructed yet.
    struct Parts {
        ExposedMemory& memory;
        BlockPool& pool;
        TransferEngine& transfers;
        SynchronousRma& synchronous;
        SendFlow& flow;
        Completions& completions;
    };

    OneSidedOperations(const Options& options, const Parts& parts, LostPeers& lost,
                       Counters& counters, const MessageFunction& message);
    // Destroys the operations that will not end any more.
    ~OneSidedOperations();
    OneSidedOperations(const OneSidedOperations&) = delete;
    OneSidedOperations& operator=(const OneSidedOperations&) = delete;

    // --- Calls of the user -----------------------------------------------------------------------
    // Returns the access to publish for memory registered with `access`: adds whether initiators
    // have to ask this process for atomics.
    std::uint32_t advertised_access(std::uint32_t access) const {
        const bool emulated =
            (access & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0 && options_.serves_atomics;
        return access | (emulated ? +OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED : 0u);
    }
    // If `region` is null, `local` is registered for the operation, or copied through staging
    // memory if it cannot be registered. Sets `complete` to true if the request ended within the
    // call. The request ends with BAD_PARAM if the target refuses the operation later. Returns
    // no_memory also for a window while kMostUnderWay operations are under way, or if the target
    // has to be asked for keys and a disconnect is under way.
    // Errors: bad_argument, bad_key, no_memory (try again later), not_supported (no memory to copy
    // through), unreachable.
    Status start(Peer& peer, const opal_common_adaptib_one_sided_t& asked,
                 const Registration* region, UserRequest& user, bool& complete);
    // Fast path: the fabric executes the operation within the call, over the only path to the peer.
    // Returns false if the operation is not done; the caller then calls start(), which also reports
    // errors.
    bool try_rma(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                 const Registration* region);
    // Returns true for a put or get.
    static bool is_plain(const opal_common_adaptib_one_sided_t& operation) {
        return operation.operation == OPAL_COMMON_ADAPTIB_PUT ||
               operation.operation == OPAL_COMMON_ADAPTIB_GET;
    }
    // Same as try_rma() for a put or get (is_plain()), inlined into its caller: half the cost of
    // such a short operation is the code before its one system call. The caller first looks at
    // PeerTransfers::synchronous, without which the call is in vain.
    [[gnu::always_inline]] bool try_plain_rma(Peer& peer,
                                              const opal_common_adaptib_one_sided_t& operation,
                                              const Registration* region) {
        const bool put = operation.operation == OPAL_COMMON_ADAPTIB_PUT;
        const Registration* const memory = region != nullptr ? region : peer.transfers.whole_memory;
        if (memory == nullptr ||
            !RegionKeys::allows(operation, put ? OPAL_COMMON_ADAPTIB_REMOTE_WRITE
                                               : OPAL_COMMON_ADAPTIB_REMOTE_READ)) [[unlikely]] {
            return false;
        }
        const auto work = [&] {
            return RmaWork{.opcode = put ? Opcode::write : Opcode::read,
                           .local_key = 0,
                           .local = operation.local,
                           .length = operation.bytes,
                           .remote_address = operation.remote_address,
                           .remote_key = 0,
                           .compare_add = 0,
                           .swap = 0};
        };
        const std::span<const std::uint32_t> keys{operation.remote->keys,
                                                  operation.remote->key_count};
        return synchronous_.put_or_get(peer, operation.bytes, work, *memory, keys);
    }
    // Counts the operations under way.
    FlushEpochs& flush_epochs() { return flush_epochs_; }
    std::size_t under_way() const { return flush_epochs_.under_way(); }

    // --- Calls of the protocol -------------------------------------------------------------------
    EmulatedAtomics& atomics() { return atomics_; }
    const EmulatedAtomics& atomics() const { return atomics_; }
    // The target: answers which keys the memory has, which is a window, or else has that
    // registration (null: none).
    void on_region_query(Peer& peer, const RegionQueryBody& body, const Registration* memory);
    void on_rma_done(Transfer& transfer) override;

private:
    const Registration* local_memory(OneSidedOperation& started,
                                     const opal_common_adaptib_one_sided_t& operation);
    const Registration* small_memory(OneSidedOperation& started,
                                     const opal_common_adaptib_one_sided_t& operation);
    void end_bounce(OneSidedOperation& operation);
    void ask(OneSidedOperation& operation);

    const Options options_;
    ExposedMemory& memory_;
    BlockPool& pool_;
    TransferEngine& transfers_;
    Counters& counters_;
    Completions& completions_;
    LostPeers& lost_;
    SynchronousRma& synchronous_;
    SendFlow& flow_;
    RegionKeys& region_keys_;
    FlushEpochs flush_epochs_;
    EmulatedAtomics atomics_;
    CopiedOperations copied_;
    IdTable<OneSidedOperation> operations_;
};

} // namespace adaptib
