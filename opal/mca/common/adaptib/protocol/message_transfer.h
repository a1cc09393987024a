// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous transfers: the state of a message between its RTS and its end, at each end.
//
// Purpose: the state that a large or non-contiguous message needs beyond its request.
// A receive transfer is always in one of six modes (ReceiveTransfer::Mode).
// Ownership: Rendezvous's; a transfer lives until its last outstanding work request has completed
// or was abandoned.
// Threads: one at a time (the core's lock).
// May touch: base/, memory/, peer/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "base/wire.h"
#include "memory/accelerator_memory.h"
#include "memory/registration_cache.h"
#include "memory/staging.h"
#include "peer/pending.h"
#include "protocol/request.h"
#include "protocol/transfer.h"

namespace adaptib {

// The transfers of a message, which have one owner.
struct MessageTransfer : Transfer {
    enum class Part : std::uint8_t { send, receive, block };
    MessageTransfer(Part what, TransferOwner& of, TransferEngine& by, Peer& with)
        : Transfer(of, by, with), part(what) {}

    Part part;

protected:
    ~MessageTransfer() = default;
};

struct SendTransfer final : MessageTransfer {
    SendTransfer(TransferOwner& of, TransferEngine& by, Peer& to)
        : MessageTransfer(Part::send, of, by, to) {}

    struct Block {
        std::unique_ptr<StagingBlock> memory;
        Bytes length = 0; // 0: free
    };

    SendRequest* request = nullptr;
    std::uint64_t id = 0;
    SourceKind kind = SourceKind::direct;
    RegistrationCache::Use own;
    AcceleratorMemory::Use accelerator;
    const Registration* memory = nullptr; // direct: registration of the source
    std::byte* local = nullptr;           // direct: the source, perhaps on an accelerator
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
struct BlockRead final : MessageTransfer {
    BlockRead(TransferOwner& of, TransferEngine& by, Peer& from, ReceiveTransfer& whole)
        : MessageTransfer(Part::block, of, by, from), transfer(whole) {}

    ReceiveTransfer& transfer;
    std::unique_ptr<StagingBlock> memory; // null: straight into the user's buffer
    Bytes offset = 0;
    Bytes length = 0;
    std::uint32_t remote_block = 0;
};

struct ReceiveTransfer final : MessageTransfer {
    enum class Mode : std::uint8_t {
        undecided,   // not known yet whether there will be a connection
        read,        // contiguous source and destination: read at once
        read_blocks, // contiguous source: read block by block and unpack
        packed,      // the sender packs blocks, the receiver reads (and unpacks) them
        written,     // the sender writes
        pushed,      // the sender sends fragments
    };

    ReceiveTransfer(TransferOwner& of, TransferEngine& by, Peer& from)
        : MessageTransfer(Part::receive, of, by, from) {}

    ReceiveRequest* request = nullptr;
    std::uint64_t id = 0;
    Mode mode = Mode::undecided;
    ListLink<ReceiveTransfer> undecided_link;
    RendezvousBody source{};
    Bytes wanted = 0;
    RegistrationCache::Use own;
    AcceleratorMemory::Use accelerator;
    const Registration* memory = nullptr; // null: buffer not contiguous, or not registered
    std::byte* local = nullptr;           // the buffer, if registered; perhaps on an accelerator
    Bytes started = 0;                    // bytes of blocks whose reads were started
    Bytes received = 0;
    std::vector<std::unique_ptr<BlockRead>> active;   // blocks under way
    std::vector<std::unique_ptr<StagingBlock>> spare; // free memory to unpack from
    bool failed = false;
    bool sender_ended = false; // the sender has ended the transfer
};

} // namespace adaptib
