// SPDX-License-Identifier: BSD-3-Clause
// Initiator's half of the copy pipeline: RC writes, reads and atomics on private memory without
// cross-memory attach.
//
// Purpose: cuts a request into pieces of a bounce slot and keeps a few in flight. The target's half
// (rma_target.h) executes a piece while its completion queues are polled.
// It also carries single requests whose memory cross-memory attach cannot reach (Attempt::unpinned)
// because the kernel cannot pin it: each end copies its own part through its own page tables.
// Unmapped memory fails the same way at first, so both ends let the system check each address
// (copy_checked, process.h).
// Invariant: all pieces belong to one request, and their offsets grow.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, attempt.h, bounce.h, connected_peer.h; in fabric/: completion_queue.h, work.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/completion_queue.h"
#include "fabric/shm/attempt.h"
#include "fabric/shm/bounce.h"
#include "fabric/shm/connected_peer.h"
#include "fabric/work.h"

namespace adaptib::shm {

class CopyPipeline {
public:
    CopyPipeline(BouncePool& pool, ConnectedPeer& peer, std::uint32_t own_pid)
        : pool_(pool), peer_(peer), own_pid_(own_pid) {
        pieces_.reserve(kBounceSlotsPerQp);
    }

    bool empty() const { return pieces_.empty(); }
    // Takes the answers that have arrived, in order. False: one of them was an error. A memory
    // fault that the request may have is noted in `a` instead.
    bool reap(const SendWork& work, Attempt& a, WorkStatus& status);
    // Sends pieces while there are slots, and room in the target's queue. False: local memory is
    // not mapped, unless the request may fault, as above. REQUIRES: the peer is reachable; no
    // fault.
    bool request(const SendWork& work, Bytes length, std::uint32_t own_number, Attempt& a);
    // Forgets the request. Its slots stay taken until the target has answered.
    void abandon();

private:
    struct Piece {
        std::uint32_t slot;
        Bytes offset;
        Bytes length;
    };
    enum class Asked : std::uint8_t { yes, later, local_fault };

    Asked request_piece(const SendWork& work, Bytes length, std::uint32_t own_number, Attempt& a);
    bool fill_slot(const SendWork& work, Bytes length, const Attempt& a, std::byte* slot) const;
    bool empty_slot(const SendWork& work, const Piece& piece, const Attempt& a) const;

    BouncePool& pool_;
    ConnectedPeer& peer_;
    std::uint32_t own_pid_;
    std::vector<Piece> pieces_;
};

} // namespace adaptib::shm
