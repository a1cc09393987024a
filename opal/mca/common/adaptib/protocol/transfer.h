// SPDX-License-Identifier: BSD-3-Clause
// Transfer: one contiguous piece of memory that is read, written or operated on at a peer.
//
// Purpose: the plan of a transfer and its progress, and the base of the records that own one
// (message_transfer.h, one_sided_operation.h). Transfers of puts and gets are frequent: their
// record is pooled, and a plan of one stripe lies in it.
// Ownership: the protocol's; a transfer lives until its last outstanding work request has completed
// or was abandoned.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/intrusive_list.h"
#include "base/stripe.h"
#include "base/wire.h"
#include "base/work_target.h"
#include "common_adaptib_one_sided.h"
#include "memory/registration.h"
#include "peer/subchannel.h"
#include "peer/waiting.h"

namespace adaptib {

class Peer;
class Transfer;
class TransferEngine;

// Returns SendWork::compare_add of an operation. (A compare-and-swap stores the operand.)
inline std::uint64_t compare_add_of(const opal_common_adaptib_one_sided_t& operation) {
    const bool swap = operation.operation == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    return swap ? operation.compare : operation.operand;
}

// Converts OPAL_COMMON_ADAPTIB_REMOTE_* into Access bits.
inline std::uint32_t access_of(std::uint32_t advertised) {
    return ((advertised & OPAL_COMMON_ADAPTIB_REMOTE_READ) != 0 ? kRemoteRead : 0u) |
           ((advertised & OPAL_COMMON_ADAPTIB_REMOTE_WRITE) != 0 ? kRemoteWrite : 0u) |
           ((advertised & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0 ? kRemoteAtomic : 0u);
}

// Progress of one timed stripe.
struct StripeProgress {
    Nanoseconds posted{};
    TimedStripes before{};   // timed stripes on its path when it was posted
    Nanoseconds taken{};     // 0: unknown; negative: at most that long
    Bytes ahead = 0;         // as StripeTime's
    std::uint32_t round = 0; // of the plan: a long transfer is planned in rounds ...
    Mix mix = Mix::reads;    // ... for this mix; `both` if the other direction was busy at the end
    bool done = false;       // it has completed
};

// Why a transfer has failed.
enum class TransferFailure : std::uint8_t {
    path,
    refusal, // put, get, atomic: the target has no such memory, or denies access
    fault,   // the system cannot reach the memory of one end
};

// Key epoch of the keys of a transfer, and how far the search for those of a put, get or atomic is.
struct KeySearch {
    std::uint8_t epoch = 0;
    bool found = false; // they were looked up in the target's table of regions
    bool asked = true;  // the target was asked for them, or cannot be
};

// Transfer between one contiguous piece of local memory and one of the peer's, its stripes, and how
// far it is. The stripes are posted as far as the queue pairs take them, the others when progress
// is made.
struct TransferPlan {
    Opcode opcode = Opcode::read;
    OpKind op_kind = OpKind::blocking;
    std::byte* local = nullptr;
    const Registration* registration = nullptr;
    std::uint64_t remote = 0;
    std::uint32_t remote_keys[kMaxRails] = {};
    std::uint32_t remote_key_count = 0;
    Bytes length = 0;
    std::uint64_t compare_add = 0; // atomics: as in SendWork
    std::uint64_t swap = 0;
    StripePlan plan;                      // empty until the peer is connected
    std::vector<StripeProgress> progress; // of each stripe, if stripes are timed
    Bytes covered = 0;                    // bytes in the plan
    Bytes round = 0;                      // length of the next of the rounds that make up the plan
    std::uint32_t rounds = 0;             // rounds planned
    std::uint32_t connection = 0;  // PeerConnection::number of the connection that the plan is for
    std::vector<Stripe> remaining; // of an interrupted plan: stripes still to be moved
    std::size_t posted = 0;        // stripes posted
    std::size_t outstanding = 0;   // stripes posted and not completed
    Bytes outstanding_bytes = 0;
    bool failed = false;
    TransferFailure failure = TransferFailure::path; // if `failed`
    // Put, get and atomic only.
    bool one_sided = false;
    KeySearch keys;
    std::uint32_t access = 0; // Access bits that the region has to grant

    // Sets everything but the local side.
    void describe(const opal_common_adaptib_one_sided_t& operation, Opcode code) {
        opcode = code;
        op_kind = OpKind::non_blocking;
        one_sided = true;
        access = access_of(operation.remote->access);
        remote = operation.remote_address;
        remote_key_count = operation.remote->key_count;
        keys.epoch = operation.remote->key_epoch;
        std::copy(std::begin(operation.remote->keys), std::end(operation.remote->keys),
                  remote_keys);
        length = operation.bytes;
        compare_add = compare_add_of(operation);
        swap = operation.operand;
    }
    Direction direction() const {
        return opcode == Opcode::write ? Direction::write : Direction::read;
    }
    bool planned() const { return !plan.empty(); }
    bool posted_all() const {
        return planned() && posted == plan.size() && covered == length && remaining.empty();
    }
    bool done() const { return outstanding == 0 && (failed || posted_all()); }
    // Returns the status of the request. REQUIRES: done().
    int status() const {
        return !failed                               ? OPAL_COMMON_ADAPTIB_SUCCESS
               : failure == TransferFailure::fault   ? OPAL_COMMON_ADAPTIB_FAULT
               : failure == TransferFailure::refusal ? OPAL_COMMON_ADAPTIB_BAD_PARAM
                                                     : OPAL_COMMON_ADAPTIB_UNREACHABLE;
    }
    void begin_again() {
        plan.clear();
        progress.clear();
        remaining.clear();
        covered = 0;
        rounds = 0;
        posted = 0;
    }
};

// Owns transfers, and ends them.
class TransferOwner {
public:
    // The transfer is over; rma.failed if it has failed. It may be gone afterwards.
    virtual void on_rma_done(Transfer& transfer) = 0;

protected:
    ~TransferOwner() = default;
};

// A TransferPlan, and the owner that is told when it is done. It waits in a list (peer/waiting.h)
// while some of its stripes could not be posted yet.
class Transfer : public WorkTarget, public WaitingTransfer, public PostedTransfer {
public:
    Transfer(TransferOwner& of, TransferEngine& by, Peer& to) : owner(of), engine(by), peer(to) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) final;

    TransferOwner& owner;
    TransferEngine& engine;
    Peer& peer;
    TransferPlan rma;

protected:
    ~Transfer() = default;
};

} // namespace adaptib
