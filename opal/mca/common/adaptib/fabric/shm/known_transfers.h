// SPDX-License-Identifier: BSD-3-Clause
// Facts that the last write, and the last read, of private memory found.
//
// Purpose: a transfer that names the same two regions again (rma_now) only checks that the facts
// still hold: its addresses, the regions' tags, the word of the target's entry.
// May touch: base/, regions.h; in fabric/: work.h.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/shm/regions.h"
#include "fabric/work.h"

namespace adaptib::shm {

struct alignas(kCacheLine) KnownTransfer {
    std::uint32_t local_key = 0;
    std::uint32_t remote_key = 0;
    std::uint64_t word = 0; // word of the target's entry, including the access right
    RegionRange local;      // length 0: nothing is known
    RegionRange remote;
};
static_assert(sizeof(KnownTransfer) == kCacheLine);

class KnownTransfers {
public:
    KnownTransfer& of(Opcode opcode) { return known_[opcode == Opcode::read ? 1 : 0]; }
    void forget() { known_ = {}; }

private:
    std::array<KnownTransfer, 2> known_;
};

} // namespace adaptib::shm
