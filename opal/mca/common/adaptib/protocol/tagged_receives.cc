// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/tagged_receives.h"

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "base/copy.h"

namespace adaptib {

namespace {

// Longest payload that fits a quick block of the pool.
constexpr Bytes kShortStored = BlockPool::kQuickBlock - sizeof(InboundMessage);

} // namespace

TaggedReceives::~TaggedReceives() {
    std::vector<InboundMessage*> left;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        left.push_back(static_cast<InboundMessage*>(&message));
    });
    for (InboundMessage* message : left) {
        matcher_.remove(*message);
        message->peer = nullptr; // the peer may be gone
        discard(*message);
    }
}

// Gives a new receive an eager message that fits, without making the receive a request. Returns
// false if the caller has to call consume_now().
bool TaggedReceives::deliver_now(InboundMessage& message, void* base, Bytes room,
                                 UserRequest& user) {
    if (message.type != MessageType::eager || base == nullptr || message.length > room)
        [[unlikely]] {
        return false;
    }
    fill(user, base, message.envelope, message.payload(), message.length);
    user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
    user.bytes = message.length;
    user.kind = static_cast<std::uint32_t>(RequestKind::over);
    discard(message);
    return true;
}

// Same for any message. ends_own: the receive is complete, and so is a send of this process.
TaggedReceives::Consumed TaggedReceives::consume_now(InboundMessage& message, const Data& data,
                                                     UserRequest& user) {
    const bool own = message.type == MessageType::none;
    completions_.begin(user);
    consume(message, make_receive(user, message.envelope, data, nullptr));
    return !completions_.end() ? Consumed::waits : own ? Consumed::ends_own : Consumed::complete;
}

// Refuses a receive whose sender is lost.
Status TaggedReceives::refuse_receive(Peer& peer, ReceiveRequest& request) {
    matcher_.cancel(request);
    lost_.report(peer);
    return Status::error(Reason::unreachable);
}

InboundMessage* TaggedReceives::find(const Envelope& pattern, Peer* from) {
    return found_or_wanted(matcher_.find(pattern), from);
}

InboundMessage* TaggedReceives::take(const Envelope& pattern, Peer* from) {
    return found_or_wanted(matcher_.take(pattern), from);
}

void TaggedReceives::end_context(std::uint32_t context) {
    std::vector<InboundMessage*> left;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        if (message.envelope.context == context) {
            left.push_back(static_cast<InboundMessage*>(&message));
        }
    });
    for (InboundMessage* message : left) {
        UserRequest nobody;
        matcher_.remove(*message);
        consume_now(*message, {}, nobody); // a receive of no bytes is complete at once
    }
}

// Gives the message to the receive, and discards its record.
void TaggedReceives::consume(InboundMessage& message, ReceiveRequest& request) {
    if (message.type == MessageType::none) {
        copy_from_self(*message.own, request);
    } else if (message.type == MessageType::rendezvous) {
        accept(*message.peer, message.envelope, message.announced(), request);
    } else {
        deliver_eager(request, message.envelope, message.payload(), message.length);
        if (message.type == MessageType::eager_sync) {
            const IdBody body{message.send_id};
            parts_.flow.send_control(*message.peer, MessageType::sync_ack, &body, sizeof body);
        }
    }
    discard(message);
}

InboundMessage* TaggedReceives::store(const Envelope& envelope, Bytes length, Bytes stored) {
    const bool is_short = stored <= kShortStored;
    void* memory =
        is_short ? pool_.allocate_quick() : pool_.allocate(sizeof(InboundMessage) + stored);
    if (memory == nullptr) {
        return nullptr;
    }
    auto* message = new (memory) InboundMessage(envelope, length);
    message->stored = stored;
    ++counters_.unexpected;
    return message;
}

void TaggedReceives::discard(InboundMessage& message) {
    const Bytes size = message.size();
    if (message.peer != nullptr) {
        back_pressure_.on_received(*message.peer, BlockPool::block_bytes(size));
    }
    const bool is_short = message.stored <= kShortStored;
    message.~InboundMessage();
    if (is_short) {
        pool_.release_quick(&message);
    } else {
        pool_.release(&message, size);
    }
}

// A probe that finds nothing lets in the messages that it may be waiting for.
InboundMessage* TaggedReceives::found_or_wanted(UnexpectedMessage* found, Peer* from) {
    if (found == nullptr && back_pressure_.restrains()) [[unlikely]] {
        back_pressure_.on_wanted(from);
    }
    return static_cast<InboundMessage*>(found);
}

void TaggedReceives::queue_unexpected(Peer& peer, InboundMessage& message) {
    message.peer = &peer;
    note_event(trace_, TraceKind::message_unexpected,
               {.peer = peer.contact.name, .value = message.length});
    matcher_.add_unexpected(message);
    back_pressure_.on_kept(peer, BlockPool::block_bytes(message.size()),
                           [&] { return least_for(peer); });
}

// Returns the least allowance to give a peer whose messages take too much memory.
Allowance TaggedReceives::least_for(const Peer& peer) const {
    const bool own_wait = parts_.rendezvous.sends() > 0 || parts_.flow.any_wait();
    if (own_wait || peer.session.disconnect_sent) { // nothing follows a disconnect
        return Allowance::all;
    }
    return may_await(peer) ? Allowance::announcements : Allowance::nothing;
}

std::string TaggedReceives::no_memory_text(const Peer& peer, Bytes bytes) const {
    return "out of memory for a message of " + std::to_string(bytes) +
           " bytes that no receive was posted for: " + std::to_string(matcher_.unexpected()) +
           " such messages take " + std::to_string(back_pressure_.bytes()) +
           " bytes here, those of this peer alone " + std::to_string(peer.flow.unexpected.bytes) +
           ". Post receives earlier, or lower opal_common_adaptib_unexpected_memory (" +
           std::to_string(back_pressure_.most()) + ")";
}

bool TaggedReceives::may_await(const Peer& peer) const {
    bool waited_for = false;
    matcher_.for_each_posted([&](PostedReceive& posted) {
        const Peer* const from = static_cast<ReceiveRequest&>(posted).from;
        waited_for = waited_for || from == nullptr || from == &peer;
    });
    return waited_for;
}

void TaggedReceives::update_levels() {
    counters_.unexpected_now = matcher_.unexpected();
    counters_.unexpected_bytes = back_pressure_.bytes();
    counters_.posted_now = matcher_.posted();
}

bool TaggedReceives::cancel(UserRequest& user) {
    if (user.kind != static_cast<std::uint32_t>(RequestKind::receive)) {
        return false;
    }
    auto* request = std::launder(reinterpret_cast<ReceiveRequest*>(user.core));
    if (!matcher_.cancel(*request)) {
        return false;
    }
    user.source = request->envelope.source;
    user.tag = request->envelope.tag;
    user.status = OPAL_COMMON_ADAPTIB_CANCELLED;
    user.bytes = 0;
    return true;
}

void TaggedReceives::fail(Peer& peer) {
    std::vector<ReceiveRequest*> lost;
    matcher_.for_each_posted([&](PostedReceive& posted) {
        auto& request = static_cast<ReceiveRequest&>(posted);
        if (request.from == &peer) {
            lost.push_back(&request);
        }
    });
    for (ReceiveRequest* request : lost) {
        matcher_.cancel(*request);
        completions_.complete_receive(*request, request->envelope, 0, 0,
                                      OPAL_COMMON_ADAPTIB_UNREACHABLE);
    }
}

void TaggedReceives::drop_receives() {
    std::vector<PostedReceive*> posted;
    matcher_.for_each_posted([&](PostedReceive& receive) { posted.push_back(&receive); });
    for (PostedReceive* receive : posted) {
        matcher_.cancel(*receive);
    }
}

void TaggedReceives::for_each_sender(const std::function<void(const Peer&)>& f) const {
    matcher_.for_each_posted([&](PostedReceive& posted) {
        if (const Peer* from = static_cast<ReceiveRequest&>(posted).from; from != nullptr) {
            f(*from);
        }
    });
}

bool TaggedReceives::keeps_messages_of(const Peer& peer) const {
    bool found = false;
    matcher_.for_each_unexpected([&](UnexpectedMessage& message) {
        found = found || static_cast<InboundMessage&>(message).peer == &peer;
    });
    return found;
}

// -------------------------------------------------------------------------------------------------
// Eager messages arrive, synchronous or not.

void TaggedReceives::on_eager_sync(Peer& peer, const MessageHeader& header, const std::byte* body) {
    const std::byte* payload = body + sizeof(SyncBody);
    const Bytes length = header.length - sizeof(SyncBody);
    const Envelope envelope{header.context, header.source, header.tag};
    note_event(trace_, TraceKind::message_arrived, {.peer = peer.contact.name, .value = length});
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        deliver_eager(*static_cast<ReceiveRequest*>(posted), envelope, payload, length);
        parts_.flow.send_control(peer, MessageType::sync_ack, body, sizeof(IdBody));
        return;
    }
    InboundMessage* message =
        keep(peer, header.context, header.source, header.tag, payload, length);
    if (message != nullptr) {
        message->type = header.type;
        message->send_id = read_body<SyncBody>(body).send_id;
    }
}

// Keeps a message until its receive is posted. Returns null if there is no memory, which fails the
// peer.
InboundMessage* TaggedReceives::keep(Peer& peer, std::uint32_t context, std::int32_t source,
                                     std::int32_t tag, const std::byte* payload, Bytes length) {
    InboundMessage* message = store({context, source, tag}, length, length);
    if (message == nullptr) {
        lost_.lose(peer, no_memory_text(peer, length));
        return nullptr;
    }
    copy_small(message->payload(), payload, length);
    queue_unexpected(peer, *message);
    return message;
}

// Delivers into a buffer that is not contiguous, or is shorter than the message.
void TaggedReceives::deliver_part(ReceiveRequest& request, const Envelope& envelope,
                                  const std::byte* payload, Bytes length) {
    const Bytes taken = std::min<Bytes>(length, request.data.bytes);
    const bool failed = taken > 0 && !scatter(request.data, 0, payload, taken).ok();
    completions_.complete_receive(request, envelope, length, taken,
                                  failed ? OPAL_COMMON_ADAPTIB_ERROR : OPAL_COMMON_ADAPTIB_SUCCESS);
}

// -------------------------------------------------------------------------------------------------
// An RTS (`rendezvous`) arrives, or is matched (rendezvous.h does the rest).

void TaggedReceives::on_rendezvous(Peer& peer, const MessageHeader& header,
                                   const RendezvousBody& body) {
    const Envelope envelope{header.context, header.source, header.tag};
    if (PostedReceive* posted = matcher_.arrive(envelope); posted != nullptr) {
        accept(peer, envelope, body, *static_cast<ReceiveRequest*>(posted));
        return;
    }
    InboundMessage* message = store(envelope, body.bytes, sizeof body);
    if (message == nullptr) {
        lost_.lose(peer, no_memory_text(peer, sizeof body));
        return;
    }
    message->type = MessageType::rendezvous;
    new (message->payload()) RendezvousBody(body);
    queue_unexpected(peer, *message);
}

bool TaggedReceives::read_at_once(Peer& peer, const RendezvousBody& source, void* to,
                                  Bytes wanted) {
    const Registration* all = parts_.memory.whole(peer.contact.route.fabric);
    if (all == nullptr || source.kind != SourceKind::direct || to == nullptr || options_.put) {
        return false;
    }
    RmaWork work;
    work.opcode = Opcode::read;
    work.local = to;
    work.length = wanted;
    work.remote_address = source.address;
    const std::span<const std::uint32_t> keys{source.keys, source.key_count};
    return parts_.synchronous.read_message(peer, work, *all, keys, source.send_id);
}

void TaggedReceives::accept(Peer& peer, const Envelope& envelope, const RendezvousBody& source,
                            ReceiveRequest& request) {
    const Bytes wanted = std::min<Bytes>(source.bytes, request.data.bytes);
    request.envelope = envelope;
    if (lost_.is_lost(peer)) {
        completions_.complete_receive(request, envelope, source.bytes, 0,
                                      OPAL_COMMON_ADAPTIB_UNREACHABLE);
        return;
    }
    if (wanted == 0 || read_at_once(peer, source, request.data.base, wanted)) {
        const IdBody body{source.send_id};
        parts_.flow.send_control(peer, MessageType::finish, &body, sizeof body);
        note_event(trace_, TraceKind::copied_at_once, {.peer = peer.contact.name, .value = wanted});
        completions_.complete_receive(request, envelope, source.bytes, wanted,
                                      OPAL_COMMON_ADAPTIB_SUCCESS);
        return;
    }
    parts_.rendezvous.receive(peer, source, request, wanted);
}

// -------------------------------------------------------------------------------------------------
// Messages of this process to itself: matched like any other, and copied once; an eager message
// that comes before its receive is copied twice.

namespace {

// Copies in pieces through a buffer, unless one side is contiguous. A packer stops at the end of an
// element, so this function may ask it for bytes beyond `length`.
Status copy(const Data& from, const Data& to, Bytes length) {
    if (from.base != nullptr) {
        return scatter(to, 0, static_cast<const std::byte*>(from.base), length);
    }
    if (to.base != nullptr && length == from.bytes) {
        return gather_all(from, 0, static_cast<std::byte*>(to.base), length);
    }
    std::array<std::byte, 16 * kKiB> buffer;
    for (Bytes offset = 0; offset < length;) {
        const Bytes got = gather_some(from, offset, buffer.data(),
                                      std::min<Bytes>(buffer.size(), from.bytes - offset));
        if (got == 0) {
            return Status::error(Reason::internal);
        }
        const Status status = scatter(to, offset, buffer.data(), std::min(got, length - offset));
        if (!status.ok()) {
            return status;
        }
        offset += got;
    }
    return kOk;
}

} // namespace

void TaggedReceives::send_to_self(SendRequest& request) {
    ++counters_.self_sent;
    counters_.self_sent_bytes += request.data.bytes;
    if (PostedReceive* posted = matcher_.arrive(request.envelope); posted != nullptr) {
        copy_from_self(request, *static_cast<ReceiveRequest*>(posted));
        return;
    }
    const bool copied =
        request.type == MessageType::eager && request.data.bytes <= options_.eager_limit;
    InboundMessage* message =
        store(request.envelope, request.data.bytes, copied ? request.data.bytes : 0);
    if (message == nullptr) {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_NO_MEMORY, 0);
        return;
    }
    if (!copied) {
        message->type = MessageType::none;
        message->own = &request;
    } else if (!gather_all(request.data, 0, message->payload(), request.data.bytes).ok()) {
        discard(*message);
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_ERROR, 0);
        return;
    } else {
        completions_.complete(*request.user, OPAL_COMMON_ADAPTIB_SUCCESS, request.data.bytes);
    }
    matcher_.add_unexpected(*message);
}

// Copies the data, and ends both requests.
void TaggedReceives::copy_from_self(SendRequest& send, ReceiveRequest& receive) {
    const Bytes taken = std::min<Bytes>(send.data.bytes, receive.data.bytes);
    const bool failed = taken > 0 && !copy(send.data, receive.data, taken).ok();
    const int status = failed ? OPAL_COMMON_ADAPTIB_ERROR : OPAL_COMMON_ADAPTIB_SUCCESS;
    completions_.complete_receive(receive, send.envelope, send.data.bytes, taken, status);
    completions_.complete(*send.user, status, send.data.bytes);
}

} // namespace adaptib
