// SPDX-License-Identifier: BSD-3-Clause
// QueuePairOwners: the peers whose connections use a queue pair, by the queue pair's number.
//
// Purpose: completions and events name a failed queue pair by its rail and number. A look-up finds
// the peers concerned, one or all that share the queue pair, and costs the same however many other
// peers there are. An entry takes some 60 bytes, little beside its queue pair.
// A subchannel may change its queue pair without notice; a look-up drops entries that this has made
// stale.
// Ownership: peers outlive their entries.
// Threads: one at a time.
// May touch: peer/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "peer/peer.h"

namespace adaptib {

class QueuePairOwners {
public:
    // REQUIRES: the subchannel is the peer's, and has a queue pair.
    void add(Peer& peer, const Subchannel& subchannel);
    // Does nothing if the subchannel's queue pair was not added.
    void remove(const Peer& peer, const Subchannel& subchannel);
    // Returns the peers with a subchannel that has the queue pair.
    std::vector<Peer*> find(std::uint32_t rail, std::uint32_t qp_number);

    std::size_t size() const { return owners_.size(); }

private:
    struct Owner {
        Peer* peer;
        std::uint32_t subchannel; // index
    };

    // Queue pairs of different rails may have the same number.
    static std::uint64_t key_of(std::uint32_t rail, std::uint32_t qp_number) {
        return std::uint64_t{rail} << 32 | qp_number;
    }

    std::unordered_multimap<std::uint64_t, Owner> owners_;
};

} // namespace adaptib
