// SPDX-License-Identifier: BSD-3-Clause
// Transfers: what a rendezvous needs beyond its request, at each end.
//
// Purpose: the state of a large or non-contiguous message between its announcement and its end. May be
// allocated: a transfer is rare and dear compared with its record.
// A receive transfer is always in one of six modes (ReceiveTransfer::Mode).
// Ownership: the protocol's; a transfer lives until its last outstanding work request has come back.
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
#include "peer/peer.h"
#include "peer/waiting.h"
#include "protocol/request.h"

namespace adaptib {

class Protocol;

// What SendWork's compare_add is of an operation, whose operand is what a compare-and-swap puts there.
inline std::uint64_t compare_add_of(const opal_common_adaptib_one_sided_t& operation) {
    const bool swap = operation.operation == OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    return swap ? operation.compare : operation.operand;
}

// Access of OPAL_COMMON_ADAPTIB_REMOTE_*.
inline std::uint32_t access_of(std::uint32_t told) {
    return ((told & OPAL_COMMON_ADAPTIB_REMOTE_READ) != 0 ? kRemoteRead : 0u) |
           ((told & OPAL_COMMON_ADAPTIB_REMOTE_WRITE) != 0 ? kRemoteWrite : 0u) |
           ((told & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0 ? kRemoteAtomic : 0u);
}

// How far a stripe of several is.
struct StripeProgress {
    Nanoseconds posted{};
    TimedStripes before{};   // it, on its path
    Nanoseconds taken{};     // 0: not known; negative: at most so long
    Bytes ahead = 0;         // as StripeTime's
    std::uint32_t round = 0; // the transfer is planned in rounds, if it is long ...
    Mix mix = Mix::reads;    // ... for this; when it ended there may have been more
    bool done = false;       // its completion was taken
};

// A planned move between one contiguous piece of our memory and one of the peer's. The plan is posted
// as far as the queue pairs take it and goes on when progress is made.
struct Move {
    Opcode opcode = Opcode::read;
    Marker marker = Marker::blocking;
    std::byte* local = nullptr;
    const Registration* registration = nullptr;
    std::uint64_t remote = 0;
    std::uint32_t remote_keys[kMaxRails] = {};
    std::uint32_t remote_key_count = 0;
    Bytes length = 0;
    std::uint64_t compare_add = 0; // atomics, as SendWork's
    std::uint64_t swap = 0;
    std::vector<Stripe> plan;             // empty until the peer is connected
    std::vector<StripeProgress> progress; // of each stripe, if their times are wanted
    Bytes covered = 0;                    // by the plan
    Bytes round = 0;                      // of those that make the plan up, the length of the next
    std::uint32_t rounds = 0;             // planned
    std::size_t oldest = 0;               // stripe that may be outstanding; earlier ones are done
    std::uint32_t connection = 0;         // Peer::connection that the plan is for
    std::vector<Stripe> left;             // of an interrupted plan: what is to be moved still
    std::size_t posted = 0;               // stripes
    std::size_t outstanding = 0;          // stripes posted and not completed
    Bytes outstanding_bytes = 0;
    bool failed = false;
    // Put, get and atomic only.
    bool one_sided = false;
    bool keys_found = false;  // remote_keys are of the target's table of regions
    bool refused = false;     // it failed since the target has no such memory, or gives no right
    std::uint32_t access = 0; // Access: the rights that the region has to give

    // All but the local side.
    void describe(const opal_common_adaptib_one_sided_t& operation, Opcode code) {
        opcode = code;
        marker = Marker::non_blocking;
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
    void begin_again() {
        plan.clear();
        progress.clear();
        left.clear();
        covered = 0;
        rounds = 0;
        oldest = posted = 0;
    }
};

// Who waits for a Move. It waits (peer/waiting.h) while some of its stripes could not be posted
// yet.
class Mover : public WorkTarget, public WaitingTransfer, public PostedTransfer {
public:
    Mover(Protocol& p, Peer& to) : protocol(p), peer(to) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) final;
    virtual void on_move_done() = 0;
    // Who waits for it from now on: this, or a shorter record, and this is gone.
    virtual WaitingTransfer& shelve() { return *this; }

    Protocol& protocol;
    Peer& peer;
    Move move;

protected:
    ~Mover() = default;
};

struct SendTransfer final : Mover {
    SendTransfer(Protocol& p, Peer& to) : Mover(p, to) {}
    void on_move_done() override;

    struct Block {
        std::unique_ptr<StagingBlock> memory;
        Bytes length = 0; // 0: free
    };

    SendRequest* request = nullptr;
    std::uint64_t id = 0;
    SourceKind kind = SourceKind::direct;
    RegistrationCache::Use own;
    const Registration* memory = nullptr; // direct: the source is in it
    bool sent = false;                    // the announcement is on its way
    bool cleared = false;                 // clear_to_send arrived
    std::uint64_t receive_id = 0;
    Bytes wanted = 0;
    bool pushing = false; // in fragments
    struct Fragments final : PendingSend {
        explicit Fragments(SendTransfer& whole) : PendingSend(Kind::fragments), transfer(whole) {}
        SendTransfer& transfer;
    };
    Fragments fragments{*this};
    std::vector<Block> blocks; // packed
    Bytes block_bytes = 0;     // what both sides have room for
    Bytes packed = 0;          // bytes of the stream packed so far
    Bytes announced = 0;       // of them, within `wanted`, in blocks or fragments that were sent
    Bytes delivered = 0;       // in blocks that came back
};

struct ReceiveTransfer;

// One block of a non-contiguous receive, or of a packed source.
struct BlockRead final : Mover {
    BlockRead(Protocol& p, Peer& from, ReceiveTransfer& whole) : Mover(p, from), transfer(whole) {}
    void on_move_done() override;

    ReceiveTransfer& transfer;
    std::unique_ptr<StagingBlock> memory; // null: straight into the user's buffer
    Bytes offset = 0;
    Bytes length = 0;
    std::uint32_t remote_block = 0;
};

struct ReceiveTransfer final : Mover {
    enum class Mode : std::uint8_t {
        undecided,   // whether there will be a connection
        read,        // contiguous source and destination: read at once
        read_blocks, // contiguous source: read block by block and unpack
        packed,      // the sender packs blocks, we read (and unpack) them
        written,     // the sender writes
        pushed,      // there is no connection, or no memory for blocks: the sender sends fragments
    };

    ReceiveTransfer(Protocol& p, Peer& from) : Mover(p, from) {}
    void on_move_done() override;

    ReceiveRequest* request = nullptr;
    std::uint64_t id = 0;
    Mode mode = Mode::undecided;
    ListLink<ReceiveTransfer> undecided_link;
    RendezvousBody source{};
    Bytes wanted = 0;
    RegistrationCache::Use own;
    const Registration* memory = nullptr; // the user's buffer is in it; null: it is not contiguous
    Bytes started = 0;                    // read_blocks
    Bytes received = 0;
    std::vector<std::unique_ptr<BlockRead>> active; // blocks under way
    std::vector<std::unique_ptr<StagingBlock>>
        spare; // memory to unpack from, of those that are not
    bool failed = false;
    bool sender_ended = false; // it has forgotten the transfer
};

// A put, get or atomic.
struct OneSided final : Mover {
    OneSided(Protocol& p, Peer& to) : Mover(p, to) {}
    void on_move_done() override;
    WaitingTransfer& shelve() override;

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0;    // FlushEpochs
    RegistrationCache::Use own; // of the local memory, if the user has not registered it
};

// One of which nothing is posted, while it waits: in the words of its request, so that it takes no
// memory of the core.
struct ShelvedOneSided : WaitingTransfer {
    explicit ShelvedOneSided(OneSided& operation);
    // REQUIRES: the operation is new. This is to be destroyed then.
    void restore(OneSided& operation);
    UserRequest& user() { // its words are where this is
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
    std::uint32_t subchannel = 0; // planned: that the whole of it is for
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

// The same when our memory cannot be registered: block after block, through staging memory.
struct CopiedOneSided final : Mover {
    CopiedOneSided(Protocol& p, Peer& to) : Mover(p, to) {}
    void on_move_done() override;

    UserRequest* user = nullptr;
    std::uint64_t id = 0;
    std::uint64_t epoch = 0; // FlushEpochs
    std::unique_ptr<StagingBlock> block;
    std::byte* local = nullptr;
    std::uint64_t remote = 0;
    Bytes length = 0; // of the whole
    Bytes moved = 0;  // of it, in blocks that are over
};

// An atomic that the target was, or is to be, asked for.
struct AskedAtomic {
    explicit AskedAtomic(Peer& to) : peer(to) {}

    Peer& peer;
    UserRequest* user = nullptr;
    void* local = nullptr;
    AtomicBody body{};
    std::uint64_t epoch = 0; // FlushEpochs
    bool held = false;       // until the peer's goodbye is over
};

} // namespace adaptib
