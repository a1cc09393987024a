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
// A transfer that waits and of which nothing is posted is shelved: its record moves into its
// request, so the core needs no memory for them, however many wait (shelved.cc).
// The target's part of operations of peers of this host is RmaTarget's.
// Ownership: owns the operations under way, in the pool; refers to all else.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, memory/, channel/, peer/, schedule/, stats/, common_adaptib.h, and of
// protocol/ completions.h, copied_operations.h, emulated_atomics.h, flush.h, intranode/,
// one_sided.h, region_keys.h, transfer_engine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/biased_lock.h"
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
#include "protocol/flush.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/lost_peers.h"
#include "protocol/one_sided.h"
#include "protocol/region_keys.h"
#include "protocol/request.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"

namespace adaptib {

// Notices and questions of one-sided operations to the protocol.
class OneSidedListener : public RmaTargetListener,
                         public EmulatedAtomicsListener,
                         public CopiedOperationsListener {
protected:
    ~OneSidedListener() = default;
};

class OneSidedOperations final : public OperationListener {
public:
    struct Options {
        std::uint64_t self = 0;      // name of this process
        bool serves_atomics = false; // executes atomics on its windows for the peers
        Bytes block_bytes = 0;       // of the staging blocks
        const Clock* clock = nullptr;
        const BiasedLock* lock = nullptr; // of the core; null: one thread calls
    };
    // Parts of the protocol that operations share with messages.
    struct Parts {
        RailList rails;
        ExposedMemory& memory;
        BlockPool& pool;
        TransferEngine& transfers;
        Completions& completions;
        Counters& counters;
    };

    OneSidedOperations(const Options& options, const Parts& parts, LostPeers& lost,
                       const MessageFunction& message, OneSidedListener& listener);
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
    // no_memory also if the target has to be asked for keys and a disconnect is under way.
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
    SynchronousRma& synchronous() { return synchronous_; }
    RmaTarget& target() { return target_; }
    EmulatedAtomics& atomics() { return atomics_; }
    const EmulatedAtomics& atomics() const { return atomics_; }
    // Destroys the peer's shelved records at the end, so that no registration is left in use.
    void forget(Peer& peer);
    // The target: answers which keys the memory has, which is a window, or else has that
    // registration (null: none).
    void on_region_query(Peer& peer, const RegionQueryBody& body, const Registration* memory);
    // The initiator: the transfer that asked goes on, or ends as refused.
    void on_region_keys(Peer& peer, const RegionKeysBody& body);
    // Ends the transfers that wait for an answer of a peer that is lost.
    void fail_asking(const Peer& peer);
    std::size_t asking() const { return asking_.size(); }
    // Calls f for the peer of each transfer that waits for an answer.
    void for_each_asked(const std::function<void(const Peer&)>& f) const;

    // --- Calls of an operation under way ---------------------------------------------------------
    void on_done(OneSidedOperation& operation);
    // Shelves an operation of which nothing is posted and which, if planned, goes over one
    // subchannel. Returns the record that waits: the shelved one, or else the operation itself.
    WaitingTransfer& shelve(OneSidedOperation& operation);

private:
    bool find_keys(Transfer& transfer) override {
        return region_keys_.find(transfer.peer, transfer.rma);
    }
    void refuse(Transfer& transfer) override { region_keys_.refuse(transfer.peer, transfer.rma); }
    void ask_for_keys(Transfer& transfer) override;
    Transfer* unshelve(Peer& peer, WaitingTransfer& record) override;
    void fail_shelved(Peer& peer, WaitingTransfer& record) override;
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
    OneSidedListener& listener_;
    RmaTarget target_;
    SynchronousRma synchronous_;
    RegionKeys region_keys_;
    FlushEpochs flush_epochs_;
    EmulatedAtomics atomics_;
    CopiedOperations copied_;
    IdTable<OneSidedOperation> operations_;
    IdTable<Transfer> asking_; // wait for an answer: RegionKeysBody
};

} // namespace adaptib
