// SPDX-License-Identifier: BSD-3-Clause
// Protocol: eager, synchronous and rendezvous messages, in order, exactly once; active messages;
// put, get and atomics.
//
// Purpose: turns "send these bytes with this envelope" into messages on a peer's channel, and these
// back into a matched, filled receive. One file of this folder per protocol event:
//
//     send.cc                the caller starts a send
//     timed.cc               messages that could go two ways (eager_tuning.h)
//     receive.cc             the caller posts a receive, probes or cancels
//     arrival.cc             a message's turn has come: dispatch
//     eager.cc               eager messages, and the acknowledgment of synchronous ones
//     restrained.cc          back-pressure: a peer is told which messages it may send
//     rts.cc                 an RTS (`rendezvous`) is sent, or arrives and is matched
//     self.cc                messages of the process to itself
//     failure.cc             a peer is lost, and all that waits for it
//     protocol.cc            construction; a connection comes and goes
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
//     active_messages.h      messages for a handler instead of for matching
//     arrival_order.h        messages that arrive early, or again
//     disconnects.h          the disconnect handshake with a peer that is released
//     one_sided_operations.h put, get and atomics, with these parts:
//       region_keys.h          keys of the remote memory; operations that the target refuses
//       emulated_atomics.h     atomics that the target's processor executes
//       copied_operations.h    operations on memory that cannot be registered
//       shelved.cc             the record of a waiting operation lies in its request
//     rendezvous.h           the data of long messages, and of those that are not contiguous
//     send_flow.h            the order of messages to a peer: pending and repeated ones, control
//     transfer_engine.h      posts the stripes of transfers, and sees them complete
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

#include "base/clock.h"
#include "base/id_table.h"
#include "base/parameters.h"
#include "connect/connection_manager.h"
#include "match/match.h"
#include "memory/block_pool.h"
#include "memory/exposed_memory.h"
#include "memory/staging.h"
#include "protocol/active_messages.h"
#include "protocol/arrival_order.h"
#include "protocol/back_pressure.h"
#include "protocol/completions.h"
#include "protocol/disconnects.h"
#include "protocol/eager_tuning.h"
#include "protocol/one_sided_operations.h"
#include "protocol/rendezvous.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/transfer_engine.h"
#include "stats/counters.h"

namespace adaptib {

// Notices and questions of the protocol to the core above it.
class ProtocolListener : public MemoryListener, public RegionKeysListener {
public:
    // A connection has failed; messages and transfers under way over it may not have arrived.
    virtual void on_broken(Peer& peer) = 0;
    // The disconnect handshake is over: nothing refers to the peer any more.
    virtual void on_peer_disconnected(Peer& peer) = 0;
    // Returns true if the peer's process is gone and nothing is wanted of it: that is no failure.
    virtual bool leaves(Peer& peer) = 0;

protected:
    ~ProtocolListener() = default;
};

class Protocol final : ArrivalOrderListener,
                       BackPressureListener,
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
        const Clock* clock = nullptr; // times copies and streams
        Bytes registration_cache = 0; // RegistrationCache's max_bytes
        bool serves_atomics = false;  // executes atomics on its windows for the peers
        Bytes unexpected_most = kGiB; // bound on memory for unexpected messages
        TransferEngine::Options transfers;
    };

    // `fabrics`: the range of rails of each fabric. A peer's rails belong to one fabric.
    Protocol(const Options& options, RailList rails, std::span<const RailRange> fabrics,
             ConnectionManager& connections, Counters& counters, ProtocolListener& listener);
    ~Protocol();

    // --- Calls of the user -----------------------------------------------------------------------
    // Sets `complete` to true if the request ended within the call; completed() does not return it.
    Status send(Peer* peer, const Envelope& envelope, const Data& data, bool synchronous,
                OpKind op_kind, UserRequest& user, bool& complete);
    // Fast path for the most frequent case: a contiguous eager message for which the peer's ring
    // has room now. Returns false if nothing was sent; the caller then calls send().
    [[gnu::always_inline]] static bool try_send(Peer& peer, const Envelope& envelope,
                                                const void* base, Bytes bytes) {
        return bytes < peer.out.try_send_below &&
               (store_in_ring(peer, envelope, base, bytes) ||
                put_in_ring(peer, envelope.context, envelope.source, envelope.tag, base, bytes));
    }
    static bool try_send(Peer& peer, const Envelope& envelope, const Data& data) {
        return data.base != nullptr && try_send(peer, envelope, data.base, data.bytes);
    }
    // Same for a longer message; may time the copy into the ring.
    bool send_timed(Peer& peer, const Envelope& envelope, const Data& data);
    // `from`: the sender, if known. The receive ends with an error when that peer is lost.
    [[gnu::always_inline]] Status receive(const Envelope& pattern, const Data& data,
                                          UserRequest& user, bool& complete, Peer* from = nullptr) {
        if (UnexpectedMessage* found = matcher_.take(pattern); found != nullptr) {
            return receive_taken(*static_cast<InboundMessage*>(found), data, user, complete);
        }
        complete = false;
        ReceiveRequest& request = make_receive(user, pattern, data, from);
        matcher_.queue(request);
        if (back_pressure_.restrains()) [[unlikely]] {
            back_pressure_.on_wanted(from);
        }
        if (from != nullptr && from->session.state == ConnectState::failed) [[unlikely]] {
            return refuse_receive(*from, request);
        }
        return kOk;
    }
    // Returns true if the peer is lost: nothing will come from it any more. The first such call
    // reports the failure to the user, unless that was done before.
    bool is_lost(Peer& peer);
    // Probes. `from`: the sender; null: any source. Return null if there is no such message.
    InboundMessage* find(const Envelope& pattern, Peer* from = nullptr);
    InboundMessage* take(const Envelope& pattern, Peer* from = nullptr);
    [[gnu::always_inline]] Status receive_taken(InboundMessage& message, const Data& data,
                                                UserRequest& user, bool& complete) {
        complete = deliver_now(message, data.base, data.bytes, user);
        if (!complete) [[unlikely]] {
            complete =
                consume_now(message, Data(data), user); // a copy, so `data` stays in registers
        }
        return kOk;
    }
    bool cancel(UserRequest& user);
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

    TransferEngine& transfers() { return transfers_; }
    SendFlow& flow() { return flow_; }
    CompletedList& completed() { return completions_.list(); }

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
        on_eager(peer, envelope, body, length);
        order_.end_turn(peer);
    }
    [[gnu::always_inline]] void on_active_in_turn(Peer& peer, std::uint8_t tag,
                                                  const std::byte* body, Bytes length) {
        ArrivalOrder::begin_turn(peer);
        active_.on_active(peer, tag, body, length);
        order_.end_turn(peer);
    }
    void on_interrupted(Peer& peer); // nothing can be sent until on_connected or on_unconnected
    void on_connected(Peer& peer);
    void on_unconnected(Peer& peer); // no connection for now
    void on_torn_down(Peer& peer);
    void on_peer_failed(Peer& peer, const std::string& what) override;
    // Returns true if something of this process waits for the peer, besides disconnect messages.
    bool needs(const Peer& peer) const;
    // Drops disconnect messages to a peer that is gone. REQUIRES: !needs(peer).
    void drop_disconnects(Peer& peer) { fail_pending(peer); }
    // Reports the failure to the user, once. REQUIRES: the peer has failed.
    void report_peer_failure(Peer& peer) override;
    // Drops all posted receives; their completion functions are not called.
    void drop_receives();
    bool has_posted_receives() const { return matcher_.posted() > 0; }
    // Returns true while requests of tagged messages to or from the peer are under way: sends that
    // are not complete, and matched receives.
    bool has_messages_of(const Peer& peer) const;
    // Calls f for each peer that an operation waits for: for a reply, or for a message from that
    // source. May visit a peer more than once.
    void for_each_awaited(const std::function<void(const Peer&)>& f) const;
    // Bound on the number of requests that for_each_awaited() looks at.
    std::size_t awaited() const {
        return matcher_.posted() + rendezvous_.sends() + rendezvous_.receives() +
               waiting_acks_.size() + one_sided_.atomics().under_way();
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
    StagingPool& staging(const Peer& peer) override {
        return memory_.staging(peer.contact.route.fabric);
    }
    const Registration* registered(const Peer& peer, RegistrationCache::Use& own, void* address,
                                   Bytes length, std::uint32_t access) override {
        return memory_.registered(peer.contact.route.fabric, own, address, length, access);
    }

    static MessageHeader eager_header(const Envelope& envelope, Bytes bytes) {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = static_cast<std::uint32_t>(bytes);
        header.context = envelope.context;
        header.source = envelope.source;
        header.tag = envelope.tag;
        return header;
    }
    // Both *_in_ring functions return false if nothing was sent: something has to go first, or there
    // is no room now. store_in_ring is cheap, and also refuses longer messages (kRetainedFrom) and
    // whatever needs more than a look at the cursor. put_in_ring asks in full: it reads the reader's
    // count, goes on to another lap, and posts. Another attempt right after it is in vain.
    [[gnu::always_inline]] static bool store_in_ring(Peer& peer, const Envelope& envelope,
                                                     const void* base, Bytes bytes) {
        if (bytes >= kRetainedFrom || !peer.flows(bytes)) [[unlikely]] {
            return false;
        }
        MessageHeader header = eager_header(envelope, bytes);
        return peer.store_in_ring(header, [&](std::byte* to) { copy_small(to, base, bytes); });
    }
    // Takes the envelope in pieces, so that callers on the fast path need not build it in memory.
    static bool put_in_ring(Peer& peer, std::uint32_t context, std::int32_t source,
                            std::int32_t tag, const void* base, Bytes bytes);

    // restrained.cc
    void on_allowance(Peer& peer, std::uint8_t flags);
    InboundMessage* found_or_wanted(UnexpectedMessage* found, Peer* from);
    void on_allowed(Peer& peer, Allowance allowance) override;
    Allowance least_for(const Peer& peer) const override;
    // May send to any peer, and fail it. REQUIRES: nothing is reserved, and the caller is through
    // with its own message.
    void on_own_send_waits() {
        if (back_pressure_.restrains()) [[unlikely]] {
            back_pressure_.release_all();
        }
    }
    std::string no_memory_text(const Peer& peer, Bytes bytes) const;

    // send.cc
    Status start_send(SendRequest& request, bool& complete);
    bool transmit(SendRequest& request);
    bool transmit_eager(SendRequest& request);
    bool send_pending(PendingSend& send) override;
    void note_sent(Peer& peer) override;

    // completion of requests
    // `failure`: SUCCESS, or the status of a receive that did not get its data.
    void complete_receive(ReceiveRequest& request, const Envelope& envelope, Bytes message_bytes,
                          Bytes received, int failure);

    // arrival.cc
    void dispatch(Peer& peer, const MessageHeader& header, const std::byte* body) override;

    // eager.cc
    [[gnu::always_inline]] void on_eager(Peer& peer, const Envelope& envelope,
                                         const std::byte* payload, Bytes length) {
        if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
            deliver_eager(*static_cast<ReceiveRequest*>(posted), envelope, payload, length);
        } else {
            keep(peer, envelope.context, envelope.source, envelope.tag, payload, length);
        }
    }
    void on_eager_sync(Peer& peer, const MessageHeader& header, const std::byte* body);
    [[gnu::always_inline]] void deliver_eager(ReceiveRequest& request, const Envelope& envelope,
                                              const std::byte* payload, Bytes length) {
        if (request.data.base == nullptr || length > request.data.bytes) [[unlikely]] {
            deliver_part(request, envelope, payload, length);
            return;
        }
        UserRequest& user = request.user();
        fill(user, request.data.base, envelope, payload, length);
        completions_.complete(user, OPAL_COMMON_ADAPTIB_SUCCESS, length);
    }
    [[gnu::always_inline]] static void fill(UserRequest& user, void* base, const Envelope& envelope,
                                            const std::byte* payload, Bytes length) {
        copy_small(base, payload, length);
        user.source = envelope.source;
        user.tag = envelope.tag;
    }
    void deliver_part(ReceiveRequest& request, const Envelope& envelope, const std::byte* payload,
                      Bytes length);
    void queue_unexpected(Peer& peer, InboundMessage& message);
    InboundMessage* keep(Peer& peer, std::uint32_t context, std::int32_t source, std::int32_t tag,
                         const std::byte* payload, Bytes length);
    void on_sync_ack(Peer& peer, const IdBody& body);

    // receive.cc
    bool deliver_now(InboundMessage& message, void* base, Bytes room, UserRequest& user);
    bool consume_now(InboundMessage& message, const Data& data, UserRequest& user);
    Status refuse_receive(Peer& peer, ReceiveRequest& request);
    void consume(InboundMessage& message, ReceiveRequest& request);
    InboundMessage* store(const Envelope& envelope, Bytes length, Bytes stored);
    void discard(InboundMessage& message);

    // rts.cc
    bool transmit_rendezvous(SendRequest& request);
    void on_rendezvous(Peer& peer, const MessageHeader& header, const RendezvousBody& body);
    void accept(Peer& peer, const Envelope& envelope, const RendezvousBody& source,
                ReceiveRequest& request);
    std::span<std::byte> data_of_send(const Peer& peer, std::uint64_t send_id) const override;
    bool read_at_once(Peer& peer, const RendezvousBody& source, void* to, Bytes wanted);

    // disconnects.h
    void on_peer_disconnected(Peer& peer) override { listener_.on_peer_disconnected(peer); }
    void start_held(Peer& peer) override;

    // of transfer_engine.h, send_flow.h and rendezvous.h
    void want_connection(Peer& peer) override { connections_.request(peer); }
    void on_failure(const std::string& text) override { listener_.on_failure(text); }
    void on_sent(SendRequest& request, bool failed) override {
        completions_.complete(
            *request.user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
            failed ? 0 : request.data.bytes);
    }
    void on_received(ReceiveRequest& request, Bytes message_bytes, Bytes received,
                     int failure) override {
        complete_receive(request, request.envelope, message_bytes, received, failure);
    }
    bool leaves(Peer& peer) override { return listener_.leaves(peer); }
    void on_flushed(Peer& peer) override { disconnects_.end_if_over(peer); }
    void want_repair(Peer& peer) override { connections_.repairs().begin(peer); }
    void on_control_lane(Peer& peer, std::uint32_t lane) override {
        connections_.migrate_control_lane(peer, lane);
    }

    // of one_sided_operations.h
    void send_atomic_message(Peer& peer, MessageType type, const void* body,
                             std::size_t size) override;
    bool long_messages_under_way() const override {
        return rendezvous_.sends() + rendezvous_.receives() > 0;
    }

    // self.cc
    void send_to_self(SendRequest& request);
    void copy_from_self(SendRequest& send, ReceiveRequest& receive);
    Status copy(const Data& from, const Data& to, Bytes length);

    // failure.cc
    void fail_pending(Peer& peer);
    void on_send_lost(SendRequest& request) override;
    void fail_receives(Peer& peer);
    void fail_transfers(Peer& peer);
    bool has_business_with(const Peer& peer) const;

    Options options_;
    RailList rails_;
    ConnectionManager& connections_;
    Counters& counters_;
    ProtocolListener& listener_;
    Matcher matcher_;
    BackPressure back_pressure_;
    BlockPool pool_;
    ArrivalOrder order_;
    ExposedMemory memory_;
    Completions completions_;
    OneSidedOperations one_sided_;
    IdTable<SendRequest> waiting_acks_;
    EagerTuning eager_tuning_;
    TransferEngine transfers_;
    SendFlow flow_;
    ActiveMessages active_;
    Disconnects disconnects_;
    Rendezvous rendezvous_;
};

} // namespace adaptib
