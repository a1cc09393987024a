// SPDX-License-Identifier: BSD-3-Clause
// Transfers: the state that a rendezvous or a one-sided operation needs beyond its request.
//
// Purpose: the state of a large or non-contiguous message between its RTS and its end, at each end,
// and of a put, get or atomic. May be allocated: a transfer is rare, and expensive compared with
// its record.
// A receive transfer is always in one of six modes (ReceiveTransfer::Mode).
// Ownership: the protocol's; a transfer lives until its last outstanding work request has completed
// or was abandoned.
// May touch: base/, memory/, peer/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "base/stripe.h"
#include "base/work_target.h"
#include "memory/registration_cache.h"
#include "memory/staging.h"
#include "peer/subchannel.h"
#include "peer/waiting.h"
#include "protocol/request.h"

namespace adaptib {

class Peer;
class Protocol;

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

// A transfer between one contiguous piece of local memory and one of the peer's. Its plan is posted
// as far as the queue pairs take it, and continues when progress is made.
struct RmaOperation {
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
    std::vector<Stripe> plan;             // empty until the peer is connected
    std::vector<StripeProgress> progress; // of each stripe, if stripes are timed
    Bytes covered = 0;                    // bytes in the plan
    Bytes round = 0;                      // length of the next of the rounds that make up the plan
    std::uint32_t rounds = 0;             // rounds planned
    std::size_t oldest = 0;               // first stripe that may be outstanding
    std::uint32_t connection = 0;         // Peer::connection that the plan is for
    std::vector<Stripe> left;             // of an interrupted plan: stripes still to be moved
    std::size_t posted = 0;               // stripes posted
    std::size_t outstanding = 0;          // stripes posted and not completed
    Bytes outstanding_bytes = 0;
    bool failed = false;
    // Put, get and atomic only.
    bool one_sided = false;
    bool keys_found = false;  // remote_keys were looked up in the target's table of regions
    bool refused = false;     // failed since the target has no such memory, or denies access
    std::uint32_t access = 0; // Access bits that the region has to grant

    // Sets everything but the local side.
    void describe(const opal_common_adaptib_one_sided_t& operation, Opcode code) {
        opcode = code;
        op_kind = OpKind::non_blocking;
        one_sided = true;
        access = access_of(operation.remote->access);
        remote = operation.remote_address;
        remote_key_count = operation.remote->key_count;
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
        return planned() && posted == plan.size() && covered == length && left.empty();
    }
    bool done() const { return outstanding == 0 && (failed || posted_all()); }
    // Returns the status of the request. REQUIRES: done().
    int status() const {
        return !failed   ? OPAL_COMMON_ADAPTIB_SUCCESS
               : refused ? OPAL_COMMON_ADAPTIB_BAD_PARAM
                         : OPAL_COMMON_ADAPTIB_UNREACHABLE;
    }
    void begin_again() {
        plan.clear();
        progress.clear();
        left.clear();
        covered = 0;
        rounds = 0;
        oldest = posted = 0;
    }
};

// Owner of a Move, told when the Move is done. It waits in a list (peer/waiting.h) while some of
// its stripes could not be posted yet.
class Transfer : public WorkTarget, public WaitingTransfer, public PostedTransfer {
public:
    Transfer(Protocol& p, Peer& to) : protocol(p), peer(to) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) final;
    virtual void on_rma_done() = 0;
    // Returns the record that waits from now on: this one, or a shorter one that replaces it.
    virtual WaitingTransfer& shelve() { return *this; }

    Protocol& protocol;
    Peer& peer;
    RmaOperation rma;

protected:
    ~Transfer() = default;
};

struct SendTransfer final : Transfer {
    SendTransfer(Protocol& p, Peer& to) : Transfer(p, to) {}
    void on_rma_done() override;

    struct Block {
        std::unique_ptr<StagingBlock> memory;
        Bytes length = 0; // 0: free
    };

    SendRequest* request = nullptr;
    std::uint64_t id = 0;
    SourceKind kind = SourceKind::direct;
    RegistrationCache::Use own;
    const Registration* memory = nullptr; // direct: registration of the source
    bool sent = false;                    // the RTS is on its way
    bool cleared = false;                 // the CTS has arrived
    std::uint64_t receive_id = 0;
    Bytes wanted = 0;
    bool pushing = false; // the message goes in fragments
    struct Fragments final : PendingSend {
        explicit Fragments(SendTransfer& whole) : PendingSend(Kind::fragments), transfer(whole) {}
        SendTransfer& transfer;
    };
    Fragments fragments{*this};
    std::vector<Block> blocks; // packed
    Bytes block_bytes = 0;     // block size that both sides have room for
    Bytes packed = 0;          // bytes of the stream packed so far
    Bytes announced = 0;       // of these, within `wanted`: in blocks or fragments that were sent
    Bytes delivered = 0;       // bytes in blocks that the receiver has released
};

struct ReceiveTransfer;

// One block of a non-contiguous receive, or of a packed source.
struct BlockRead final : Transfer {
    BlockRead(Protocol& p, Peer& from, ReceiveTransfer& whole)
        : Transfer(p, from), transfer(whole) {}
    void on_rma_done() override;

    ReceiveTransfer& transfer;
    std::unique_ptr<StagingBlock> memory; // null: straight into the user's buffer
    Bytes offset = 0;
    Bytes length = 0;
    std::uint32_t remote_block = 0;
};

struct ReceiveTransfer final : Transfer {
    enum class Mode : std::uint8_t {
        undecided,   // not known yet whether there will be a connection
        read,        // contiguous source and destination: read at once
        read_blocks, // contiguous source: read block by block and unpack
        packed,      // the sender packs blocks, the receiver reads (and unpacks) them
        written,     // the sender writes
        pushed,      // there is no connection, or no memory for blocks: the sender sends fragments
    };

    ReceiveTransfer(Protocol& p, Peer& from) : Transfer(p, from) {}
    void on_rma_done() override;

    ReceiveRequest* request = nullptr;
    std::uint64_t id = 0;
    Mode mode = Mode::undecided;
    ListLink<ReceiveTransfer> undecided_link;
    RendezvousBody source{};
    Bytes wanted = 0;
    RegistrationCache::Use own;
    const Registration* memory = nullptr; // null: buffer not contiguous, or not registered
    Bytes started = 0;                    // bytes of blocks whose reads were started
    Bytes received = 0;
    std::vector<std::unique_ptr<BlockRead>> active;   // blocks under way
    std::vector<std::unique_ptr<StagingBlock>> spare; // free memory to unpack from
    bool failed = false;
    bool sender_ended = false; // the sender has ended the transfer
};

// A put, get or atomic.
struct OneSided final : Transfer {
    OneSided(Protocol& p, Peer& to) : Transfer(p, to) {}
    void on_rma_done() override;
    WaitingTransfer& shelve() override;

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0;    // FlushEpochs
    RegistrationCache::Use own; // of the local memory, if the user has not registered it
};

// A waiting put, get or atomic of which nothing is posted. Its record lies in the words of its
// request, so that it takes no memory of the core.
struct ShelvedOneSided : WaitingTransfer {
    explicit ShelvedOneSided(OneSided& operation);
    // Moves the record into `operation`; the caller then destroys this one. REQUIRES: `operation`
    // is new.
    void restore(OneSided& operation);
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
    bool keys_found;
    Opcode opcode;
    std::uint32_t access;
    Bytes length;
    std::uint64_t compare_add;
    std::uint64_t swap;
    std::uint64_t epoch;
};
static_assert(sizeof(ShelvedOneSided) <= sizeof(UserRequest::core));
static_assert(alignof(ShelvedOneSided) <= alignof(UserRequest));

// A put, get or atomic whose local memory cannot be registered: it goes block by block through
// staging memory.
struct CopiedOneSided final : Transfer {
    CopiedOneSided(Protocol& p, Peer& to) : Transfer(p, to) {}
    void on_rma_done() override;

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0; // FlushEpochs
    std::unique_ptr<StagingBlock> block;
    std::byte* local = nullptr;
    std::uint64_t remote = 0;
    Bytes length = 0; // of the whole operation
    Bytes moved = 0;  // in completed blocks
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
