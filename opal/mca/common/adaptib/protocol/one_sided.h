// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations: the state of a put, get or atomic between its start and its end.
//
// Purpose: the records of operations that the fabric executes (OneSidedOperation), of waiting ones,
// whose record lies in their request (ShelvedOneSided), and of atomics that the target's processor
// executes (EmulatedAtomic).
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

class OneSidedOperations;

// A put, get or atomic.
struct OneSidedOperation final : Transfer {
    OneSidedOperation(OneSidedOperations& of, TransferEngine& by, Peer& to)
        : Transfer(by, to), operations(of) {}
    void on_rma_done() override;
    WaitingTransfer& shelve() override;

    OneSidedOperations& operations;
    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0;          // FlushEpochs
    RegistrationCache::Use own;       // of the local memory, if the user has not registered it
    BounceBuffer bounce;              // has a copy of the data, or will have
    std::byte* user_memory = nullptr; // of a get through `bounce`
};

// A waiting put, get or atomic of which nothing is posted. Its record lies in the words of its
// request, so that it takes no memory of the core.
struct ShelvedOneSided : WaitingTransfer {
    explicit ShelvedOneSided(OneSidedOperation& operation);
    // Moves the record into `operation`; the caller then destroys this one. REQUIRES: `operation`
    // is new.
    void restore(OneSidedOperation& operation);
    UserRequest& user() { // its words hold this record
        return *reinterpret_cast<UserRequest*>(reinterpret_cast<std::byte*>(this) -
                                               offsetof(UserRequest, core));
    }

    std::byte* local;
    const Registration* registration;
    RegistrationCache::Use own;
    std::uint64_t remote;
    std::uint32_t remote_keys[kMaxRails];
    std::uint32_t remote_key_count;
    std::uint32_t connection;
    std::uint32_t subchannel = 0; // planned: the one that carries all of it
    bool planned;
    KeySearch keys;
    Opcode opcode;
    std::uint32_t access;
    Bytes length;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint64_t epoch;
};
static_assert(sizeof(ShelvedOneSided) <= sizeof(UserRequest::core));
static_assert(alignof(ShelvedOneSided) <= alignof(UserRequest));

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
