// SPDX-License-Identifier: BSD-3-Clause
// TaggedReceives: receives, and the tagged messages that arrive for them.
//
// Purpose: matches arriving messages with posted receives, delivers their data, and keeps
// unexpected messages, for which no receive is posted yet, within the bound of their memory
// (back_pressure.h). Messages of the process to itself are matched here, too. The data of an
// announced message is fetched by Rendezvous, which the owner hands its messages.
//
// Invariants
//   1. An unexpected message is in the matcher until a receive takes it, or a matched probe, whose
//      user then gives it to receive_taken().
//   2. A peer that fails ends the posted receives that can only be its (`from`).
// Ownership: the records of unexpected messages are TaggedReceives's, from its pool, which others
// may use, too; requests are the user's until Completions reports them. Pool and Completions lie
// here, by value, since each receive uses them.
// Threads: one at a time (the core's lock).
// May touch: base/, match/, memory/, peer/, stats/, protocol/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/copy.h"
#include "base/data.h"
#include "base/status.h"
#include "base/wire.h"
#include "match/match.h"
#include "memory/block_pool.h"
#include "memory/exposed_memory.h"
#include "peer/peer.h"
#include "protocol/back_pressure.h"
#include "protocol/completions.h"
#include "protocol/intranode/synchronous_rma.h"
#include "protocol/lost_peers.h"
#include "protocol/rendezvous.h"
#include "protocol/request.h"
#include "protocol/send_flow.h"
#include "stats/counters.h"
#include "stats/trace.h"

namespace adaptib {

class TaggedReceives final {
public:
    struct Options {
        Bytes eager_limit = 0;        // for messages of this process to itself
        Bytes unexpected_most = kGiB; // bound on memory for unexpected messages
        bool put = false;             // the sender writes announced data, where it can
    };
    // Used by calls only: they need not be constructed yet.
    struct Parts {
        SendFlow& flow;
        Rendezvous& rendezvous;
        ExposedMemory& memory;
        SynchronousRma& synchronous; // reads announced data within the call, if the fabric can
    };
    TaggedReceives(const Options& options, const Parts& parts, LostPeers& lost, Counters& counters)
        : back_pressure_(options.unexpected_most, parts.flow, counters), options_(options),
          parts_(parts), lost_(lost), counters_(counters), trace_(counters.trace) {}
    ~TaggedReceives(); // destroys messages that the user never received
    TaggedReceives(const TaggedReceives&) = delete;
    TaggedReceives& operator=(const TaggedReceives&) = delete;

    // --- Calls of the user -----------------------------------------------------------------------
    // Sets `complete` to true if the request ended within the call, and `ends_own`, if not null, to
    // true if that ended a send of this process, too. `from`: the sender, if known. The receive
    // ends with an error when that peer is lost.
    [[gnu::always_inline]] Status receive(const Envelope& pattern, const Data& data,
                                          UserRequest& user, bool& complete, Peer* from = nullptr,
                                          bool* ends_own = nullptr) {
        if (UnexpectedMessage* found = matcher_.take(pattern); found != nullptr) {
            return receive_taken(*static_cast<InboundMessage*>(found), data, user, complete,
                                 ends_own);
        }
        complete = false;
        ReceiveRequest& request = make_receive(user, pattern, data, from);
        matcher_.queue(request);
        if (back_pressure_.restrains()) [[unlikely]] {
            back_pressure_.on_wanted(from);
        }
        if (from != nullptr && from->session.lost()) [[unlikely]] {
            return refuse_receive(*from, request);
        }
        return kOk;
    }
    // Probes. `from`: the sender; null: any source. Return null if there is no such message.
    InboundMessage* find(const Envelope& pattern, Peer* from = nullptr);
    InboundMessage* take(const Envelope& pattern, Peer* from = nullptr);
    [[gnu::always_inline]] Status receive_taken(InboundMessage& message, const Data& data,
                                                UserRequest& user, bool& complete,
                                                bool* ends_own = nullptr) {
        complete = deliver_now(message, data.base, data.bytes, user);
        if (!complete) [[unlikely]] {
            // A copy, so `data` stays in registers
            const Consumed consumed = consume_now(message, Data(data), user);
            complete = consumed != Consumed::waits;
            if (ends_own != nullptr) {
                *ends_own = consumed == Consumed::ends_own;
            }
        }
        return kOk;
    }
    bool cancel(UserRequest& user);
    // Ends the messages that have arrived with the context: nobody will receive them. To their
    // senders they are received.
    void end_context(std::uint32_t context);

    // --- Messages. REQUIRES: those of peers have passed check_message ----------------------------
    [[gnu::always_inline]] void on_eager(Peer& peer, const Envelope& envelope,
                                         const std::byte* payload, Bytes length) {
        note_event(trace_, TraceKind::message_arrived,
                   {.peer = peer.contact.name, .value = length});
        if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
            deliver_eager(*static_cast<ReceiveRequest*>(posted), envelope, payload, length);
        } else {
            keep(peer, envelope.context, envelope.source, envelope.tag, payload, length);
        }
    }
    void on_eager_sync(Peer& peer, const MessageHeader& header, const std::byte* body);
    void on_rendezvous(Peer& peer, const MessageHeader& header, const RendezvousBody& body);
    // Takes a message of this process to itself. Ends the request, or keeps it until it is matched.
    void send_to_self(SendRequest& request);

    // Ends posted receives whose sender is known to be this peer. REQUIRES: the peer has failed.
    void fail(Peer& peer);
    // Drops all posted receives; their completion functions are not called.
    void drop_receives();

    std::size_t posted() const { return matcher_.posted(); }
    // Calls f for the sender of each posted receive, if it is known. May visit a peer more than
    // once.
    void for_each_sender(const std::function<void(const Peer&)>& f) const;
    // Returns true if a posted receive may be for a message of the peer.
    bool may_await(const Peer& peer) const;
    // Returns true if messages of the peer are kept.
    bool keeps_messages_of(const Peer& peer) const;
    void update_levels();

    Completions& completions() { return completions_; }
    BackPressure& back_pressure() { return back_pressure_; }
    BlockPool& pool() { return pool_; }

private:
    bool deliver_now(InboundMessage& message, void* base, Bytes room, UserRequest& user);
    enum class Consumed : std::uint8_t { waits, complete, ends_own };
    Consumed consume_now(InboundMessage& message, const Data& data, UserRequest& user);
    Status refuse_receive(Peer& peer, ReceiveRequest& request);
    void consume(InboundMessage& message, ReceiveRequest& request);
    InboundMessage* store(const Envelope& envelope, Bytes length, Bytes stored);
    void discard(InboundMessage& message);
    InboundMessage* found_or_wanted(UnexpectedMessage* found, Peer* from);
    void queue_unexpected(Peer& peer, InboundMessage& message);
    Allowance least_for(const Peer& peer) const;
    std::string no_memory_text(const Peer& peer, Bytes bytes) const;

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
    InboundMessage* keep(Peer& peer, std::uint32_t context, std::int32_t source, std::int32_t tag,
                         const std::byte* payload, Bytes length);

    bool read_at_once(Peer& peer, const RendezvousBody& source, void* to, Bytes wanted);
    void accept(Peer& peer, const Envelope& envelope, const RendezvousBody& source,
                ReceiveRequest& request);

    void copy_from_self(SendRequest& send, ReceiveRequest& receive);

    // The matcher is first, so that the fast paths need one address for both.
    Matcher matcher_;
    BackPressure back_pressure_;
    Completions completions_;
    const Options options_;
    const Parts parts_;
    LostPeers& lost_;
    Counters& counters_;
    Trace* const trace_; // of counters_
    BlockPool pool_;
};

} // namespace adaptib
