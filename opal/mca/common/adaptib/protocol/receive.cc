// SPDX-License-Identifier: BSD-3-Clause
// Receives that take a message which has arrived already; probes; cancel.
#include <new>
#include <vector>

#include "protocol/tagged_receives.h"

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

} // namespace adaptib
