// SPDX-License-Identifier: BSD-3-Clause
// Requests and messages as the protocol sees them.
//
// Purpose: records that lie in the core's words of an opal_common_adaptib_request_t, and records of
// messages that arrived before their receive was posted. None of them needs destruction.
// Ownership: a request's memory is the user's until its completion is reported; an InboundMessage
// belongs to the block pool.
// May touch: base/, match/, memory/, channel/, peer/.
#pragma once

#include <new>

#include "base/data.h"
#include "base/stripe.h"
#include "base/wire.h"
#include "channel/gathered_messages.h"
#include "common_adaptib.h"
#include "match/match.h"
#include "memory/registration_cache.h"
#include "peer/pending.h"

namespace adaptib {

using UserRequest = opal_common_adaptib_request_t;

class Peer;
struct SendTransfer;

// The caller of a send: the kind of its operation, and whether it waits for the send. If it does,
// the payload is copied.
struct SendCaller {
    SendCaller(OpKind kind) : SendCaller(kind, kind == OpKind::blocking) {}
    SendCaller(OpKind kind, bool waits_for_it) : op_kind(kind), waits(waits_for_it) {}
    OpKind op_kind;
    bool waits;
};

struct SendRequest : PendingSend, GatheredMessage {
    SendRequest() : PendingSend(Kind::request) {}
    UserRequest* user = nullptr;
    Peer* peer = nullptr; // null: this process
    Data data{};
    Envelope envelope;
    OpKind op_kind = OpKind::blocking;
    MessageType type = MessageType::eager; // eager, eager_sync, rendezvous or active
    bool copied = true;                    // eager: the device reads no buffer of the user's
    std::uint8_t tag = 0;                  // active
    std::uint64_t id = 0;                  // eager_sync: repeated by the acknowledgment
    std::uint32_t parts_sent = 0;          // active: bytes sent so far, in parts
    bool sent = false;                     // eager_sync: on its way
    bool lends = false;                    // gathered: a datagram, no message of a ring
    SendTransfer* transfer = nullptr;      // rendezvous
    RegistrationCache::Use buffer;         // gathered: empty when the request ends
};

struct ReceiveRequest : PostedReceive {
    ReceiveRequest(const Envelope& pattern, const Data& to, Peer* sender)
        : PostedReceive(pattern), from(sender) {
        data.base = load_member(to.base);
        data.bytes = load_member(to.bytes);
        if (data.base == nullptr) [[unlikely]] {
            assign(data, to);
        }
    }
    UserRequest& user() { // its words hold this record
        return *reinterpret_cast<UserRequest*>(reinterpret_cast<std::byte*>(this) -
                                               offsetof(UserRequest, core));
    }
    Peer* from; // null: any source, or not known
    Data data;  // contiguous: only base and bytes are set
};
// A contiguous receive takes two cache lines, with the request's own words and 24 bytes of the
// user's in front.
static_assert(24 + offsetof(UserRequest, core) + sizeof(ReceiveRequest) -
                  (sizeof(Data) - offsetof(Data, pack)) <=
              2 * kCacheLine);

// Fields that few messages need.
struct InboundRare {
    SendRequest* own;      // from this process, not copied: the waiting send
    std::uint64_t send_id; // eager_sync
    std::byte unused[2 * kCacheLine - 2 * sizeof(void*) - UnexpectedMessage::kInFront];
};

// An unexpected message: an eager message, or an RTS. The payload or the RTS body follows the
// record. Fields that all messages need lie together, those that few need before them, so that a
// short eager message uses two cache lines.
struct InboundMessage : InboundRare, UnexpectedMessage {
    InboundMessage(const Envelope& sent, Bytes size) : UnexpectedMessage(sent, size) {}
    Peer* peer = nullptr; // null: from this process
    Bytes stored = 0;     // bytes behind this record
    // From this process: `eager` if the payload is here, `none` if it is still with the send.
    MessageType type = MessageType::eager;

    std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
    // REQUIRES: type is rendezvous, and the whole body is stored.
    RendezvousBody& announced() {
        return *std::launder(reinterpret_cast<RendezvousBody*>(payload()));
    }
    Bytes size() const { return sizeof *this + stored; }
};
static_assert(sizeof(InboundMessage) % alignof(RendezvousBody) == 0);
static_assert(sizeof(InboundMessage) ==
              3 * kCacheLine + 24); // three words share a line with the payload

static_assert(sizeof(SendRequest) <= sizeof(UserRequest::core));
static_assert(sizeof(ReceiveRequest) <= sizeof(UserRequest::core));

enum class RequestKind : std::uint32_t { send = 1, receive, over };

inline SendRequest& make_send(UserRequest& user) {
    user.kind = static_cast<std::uint32_t>(RequestKind::send);
    auto* request = new (user.core) SendRequest;
    request->user = &user;
    return *request;
}

inline MessageHeader header_of(const SendRequest& request, Bytes length) {
    MessageHeader header;
    header.type = request.type;
    header.length = static_cast<std::uint32_t>(length);
    header.context = request.envelope.context;
    header.source = request.envelope.source;
    header.tag = request.envelope.tag;
    return header;
}

[[gnu::always_inline]] inline ReceiveRequest&
make_receive(UserRequest& user, const Envelope& pattern, const Data& data, Peer* from) {
    user.kind = static_cast<std::uint32_t>(RequestKind::receive);
    return *new (user.core) ReceiveRequest(pattern, data, from);
}

// Completed requests that have not been reported yet, linked through their first core word. That
// word holds the envelope of a receive, not its link in the list of posted receives, so cancel() of
// a completed request is safe.
class CompletedList {
public:
    bool empty() const { return first_ == nullptr; }
    void push(UserRequest& user) {
        set_next(user, nullptr);
        if (first_ == nullptr) {
            first_ = &user;
        } else {
            set_next(*last_, &user);
        }
        last_ = &user;
    }
    UserRequest* pop() {
        UserRequest* user = first_;
        first_ = next(*user);
        return user;
    }

private:
    static UserRequest* next(const UserRequest& user) {
        return reinterpret_cast<UserRequest*>(static_cast<std::uintptr_t>(user.core[0]));
    }
    static void set_next(UserRequest& user, UserRequest* to) {
        user.core[0] = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(to));
    }

    UserRequest* first_ = nullptr;
    UserRequest* last_ = nullptr;
};

} // namespace adaptib
