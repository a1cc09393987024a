// SPDX-License-Identifier: BSD-3-Clause
// Protocol: eager, synchronous and rendezvous messages, in order, exactly once; active messages;
// put, get and atomics.
//
// Purpose: turns "send these bytes with this envelope" into messages on a peer's channel, and these
// back into a matched, filled receive. One file of this folder per protocol event:
//
//     timed.cc               active messages that could go two ways (eager_tuning.h)
//     arrival.cc             a message arrives: order, duplicates, dispatch
//     restrained.cc          back-pressure: a peer is told which messages it may send
//     shelved.cc             the record of a waiting operation lies in its request
//     active.cc              active messages
//     one_sided.cc           put, get and atomics
//     region_keys.h          keys of the remote memory; operations that the target refuses
//     emulated_atomics.h     atomics that the target's processor executes
//     copied.cc              one-sided operations on memory that cannot be registered
//     failure.cc             a peer is lost; disconnect from a released peer
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
//     ring_sends.h           the fast path of tagged sends
//     message_sends.h        sends that need a request
//     tagged_receives.h      receives, and the tagged messages that arrive for them
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
#include "memory/block_pool.h"
#include "memory/exposed_memory.h"
#include "memory/staging.h"
#include "protocol/completions.h"
#include "protocol/count_rma.h"
#include "protocol/eager_tuning.h"
#include "protocol/emulated_atomics.h"
#include "protocol/flush.h"
#include "protocol/intranode/rma_target.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/message_sends.h"
#include "protocol/one_sided.h"
#include "protocol/region_keys.h"
#include "protocol/rendezvous.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "protocol/tagged_receives.h"
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

class Protocol final : TaggedReceivesListener,
                       MessageSendsListener,
                       RmaTargetListener,
                       EmulatedAtomicsListener,
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
    // Returns true if the peer is lost: nothing will come from it any more. The first such call
    // reports the failure to the user, unless that was done before.
    bool is_lost(Peer& peer);
    // Sets `complete` to true if the request ended within the call; completed() does not return it.
    // Errors: bad_argument if longer than active_max(), unreachable.
    Status send_active(Peer& peer, std::uint8_t tag, const Data& data, UserRequest& user,
                       bool& complete);
    // As RingSends::try_send, for an active message in two pieces. The second piece may be empty.
    [[gnu::always_inline]] static bool try_send_active(Peer& peer, std::uint8_t tag,
                                                       const void* first, Bytes first_bytes,
                                                       const void* second, Bytes second_bytes) {
        const Bytes bytes = first_bytes + second_bytes;
        return bytes <= peer.out.try_send_active_max &&
               (store_active_in_ring(peer, tag, first, first_bytes, second, second_bytes) ||
                put_active_in_ring(peer, tag, first, first_bytes, second, second_bytes));
    }
    // Same for a longer message; may time the copy into the ring.
    bool send_active_timed(Peer& peer, std::uint8_t tag, const void* first, Bytes first_bytes,
                           const void* second, Bytes second_bytes);
    Bytes active_max() const { return active_max_; }
    // Learns which messages go through the ring; on_active_declined(), active_eager().
    EagerTuning& eager_tuning() { return eager_tuning_; }
    // Called with each active message that arrives. Null: active messages count as bad packets.
    using ActiveHandler = void (*)(void* context, Peer& peer, std::uint8_t tag,
                                   const std::byte* payload, Bytes length);
    void listen(ActiveHandler handler, void* context) {
        active_handler_ = handler;
        active_context_ = context;
    }
    // Memory of this process: registration, windows, memory that its user has lent.
    ExposedMemory& memory() { return memory_; }
    // Returns the access to publish for memory registered with `access`: adds whether initiators
    // have to ask this process for atomics.
    std::uint32_t advertised_access(std::uint32_t access) const {
        const bool emulated =
            (access & OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC) != 0 && options_.serves_atomics;
        return access | (emulated ? +OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED : 0u);
    }
    // If `region` is null, `local` is registered for the operation, or copied through staging
    // memory if it cannot be registered.
    // The request ends with BAD_PARAM if the target refuses the operation later.
    // Errors: bad_argument, bad_key, no_memory (try again later), not_supported (no memory to copy
    // through), unreachable.
    Status start_one_sided(Peer& peer, const opal_common_adaptib_one_sided_t& asked,
                           const Registration* region, UserRequest& user, bool& complete);
    // Fast path: the fabric executes the operation within the call, over the only path to the peer.
    // Returns false if the operation is not done; the caller then calls start_one_sided(), which
    // also reports errors.
    bool try_rma(Peer& peer, const opal_common_adaptib_one_sided_t& operation,
                 const Registration* region);
    // Same for a put or get (is_plain()), inlined into its caller: half the cost of such a short
    // operation is the code before its one system call.
    static bool is_plain(const opal_common_adaptib_one_sided_t& operation) {
        return operation.operation == OPAL_COMMON_ADAPTIB_PUT ||
               operation.operation == OPAL_COMMON_ADAPTIB_GET;
    }
    [[gnu::always_inline]] bool try_plain_rma(Peer& peer,
                                              const opal_common_adaptib_one_sided_t& operation,
                                              const Registration* region) {
        const bool put = operation.operation == OPAL_COMMON_ADAPTIB_PUT;
        if (region == nullptr && peer.transfers.whole_memory == nullptr) [[unlikely]] {
            peer.transfers.whole_memory = memory_.whole(peer.contact.route.fabric);
        }
        const Registration* const memory = region != nullptr ? region : peer.transfers.whole_memory;
        if (memory == nullptr ||
            !RegionKeys::allows(operation, put ? OPAL_COMMON_ADAPTIB_REMOTE_WRITE
                                               : OPAL_COMMON_ADAPTIB_REMOTE_READ)) [[unlikely]] {
            return false;
        }
        const auto work = [&] {
            return RmaWork{.opcode = put ? Opcode::write : Opcode::read,
                           .local_key = 0,
                           .local = operation.local,
                           .length = operation.bytes,
                           .remote_address = operation.remote_address,
                           .remote_key = 0,
                           .compare_add = 0,
                           .swap = 0};
        };
        const std::span<const std::uint32_t> keys{operation.remote->keys,
                                                  operation.remote->key_count};
        return synchronous_rma_.put_or_get(peer, operation.bytes, work, *memory, keys);
    }
    // Counts the one-sided operations under way.
    FlushEpochs& flush_epochs() { return flush_epochs_; }
    std::size_t one_sided_outstanding() const { return flush_epochs_.under_way(); }
    void release_peer(Peer& peer);
    void keep_peer(Peer& peer); // undoes release_peer(): the peer is wanted again

    TaggedReceives& receives() { return receives_; }
    MessageSends& sends() { return sends_; }
    TransferEngine& transfers() { return transfers_; }
    SendFlow& flow() { return flow_; }
    CompletedList& completed() { return receives_.completions().list(); }

    // --- Calls of the core -----------------------------------------------------------------------
    // Takes a sequenced message. REQUIRES: it has passed check_message, and stays valid during the
    // call.
    void on_message(Peer& peer, const MessageHeader& header, const std::byte* body) {
        if (!has_its_turn(peer, header.sequence)) [[unlikely]] {
            on_unordered(peer, header, body);
            return;
        }
        ++peer.in.next_receive;
        dispatch(peer, header, body);
        if (peer.in.early != nullptr) [[unlikely]] {
            run_early(peer);
        }
    }
    static bool has_its_turn(const Peer& peer, std::uint32_t sequence) {
        return sequence == peer.in.next_receive && !peer.in.teardown_pending && !peer.in.unheard;
    }
    // Same for the two most frequent types. REQUIRES: has_its_turn().
    [[gnu::always_inline]] void on_eager_in_turn(Peer& peer, const Envelope& envelope,
                                                 const std::byte* body, Bytes length) {
        ++peer.in.next_receive;
        receives_.on_eager(peer, envelope, body, length);
        if (peer.in.early != nullptr) [[unlikely]] {
            run_early(peer);
        }
    }
    [[gnu::always_inline]] void on_active_in_turn(Peer& peer, std::uint8_t tag,
                                                  const std::byte* body, Bytes length) {
        ++peer.in.next_receive;
        on_active(peer, tag, body, length);
        if (peer.in.early != nullptr) [[unlikely]] {
            run_early(peer);
        }
    }
    void on_interrupted(Peer& peer); // nothing can be sent until on_connected or on_unconnected
    void on_connected(Peer& peer);
    void on_unconnected(Peer& peer); // no connection for now
    void on_torn_down(Peer& peer);
    void on_peer_failed(Peer& peer, const std::string& what) override;
    // Returns true if something of this process waits for the peer, besides disconnect messages.
    bool needs(const Peer& peer) const;
    // Returns true if the user may wait for an active message of the peer: both have exchanged
    // messages, and neither has begun to disconnect. The protocol does not know of such a wait.
    bool may_await_active(const Peer& peer) const {
        return active_handler_ != nullptr && peer.messages() > 0 && !peer.ending.released &&
               !peer.ending.disconnect_received;
    }
    // Drops disconnect messages to a peer that is gone. REQUIRES: !needs(peer).
    void drop_disconnects(Peer& peer) { sends_.fail(peer); }
    // Reports the failure to the user, once. REQUIRES: the peer has failed.
    void report_peer_failure(Peer& peer) override;
    // Calls f for each peer that an operation waits for: for a reply, or for a message from that
    // source. May visit a peer more than once.
    void for_each_awaited(const std::function<void(const Peer&)>& f) const;
    // Bound on the number of requests that for_each_awaited() looks at.
    std::size_t awaited() const {
        return receives_.posted() + rendezvous_.sends() + rendezvous_.receives() +
               sends_.waiting_acks() + emulated_atomics_.under_way();
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

    friend struct OneSided;
    friend struct CopiedOneSided;

    static MessageHeader active_header(std::uint8_t tag, Bytes bytes) {
        MessageHeader header;
        header.type = MessageType::active;
        header.flags = tag;
        header.length = static_cast<std::uint32_t>(bytes);
        return header;
    }
    // Both *_in_ring functions return false if nothing was sent: there is no room now, or something
    // has to go first. store_* is the fast path, and also refuses for other reasons.
    [[gnu::always_inline]] static bool store_active_in_ring(Peer& peer, std::uint8_t tag,
                                                            const void* first, Bytes first_bytes,
                                                            const void* second,
                                                            Bytes second_bytes) {
        const Bytes bytes = first_bytes + second_bytes;
        if (bytes >= kRetainedFrom || !peer.flows(bytes)) [[unlikely]] {
            return false;
        }
        MessageHeader header = active_header(tag, bytes);
        return peer.store_in_ring(header, [&](std::byte* to) {
            copy_small(to, first, first_bytes);
            copy_small(to + first_bytes, second, second_bytes);
        });
    }
    static bool put_active_in_ring(Peer& peer, std::uint8_t tag, const void* first,
                                   Bytes first_bytes, const void* second, Bytes second_bytes);

    // restrained.cc
    void on_allowed(Peer& peer, Allowance allowance) override;
    Allowance least_for(const Peer& peer) const override;

    // arrival.cc
    void on_unordered(Peer& peer, const MessageHeader& header, const std::byte* body);
    void dispatch(Peer& peer, const MessageHeader& header, const std::byte* body);
    void store_early(Peer& peer, const MessageHeader& header, const std::byte* body);
    void run_early(Peer& peer);

    std::span<std::byte> data_of_send(const Peer& peer, std::uint64_t send_id) const override;

    // shelved.cc
    WaitingTransfer& shelve(OneSided& operation);
    Transfer* unshelve(Peer& peer, WaitingTransfer& record) override;
    void fail_shelved(Peer& peer, WaitingTransfer& record) override;
    void forget_waiting(Peer& peer);

    // of transfer_engine.h, send_flow.h and rendezvous.h
    bool send_pending(PendingSend& send) override;
    void on_send_lost(SendRequest& request) override { sends_.on_lost(request); }
    void want_connection(Peer& peer) override { connections_.request(peer); }
    void on_failure(const std::string& text) override { listener_.on_failure(text); }
    void on_sent(SendRequest& request, bool failed) override {
        completions_.complete(
            *request.user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
            failed ? 0 : request.data.bytes);
    }
    void on_received(ReceiveRequest& request, Bytes message_bytes, Bytes received,
                     int failure) override {
        receives_.complete_receive(request, request.envelope, message_bytes, received, failure);
    }
    bool leaves(Peer& peer) override { return listener_.leaves(peer); }
    void on_flushed(Peer& peer) override { tear_down_if_disconnected(peer); }
    void want_repair(Peer& peer) override { connections_.repairs().begin(peer); }
    void on_control_lane(Peer& peer, std::uint32_t lane) override {
        connections_.migrate_control_lane(peer, lane);
    }
    bool find_keys(Transfer& transfer) override {
        return region_keys_.find(transfer.peer, transfer.rma);
    }
    void refuse(Transfer& transfer) override { region_keys_.refuse(transfer.peer, transfer.rma); }

    // active.cc
    bool transmit_parts(SendRequest& request) override;
    void on_active_part(Peer& peer, const MessageHeader& header, const std::byte* body);
    void on_active(Peer& peer, std::uint8_t tag, const std::byte* body, Bytes length) {
        if (active_handler_ != nullptr && peer.in.parts.empty()) [[likely]] {
            active_handler_(active_context_, peer, tag, body, length);
        } else {
            on_active_end(peer, tag, body, length);
        }
    }
    void on_active_end(Peer& peer, std::uint8_t tag, const std::byte* body, Bytes length);

    // one_sided.cc
    void on_one_sided_done(OneSided& operation);

    // emulated_atomics.h
    void send_atomic_message(Peer& peer, MessageType type, const void* body,
                             std::size_t size) override;

    // copied.cc
    Status start_copied(Peer& peer, const opal_common_adaptib_one_sided_t& operation, Opcode opcode,
                        UserRequest& user, bool& complete);
    void start_copied_block(CopiedOneSided& operation);
    void on_copied_block(CopiedOneSided& operation);

    // failure.cc
    void fail_transfers(Peer& peer);
    bool has_business_with(const Peer& peer) const;
    void go_on(Peer& peer);
    void tear_down_if_disconnected(Peer& peer);
    void on_disconnect(Peer& peer, std::uint8_t flags, const IdBody& body);

    Options options_;
    RailList rails_;
    ConnectionManager& connections_;
    Counters& counters_;
    ProtocolListener& listener_;
    TaggedReceives receives_;
    BlockPool& pool_; // of receives_
    ExposedMemory memory_;
    RmaTarget rma_target_;
    SynchronousRma synchronous_rma_;
    RegionKeys region_keys_;
    Completions& completions_; // of receives_
    IdTable<OneSided> one_sided_;
    FlushEpochs flush_epochs_;
    IdTable<CopiedOneSided> copied_;
    EmulatedAtomics emulated_atomics_;
    Bytes active_max_;
    EagerTuning eager_tuning_;
    MessageSends sends_;
    ActiveHandler active_handler_ = nullptr;
    void* active_context_ = nullptr;
    TransferEngine transfers_;
    SendFlow flow_;
    Rendezvous rendezvous_;
    std::vector<std::byte> fragment_; // scratch of transmit_parts
};

} // namespace adaptib
