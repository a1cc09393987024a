// SPDX-License-Identifier: BSD-3-Clause
// Target's side of a write, read or atomic that the initiator sent by a message: a request of the
// copy pipeline, or one that the core passes on (QueuePair::serve_rma).
//
// Purpose: checks again everything that the initiator has checked, and touches this process's
// memory in its place.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, atomic_lock.h, bounce.h, regions.h, segment.h; in fabric/:
// capability.h, qp_attributes.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/qp_attributes.h"
#include "fabric/shm/atomic_lock.h"
#include "fabric/shm/bounce.h"
#include "fabric/shm/regions.h"

namespace adaptib::shm {

class RmaTarget {
public:
    RmaTarget(const RegionTable& regions, OwnSegment& segment, std::uint32_t rail)
        : regions_(regions), segment_(segment), rail_(rail) {}

    // Finds a region of this process that grants the peer the access, as `qp`, the attributes of
    // the queue pair, does; null: there is none.
    const RegionView* find(const QpAttributes& qp, std::uint32_t key, std::uint64_t address,
                           Bytes length, std::uint32_t access) const;
    // Executes the request; `data` is its data, or receives what was read. `old` becomes an
    // atomic's old value.
    BounceAnswer serve(const QpAttributes& qp, const BounceRequest& request, std::byte* data,
                       std::uint64_t& old) const;

private:
    BounceAnswer serve_checked(const BounceRequest& request, std::byte* data) const;
    BounceAnswer serve_atomic(const BounceRequest& request, bool shared, std::uint64_t& old) const;
    bool atomic_checked(const BounceRequest& request, std::uint64_t& old) const;
    std::uint32_t own_pid() const { return segment_.header()->pid; }

    const RegionTable& regions_;
    OwnSegment& segment_;
    std::uint32_t rail_;
};

} // namespace adaptib::shm
