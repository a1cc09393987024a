// SPDX-License-Identifier: BSD-3-Clause
// Receives that take a message which has arrived already; probes; cancel.
#include "protocol/protocol.h"

namespace adaptib {

namespace {

// Longest payload that fits a quick block of the pool.
constexpr Bytes kShortStored = BlockPool::kQuickBlock - sizeof(InboundMessage);

} // namespace

// Gives a new receive an eager message that fits, without making the receive a request. Returns
// false if the caller has to call consume_now().
bool Protocol::deliver_now(InboundMessage& message, void* base, Bytes room, UserRequest& user) {
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

// Same for any message. Returns true if the receive is complete.
bool Protocol::consume_now(InboundMessage& message, const Data& data, UserRequest& user) {
    completions_.begin(user);
    consume(message, make_receive(user, message.envelope, data, nullptr));
    return completions_.end();
}

// Refuses a receive whose sender is lost.
Status Protocol::refuse_receive(Peer& peer, ReceiveRequest& request) {
    matcher_.cancel(request);
    report_peer_failure(peer);
    return Status::error(Reason::unreachable);
}

bool Protocol::is_lost(Peer& peer) {
    if (peer.session.state != ConnectState::failed) [[likely]] {
        return false;
    }
    report_peer_failure(peer);
    return true;
}

InboundMessage* Protocol::find(const Envelope& pattern, Peer* from) {
    return found_or_wanted(matcher_.find(pattern), from);
}

InboundMessage* Protocol::take(const Envelope& pattern, Peer* from) {
    return found_or_wanted(matcher_.take(pattern), from);
}

// Gives the message to the receive, and discards its record.
void Protocol::consume(InboundMessage& message, ReceiveRequest& request) {
    if (message.type == MessageType::none) {
        copy_from_self(*message.own, request);
    } else if (message.type == MessageType::rendezvous) {
        accept(*message.peer, message.envelope, message.announced(), request);
    } else {
        deliver_eager(request, message.envelope, message.payload(), message.length);
        if (message.type == MessageType::eager_sync) {
            const IdBody body{message.send_id};
            flow_.send_control(*message.peer, MessageType::sync_ack, &body, sizeof body);
        }
    }
    discard(message);
}

InboundMessage* Protocol::store(const Envelope& envelope, Bytes length, Bytes stored) {
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

void Protocol::discard(InboundMessage& message) {
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

void Protocol::update_levels() {
    counters_.unexpected_now = matcher_.unexpected();
    counters_.unexpected_bytes = back_pressure_.bytes();
    counters_.posted_now = matcher_.posted();
    memory_.settle();
}

bool Protocol::cancel(UserRequest& user) {
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

} // namespace adaptib
