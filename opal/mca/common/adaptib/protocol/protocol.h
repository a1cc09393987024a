// SPDX-License-Identifier: BSD-3-Clause
// Protocol: eager, synchronous and rendezvous messages, in order, exactly once; active messages;
// put, get and atomics.
//
// Purpose: turns "send these bytes with this envelope" into messages on a peer's channel, and these
// back into a matched, filled receive. Protocol constructs its parts, hands each message whose turn
// has come to the one that it is for, and tells them when a connection comes or goes,
// or a peer is lost. The parts call those that come before them in this list, but for the sender
// and the owner of what waits in one of them (PendingSender, TransferOwner), and nobody calls
// Protocol: what has to happen elsewhere is an event of the peer (peer/peer_events.h).
//
//     completions.h          reports requests that have ended (request.h), each once
//     lost_peers.h           what the user is told of peers that are lost
//     arrival_order.h        messages that arrive early, or again
//     send_flow.h            the order of messages to a peer: pending and repeated ones, control
//     back_pressure.h        the bound on memory for unexpected messages
//     disconnects.h          the disconnect handshake with a peer that is released
//     region_keys.h          keys of remote memory; operations that the target refuses
//     transfer_engine.h      posts the stripes of transfers (transfer.h), and sees them complete
//     rendezvous.h           the data of long messages, and of those that are not contiguous
//     intranode/             operations of two processes of a host that end within the initiator's
//                            call: SynchronousRma is the initiator's side, RmaTarget the target's
//     tagged_receives.h      receives, and the tagged messages that arrive for them
//     eager_tuning.h         learns the eager limits, and which way a stream takes
//     gathered_sends.h       eager messages without a copy, from buffers that are sent often
//     message_sends.h        tagged sends that need a request
//     ring_sends.h           the fast path of those that need none
//     active_messages.h      messages for a handler instead of for matching
//     flush_epochs.h         says when the operations started before a flush are complete
//     emulated_atomics.h     atomics that the target's processor executes
//     copied_operations.h    operations on memory that cannot be registered
//     one_sided_operations.h put, get and atomics
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
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"
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

class Protocol final {
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
    // The user releases peers.
    Disconnects& disconnects() { return disconnects_; }
    // Undoes Disconnects::release(): the user wants the peer again.
    void keep(Peer& peer) {
        if (disconnects_.keep(peer)) {
            start_held(peer);
        }
    }
    // Asks for the connections, repairs and control lanes that something has found to want
    // (PeerEvent::want_...). Called at the end of each call that sends or starts an operation, so
    // that these get under way while the user computes, and in each pass.
    void ask_for_connections() {
        if (events_.any()) [[unlikely]] {
            ask_for_all();
        }
    }

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
        end_turn(peer);
    }
    // Same for the two most frequent types. REQUIRES: ArrivalOrder::has_its_turn().
    [[gnu::always_inline]] void on_eager_in_turn(Peer& peer, const Envelope& envelope,
                                                 const std::byte* body, Bytes length) {
        ArrivalOrder::begin_turn(peer);
        receives_.on_eager(peer, envelope, body, length);
        end_turn(peer);
    }
    [[gnu::always_inline]] void on_active_in_turn(Peer& peer, std::uint8_t tag,
                                                  const std::byte* body, Bytes length) {
        ArrivalOrder::begin_turn(peer);
        active_.on_active(peer, tag, body, length);
        end_turn(peer);
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
    bool leaves(Peer& peer);
    // Drops disconnect messages to a peer that is gone. REQUIRES: !needs(peer).
    void drop_disconnects(Peer& peer) { sends_.fail(peer); }
    // Calls f for each peer that an operation waits for: for a reply, or for a message from that
    // source. May visit a peer more than once.
    void for_each_awaited(const std::function<void(const Peer&)>& f) const;
    // Bound on the number of requests that for_each_awaited() looks at.
    std::size_t awaited() const {
        return receives_.posted() + rendezvous_.sends() + rendezvous_.receives() +
               flow_.waiting_acks() + one_sided_.atomics().under_way() + transfers_.asking();
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
    [[gnu::always_inline]] void end_turn(Peer& peer) {
        if (peer.in.early != nullptr) [[unlikely]] {
            run_early(peer);
        }
    }
    void ask_for_all();
    // Sends what was held during a disconnect, or adds it to what waits.
    void start_held(Peer& peer);

    void run_early(Peer& peer);
    void dispatch(Peer& peer, const MessageHeader& header, const std::byte* body);
    void on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body);
    void on_region_query(Peer& peer, const RegionQueryBody& body);

    void end_lost(Peer& peer);
    bool is_awaited(const Peer& peer) const;

    const RailList rails_;
    ConnectionManager& connections_;
    LostPeers& lost_;
    PeerEvents& events_;
    Counters& counters_;
    TaggedReceives receives_;
    ArrivalOrder order_;
    ExposedMemory memory_;
    TransferEngine transfers_;
    RmaTarget target_;
    SynchronousRma synchronous_;
    OneSidedOperations one_sided_;
    EagerTuning eager_tuning_;
    MessageSends sends_;
    ActiveMessages active_;
    Disconnects disconnects_;
    Rendezvous rendezvous_;
    SendFlow flow_; // refers to senders among those before it
};

} // namespace adaptib
