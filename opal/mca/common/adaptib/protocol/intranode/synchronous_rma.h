// SPDX-License-Identifier: BSD-3-Clause
// SynchronousRma: puts, gets, atomics, and reads of a message's data that end within the
// initiator's call.
//
// Purpose: where the processor copies the data (QueuePair::rma_now), an operation over the only
// path to the peer needs no request, plan and completion. There are four ways, of which the fastest
// is learnt for each peer:
//   * direct: the initiator does the operation, by a system call;
//   * target-assisted, up to kMaxAssisted bytes: a message asks the target;
//   * cooperative copy, from kMinCooperative bytes on: each end copies a part;
//   * staged copy of as long data: both ends copy through staging memory.
// If the target takes no part, the initiator does the rest directly. RmaTarget is the other end.
// Ownership: refers to the clock, the memory, the counters and the target of this process.
// Threads: one at a time (the core's lock). The initiator spins while the target does a part that
// it has taken, as long as the target lives. So where other threads take the lock, too, all is done
// directly: none of them waits for another process.
// May touch: base/, fabric/, memory/, channel/, peer/, schedule/, stats/, protocol/intranode/,
// count_rma.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/wire.h"
#include "channel/ring_memory.h"
#include "fabric/work.h"
#include "memory/exposed_memory.h"
#include "peer/peer.h"
#include "protocol/count_rma.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/staged_copy.h"
#include "stats/counters.h"

namespace adaptib {

class SynchronousRma {
public:
    // `block_bytes`: of the staging blocks. `target`: serves the peers' operations.
    SynchronousRma(const Clock& clock, Bytes block_bytes, ExposedMemory& memory, Counters& counters,
                   RmaTarget& target)
        : clock_(clock), block_bytes_(block_bytes), memory_(memory), counters_(counters),
          target_(target) {}

    // All return false if the operation is not done; a put, get or read may be done in part.
    // The work lacks the keys: `region` holds the local ones. `work()` returns it.
    template <typename Work>
    [[gnu::always_inline]] bool put_or_get(Peer& peer, Bytes length, const Work& work,
                                           const Registration& region,
                                           std::span<const std::uint32_t> remote_keys) {
        if (may_be_assisted(peer, length) &&
            !peer.transfers.assist_choices->of_transfer(length).goes_on()) [[unlikely]] {
            return start_by_choice(peer, work(), region, remote_keys);
        }
        if (length >= kMinCooperative) [[unlikely]] {
            return transfer_long(peer, work(), region, remote_keys, 0);
        }
        return rma_now(peer, work(), region, remote_keys);
    }
    bool execute_atomic(Peer& peer, const RmaWork& work, const Registration& region,
                        std::span<const std::uint32_t> remote_keys) {
        return may_be_assisted(peer, work.length) ? start_by_choice(peer, work, region, remote_keys)
                                                  : rma_now(peer, work, region, remote_keys);
    }
    // `send_id`: the peer's send whose data is read.
    bool read_message(Peer& peer, const RmaWork& work, const Registration& region,
                      std::span<const std::uint32_t> remote_keys, std::uint64_t send_id) {
        return work.length >= kMinCooperative
                   ? transfer_long(peer, work, region, remote_keys, send_id)
                   : rma_now(peer, work, region, remote_keys);
    }

private:
    static bool may_be_assisted(const Peer& peer, Bytes length) {
        return peer.transfers.assist_choices != nullptr && length <= kMaxAssisted && length > 0;
    }
    // Executes the operation within the call, over the only path to the peer, if the fabric can.
    [[gnu::always_inline]] bool rma_now(Peer& peer, const RmaWork& what, const Registration& region,
                                        std::span<const std::uint32_t> remote_keys) {
        const Subchannel* const only = peer.only_subchannel();
        if (only == nullptr || only->remote_rail >= remote_keys.size()) [[unlikely]] {
            return false;
        }
        const RmaWork work{.opcode = what.opcode,
                           .local_key = region.local_key(only->local_rail),
                           .local = what.local,
                           .length = what.length,
                           .remote_address = what.remote_address,
                           .remote_key = remote_keys[only->remote_rail],
                           .compare_add = what.compare_add,
                           .swap = what.swap};
        if (!only->qp->rma_now(work).ok()) [[unlikely]] {
            return false;
        }
        count_rma(counters_, peer, what.opcode, what.length, only->local_rail);
        return true;
    }
    static bool worth_waiting(const Peer& peer, std::uint32_t looks);

    // Target-assisted operations.
    bool start_by_choice(Peer& peer, const RmaWork& work, const Registration& region,
                         std::span<const std::uint32_t> remote_keys);
    bool request_assist(Peer& peer, const RmaWork& work, std::span<const std::uint32_t> remote_keys,
                        Nanoseconds patience);
    bool answered(const Peer& peer, AnswerSlot& slot, std::uint64_t number,
                  Nanoseconds patience) const;

    // Cooperative copies. `send_id`: the peer's send whose data is read; 0: the operation is a put
    // or get.
    bool transfer_long(Peer& peer, const RmaWork& work, const Registration& region,
                       std::span<const std::uint32_t> remote_keys, std::uint64_t send_id);
    static CooperativeCopyChoices::Pattern pattern_of(Peer& peer, const RmaWork& work,
                                                      std::uint64_t send_id);
    bool transfer_piece(Peer& peer, const RmaWork& work, const Registration& region,
                        std::span<const std::uint32_t> remote_keys, std::uint64_t send_id);
    bool transfer_alone(Peer& peer, const RmaWork& work, const Registration& region,
                        std::span<const std::uint32_t> remote_keys);
    bool transfer_cooperatively(Peer& peer, const RmaWork& work, const Registration& region,
                                std::span<const std::uint32_t> remote_keys);
    bool rma_now_part(Peer& peer, RmaWork work, Bytes offset, Bytes length,
                      const Registration& region, std::span<const std::uint32_t> remote_keys);
    AnswerSlot* offer_cooperative_copy(Peer& peer, const RmaWork& work,
                                       std::span<const std::uint32_t> remote_keys,
                                       CooperativeCopyBody& body);
    SharedWork close_cooperative_copy(const Peer& peer, AnswerSlot& slot) const;

    // Staged copies.
    bool transfer_staged(Peer& peer, const RmaWork& work, const Registration& region,
                         std::span<const std::uint32_t> remote_keys, std::uint64_t send_id);
    Bytes pump_staged(const Peer& peer, StagedCopy& copy);

    const Clock& clock_;
    const Bytes block_bytes_;
    ExposedMemory& memory_;
    Counters& counters_;
    RmaTarget& target_;
};

} // namespace adaptib
