// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous: the data of long messages, and of those that are not contiguous.
//
// Purpose: the sender announces a message (an RTS, `rendezvous`). Once the receiver has matched it,
// the receiver decides how the data goes: it reads (`read`), the sender writes (`written`), the
// sender packs blocks that the receiver reads (`packed`), or the sender sends fragments (`pushed`).
// TaggedReceives matches messages.
//
// Invariants
//   1. A transfer ends once, and its request with it.
//   2. A message of the peer that does not fit the transfer's state is counted as a bad packet.
// Ownership: the transfers (message_transfer.h) are Rendezvous's; requests are the user's until
// Completions reports them.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, memory/, peer/, stats/, completions.h, lost_peers.h, request.h,
// send_flow.h, transfer_engine.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/id_table.h"
#include "base/intrusive_list.h"
#include "base/severity.h"
#include "base/status.h"
#include "base/wire.h"
#include "memory/accelerator_memory.h"
#include "memory/exposed_memory.h"
#include "memory/registration_cache.h"
#include "memory/staging.h"
#include "peer/peer.h"
#include "peer/peer_events.h"
#include "protocol/completions.h"
#include "protocol/lost_peers.h"
#include "protocol/message_transfer.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

class Rendezvous final : public TransferOwner, public PendingSender {
public:
    struct Options {
        bool put = false; // the sender writes contiguous data
        Bytes block_bytes = 0;
        std::size_t block_depth = 0; // blocks of a message under way
        MessageFunction message{};   // to people
    };

    struct Parts {
        SendFlow& flow;
        TransferEngine& transfers;
        ExposedMemory& memory;
        Completions& completions;
        PeerEvents& events; // a connection is wanted
    };
    Rendezvous(const Options& options, const Parts& parts, LostPeers& lost, Counters& counters)
        : options_(options), flow_(parts.flow), transfers_(parts.transfers), memory_(parts.memory),
          completions_(parts.completions), events_(parts.events), lost_(lost), counters_(counters) {
    }
    ~Rendezvous(); // destroys transfers that will not end any more
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;

    // Sender: puts the request's RTS on the channel. again: there is no room now. error: the path
    // is broken.
    Status announce(SendRequest& request);
    // Sends fragments that waited. The transfer is gone once all of it is sent, or if it cannot be
    // packed.
    bool transmit(PendingSend& send) override;
    // Receiver: fetches the data of a matched message. `wanted`: bytes that the receive takes.
    // REQUIRES: 0 < wanted <= source.bytes.
    void receive(Peer& peer, const RendezvousBody& source, ReceiveRequest& request, Bytes wanted);

    // Messages of the peer. REQUIRES: they have passed check_message.
    void on_clear_to_send(Peer& peer, std::uint8_t flags, const ClearBody& body);
    void on_finish(Peer& peer, const IdBody& body);
    void on_block(Peer& peer, const BlockBody& body);
    void on_block_done(Peer& peer, const BlockDoneBody& body);
    void on_written(Peer& peer, const WrittenBody& body);
    void on_fragment(Peer& peer, const MessageHeader& header, const std::byte* body);

    // The core has asked for a connection (Protocol::ask_for_connections).
    void on_requested(Peer& peer);
    void on_connected(Peer& peer);
    void on_unconnected(Peer& peer); // no connection for now
    // Ends the peer's transfers that have no stripe under way; the others end with their last one.
    // REQUIRES: the peer has failed.
    void fail(Peer& peer);

    // Transfers under way.
    std::size_t sends() const { return sends_.size(); }
    std::size_t receives() const { return receives_.size(); }
    // Returns the data of a message that this process is sending to the peer, and that the peer may
    // read now. Empty: there is no such message, or its data does not lie in one piece.
    std::span<std::byte> data_of_send(const Peer& peer, std::uint64_t send_id) const;
    // Returns the registration of memory that the peer may read or write: of a message under way,
    // or of a block. Null: it is none.
    const Registration* find_memory(const Peer& peer, std::uint64_t address, Bytes bytes) const;
    // Returns true if blocks are to be read, for which there is no way without a connection.
    bool has_blocks(const Peer& peer) const;
    // Calls f for the peer of each transfer; may visit a peer more than once.
    template <typename F> void for_each_peer(F&& f) const {
        sends_.for_each([&](SendTransfer* transfer) { f(transfer->peer); });
        receives_.for_each([&](ReceiveTransfer* transfer) { f(transfer->peer); });
    }

    void on_rma_done(Transfer& transfer) override;

private:
    template <typename Transferred>
    bool register_data(Transferred& transfer, const Data& data, Bytes bytes, std::uint32_t access);
    void register_receive(ReceiveTransfer& transfer);
    StagingPool& staging(const Peer& peer) { return memory_.staging(peer.contact.route.fabric); }
    void make_send_transfer(SendRequest& request);
    void decide(ReceiveTransfer& transfer);
    template <typename F> void for_each_undecided(Peer& peer, F&& f);
    void withdraw_transfers(Peer& peer);
    void end_send(SendTransfer& transfer, bool failed);
    void end_receive(ReceiveTransfer& transfer);

    // The receiver reads.
    void on_read(ReceiveTransfer& transfer);
    void on_block_read(BlockRead& block);
    static bool needs_processors(const Transfer& transfer);
    bool read_aside(BlockRead& block);
    bool take_blocks(ReceiveTransfer& transfer);
    void give_blocks(ReceiveTransfer& transfer);
    void start_read(ReceiveTransfer& transfer);
    void start_block_reads(ReceiveTransfer& transfer);
    void start_block_read(ReceiveTransfer& transfer, Bytes offset, Bytes length,
                          std::uint64_t remote, const std::uint32_t* keys, std::uint32_t key_count,
                          std::uint8_t key_epoch, std::uint32_t remote_block);

    // The sender packs blocks.
    void pack_blocks(SendTransfer& transfer);
    bool pack_block(SendTransfer& transfer, std::uint32_t index);

    // The sender writes.
    void start_write(SendTransfer& transfer);
    void on_write_done(SendTransfer& transfer);

    // Fragments.
    void ask_for_fragments(ReceiveTransfer& transfer);
    void start_fragments(SendTransfer& transfer);
    Bytes fill_fragment(SendTransfer& transfer, Bytes room);

    const Options options_;
    SendFlow& flow_;
    TransferEngine& transfers_;
    ExposedMemory& memory_;
    Completions& completions_;
    PeerEvents& events_;
    LostPeers& lost_;
    Counters& counters_;
    IdTable<SendTransfer> sends_;
    IdTable<ReceiveTransfer> receives_;
    IntrusiveList<ReceiveTransfer, &ReceiveTransfer::undecided_link> undecided_;
    std::vector<std::byte> fragment_; // scratch of fill_fragment
};

} // namespace adaptib
