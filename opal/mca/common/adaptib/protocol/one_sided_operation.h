// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations: the state of a put, get or atomic between its start and its end.
//
// Purpose: the records of operations that the fabric executes (OneSidedOperation), and of atomics
// that the target's processor executes (EmulatedAtomic).
// Ownership: OneSidedOperations and EmulatedAtomics own them; a record lives until its last
// outstanding work request has completed or was abandoned.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/wire.h"
#include "memory/bounce_buffers.h"
#include "memory/registration_cache.h"
#include "protocol/request.h"
#include "protocol/transfer.h"

namespace adaptib {

// A put, get or atomic.
struct OneSidedOperation final : Transfer {
    OneSidedOperation(TransferOwner& of, TransferEngine& by, Peer& to) : Transfer(of, by, to) {}

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0;          // FlushEpochs
    RegistrationCache::Use own;       // of the local memory, if the user has not registered it
    BounceBuffer bounce;              // has a copy of the data, or will have
    std::byte* user_memory = nullptr; // of a get through `bounce`
};

// A target-assisted atomic: the target was asked for it, or will be.
struct EmulatedAtomic {
    explicit EmulatedAtomic(Peer& to) : peer(to) {}

    Peer& peer;
    UserRequest* user = nullptr;
    void* local = nullptr;
    AtomicBody body{};
    std::uint64_t epoch = 0; // FlushEpochs
    bool queued = false;     // until the disconnect handshake is over
};

} // namespace adaptib
