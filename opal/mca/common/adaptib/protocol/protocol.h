// SPDX-License-Identifier: BSD-3-Clause
// Protocol: eager, synchronous and rendezvous messages, in order, exactly once; active messages;
// put, get and atomics.
//
// Purpose: turns "send these bytes with this envelope" into messages on a peer's channel, and these
// back into a matched, filled receive. One file of this folder per protocol event:
//
//     arrival.cc             a message's turn has come: dispatch
//     restrained.cc          back-pressure: a peer is told which messages it may send
//     protocol.cc            construction; a connection comes and goes; a peer is lost; what the
//                            parts ask of each other
//
// intranode/ has operations of two processes of a host that end within the initiator's call
// (SynchronousRma, the initiator's side; RmaTarget, the target's):
//
//     target_assisted.cc     target-assisted puts, gets and atomics
//     cooperative_copy.cc    cooperative copy: both ends copy a part of long data
//     staged.cc              staged copy: long data goes through staging memory (staged_ends.h)
//
// and the parts that have a class of their own:
//
//     ring_sends.h           the fast path of tagged sends
//     message_sends.h        tagged sends that need a request
//     gathered_sends.h       eager ones without a copy, from buffers that are sent often
//     tagged_receives.h      receives, and the tagged messages that arrive for them
//     active_messages.h      messages for a handler instead of for matching
//     arrival_order.h        messages that arrive early, or again
//     disconnects.h          the disconnect handshake with a peer that is released
//     lost_peers.h           what the user is told of peers that are lost
//     one_sided_operations.h put, get and atomics, with these parts:
//       region_keys.h          keys of the remote memory; operations that the target refuses
//       emulated_atomics.h     atomics that the target's processor executes
//       copied_operations.h    operations on memory that cannot be registered
//       shelved.cc             the record of a waiting operation lies in its request
//     rendezvous.h           the data of long messages, and of those that are not contiguous
//     send_flow.h            the order of messages to a peer: pending and repeated ones, control
//     transfer_engine.h      posts the stripes of transfers (transfer.h), and sees them complete
//     back_pressure.h        the bound on memory for unexpected messages
//     eager_tuning.h         learns the eager limits, and which way a stream takes
//     completions.h          reports requests that have ended (request.h), each once
//     flush.h                tells when the operations started before a flush are complete
//
// Invariants
//   1. Messages to a peer are numbered in the order in which they are put on a channel, and handed
//      to matching in that order whatever channel they took (Vishnu, 4.2.2).
//   2. A request is reported exactly once: by `complete` at its start, or through completed().
// Threads: one at a time (the core's lock); memory().forget() may be called by any thread. No call
// blocks, except that an initiator spins while a peer of this host does a part of its operation
// (intranode/), as long as that peer lives.
// May touch: base/, match/, fabric/, memory/, channel/, schedule/, peer/, connect/, stats/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/biased_lock.h"
#include "base/clock.h"
#include "base/id_table.h"
#include "base/parameters.h"
#include "base/severity.h"
#include "connect/connection_manager.h"
#include "memory/block_pool.h"
#include "memory/exposed_memory.h"
#include "memory/staging.h"
#include "peer/peer_events.h"
#include "protocol/active_messages.h"
#include "protocol/arrival_order.h"
#include "protocol/completions.h"
#include "protocol/disconnects.h"
#include "protocol/eager_tuning.h"
#include "protocol/lost_peers.h"
#include "protocol/message_sends.h"
#include "protocol/one_sided_operations.h"
#include "protocol/rendezvous.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/tagged_receives.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"

namespace adaptib {

class Protocol final : ArrivalOrderListener,
                       TaggedReceivesListener,
                       MessageSendsListener,
                       OneSidedListener,
                       ActiveMessagesListener,
                       DisconnectsListener,
                       TransferListener,
                       SendFlowListener,
                       RendezvousListener {
public:
    struct Options {
        std::uint64_t self = 0; // name of this process
        Bytes eager_limit = 0;  // for messages of this process to itself
        Bytes active_max = 0;
        Bytes active_eager = 0; // EagerTuning's
        bool put = false;
        std::uint64_t connect_threshold = 0; // messages sent before a connection is made
        Bytes block_bytes = 0;
        std::size_t block_depth = 0;
        const Clock* clock = nullptr;          // times copies and streams
        const BiasedLock* lock = nullptr;      // of the core; null: one thread calls
        Bytes registration_cache = 0;          // RegistrationCache's max_bytes
        std::function<bool()> still_watched{}; // RegistrationCache's
        FrequentBuffersOptions frequent{};
        const Clock* measures = nullptr; // ExposedMemory::Options::clock
        bool serves_atomics = false;     // executes atomics on its windows for the peers
        Bytes unexpected_most = kGiB;    // bound on memory for unexpected messages
        TransferEngine::Options transfers;
        MessageFunction message{}; // to people
    };

    // `fabrics`: the range of rails of each fabric. A peer's rails belong to one fabric.
    Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
             ConnectionManager& connections, LostPeers& lost, PeerEvents& events,
             Counters& counters);

    // --- Calls of the user -----------------------------------------------------------------------
    ActiveMessages& active() { return active_; }
    const ActiveMessages& active() const { return active_; }
    // Learns which messages go through the ring; on_active_declined(), active_eager().
    EagerTuning& eager_tuning() { return eager_tuning_; }
    // Memory of this process: registration, windows, memory that its user has lent.
    ExposedMemory& memory() { return memory_; }
    // Puts, gets and atomics.
    OneSidedOperations& one_sided() { return one_sided_; }
    // The user releases peers, and wants them again.
    Disconnects& disconnects() { return disconnects_; }

    TaggedReceives& receives() { return receives_; }
    MessageSends& sends() { return sends_; }
    TransferEngine& transfers() { return transfers_; }
    SendFlow& flow() { return flow_; }
    CompletedList& completed() { return receives_.completions().list(); }
    LostPeers& lost() { return lost_; }
    PeerEvents& events() { return events_; }

    // --- Calls of the core -----------------------------------------------------------------------
    // Takes a sequenced message. REQUIRES: it has passed check_message, and stays valid during the
    // call.
    void on_message(Peer& peer, const MessageHeader& header, const std::byte* body) {
        if (!ArrivalOrder::has_its_turn(peer, header.sequence)) [[unlikely]] {
            order_.on_unordered(peer, header, body);
            return;
        }
        ArrivalOrder::begin_turn(peer);
        dispatch(peer, header, body);
        order_.end_turn(peer);
    }
    // Same for the two most frequent types. REQUIRES: ArrivalOrder::has_its_turn().
    [[gnu::always_inline]] void on_eager_in_turn(Peer& peer, const Envelope& envelope,
                                                 const std::byte* body, Bytes length) {
        ArrivalOrder::begin_turn(peer);
        receives_.on_eager(peer, envelope, body, length);
        order_.end_turn(peer);
    }
    [[gnu::always_inline]] void on_active_in_turn(Peer& peer, std::uint8_t tag,
                                                  const std::byte* body, Bytes length) {
        ArrivalOrder::begin_turn(peer);
        active_.on_active(peer, tag, body, length);
        order_.end_turn(peer);
    }
    // Ends everything that waits for peers that are lost (PeerEvent::lost), and reports the loss of
    // those for which something waits, or may wait. Work that is outstanding at a queue pair
    // completes as flushed, and ends its transfer then.
    void end_lost_peers();
    // Returns true if something of this process waits for the peer, besides disconnect messages.
    bool needs(const Peer& peer) const { return has_work_of(peer) || is_awaited(peer); }
    // Same without the requests of for_each_awaited().
    static bool has_work_of(const Peer& peer);
    // Returns true if the peer is gone and nothing is wanted of it, which is no failure: reports
    // PeerEvent::left.
    bool leaves(Peer& peer) override;
    // Drops disconnect messages to a peer that is gone. REQUIRES: !needs(peer).
    void drop_disconnects(Peer& peer) { sends_.fail(peer); }
    // Calls f for each peer that an operation waits for: for a reply, or for a message from that
    // source. May visit a peer more than once.
    void for_each_awaited(const std::function<void(const Peer&)>& f) const;
    // Bound on the number of requests that for_each_awaited() looks at.
    std::size_t awaited() const {
        return receives_.posted() + rendezvous_.sends() + rendezvous_.receives() +
               sends_.waiting_acks() + one_sided_.atomics().under_way() + one_sided_.asking();
    }

    void on_interrupted(Peer& peer); // nothing can be sent until on_connected or on_unconnected
    void on_connected(Peer& peer);
    void on_unconnected(Peer& peer); // no connection for now
    void on_torn_down(Peer& peer);
    // Returns true if something waits that cannot do without a connection.
    bool waits_for_connection(const Peer& peer) const {
        return peer.transfers.link.linked() || rendezvous_.has_blocks(peer);
    }
    // Sends messages and posts transfers that found no room before. Returns the number of peers
    // that have no pending sends any more.
    std::size_t retry();
    bool retry_due() const { return flow_.any_stalled() || transfers_.any_waits(); }
    // Returns true if a pass of progress has more to do than to receive.
    bool has_work() const { return transfers_.work_outstanding() || retry_due(); }
    void forget(Peer& peer); // at the end: returns the peer's records to the pool
    void update_levels();

private:
    // restrained.cc
    void on_allowed(Peer& peer, Allowance allowance) override;
    Allowance least_for(const Peer& peer) const override;

    // arrival.cc
    void dispatch(Peer& peer, const MessageHeader& header, const std::byte* body) override;
    void on_region_query(Peer& peer, const RegionQueryBody& body);

    std::span<std::byte> data_of_send(const Peer& peer, std::uint64_t send_id) const override;

    // of tagged_receives.h, active_messages.h and disconnects.h
    bool read_at_once(Peer& peer, const RendezvousBody& source, void* to, Bytes wanted) override;
    void note_sent(Peer& peer) override { sends_.note_sent(peer); }
    void start_held(Peer& peer) override;

    // of send_flow.h
    bool send_pending(PendingSend& send) override;
    void on_send_lost(SendRequest& request) override { sends_.on_lost(request); }
    void on_flushed(Peer& peer) override { disconnects_.end_if_over(peer); }

    // of transfer_engine.h
    void on_control_lane(Peer& peer, std::uint32_t lane) override {
        connections_.migrate_control_lane(peer, lane);
    }

    // of rendezvous.h
    const Registration* registered(const Peer& peer, RegistrationCache::Use& own, void* address,
                                   Bytes length, std::uint32_t access) override {
        return memory_.registered(peer.contact.route.fabric, own, address, length, access);
    }
    AcceleratorMemory::Use on_accelerator(const Peer& peer, const Data& data) override {
        return memory_.accelerator(peer.contact.route.fabric).use(data);
    }
    StagingPool& staging(const Peer& peer) override {
        return memory_.staging(peer.contact.route.fabric);
    }
    void on_sent(SendRequest& request, bool failed) override;
    void on_received(ReceiveRequest& request, Bytes message_bytes, Bytes received,
                     int failure) override {
        receives_.complete_receive(request, request.envelope, message_bytes, received, failure);
    }

    // of more than one of them
    void want_connection(Peer& peer) override { connections_.request(peer); }
    void want_repair(Peer& peer) override { connections_.repairs().begin(peer); }

    // of one_sided_operations.h
    void send_one_sided_message(Peer& peer, MessageType type, const void* body,
                                std::size_t size) override;
    bool long_messages_under_way() const override {
        return rendezvous_.sends() + rendezvous_.receives() > 0;
    }

    void end_lost(Peer& peer);
    bool is_awaited(const Peer& peer) const;

    const bool put_; // Options::put
    const RailList rails_;
    ConnectionManager& connections_;
    LostPeers& lost_;
    PeerEvents& events_;
    Counters& counters_;
    TaggedReceives receives_;
    ArrivalOrder order_;
    ExposedMemory memory_;
    OneSidedOperations one_sided_;
    EagerTuning eager_tuning_;
    MessageSends sends_;
    TransferEngine transfers_;
    SendFlow flow_;
    ActiveMessages active_;
    Disconnects disconnects_;
    Rendezvous rendezvous_;
};

} // namespace adaptib
