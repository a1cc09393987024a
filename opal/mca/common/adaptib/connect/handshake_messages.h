// SPDX-License-Identifier: BSD-3-Clause
// HandshakeMessages: sends the messages of the connection handshake (connect/README.md).
//
// Purpose: describes this side of a connection in requests, replies and confirmations, and the
// numbers of attempts in the others. A message that finds no room is owed, and goes later. It
// describes the state at the time of sending.
// Invariant: a peer is in the list of those that are owed a message exactly if its owing_link is
// linked.
// Threads: one at a time.
// May touch: base/, channel/, peer/, stats/.
#pragma once

#include <cstdint>

#include "base/intrusive_list.h"
#include "base/status.h"
#include "base/wire_connect.h"
#include "connect/connect_context.h"

namespace adaptib {

class HandshakeMessages {
public:
    explicit HandshakeMessages(const ConnectContext& context) : context_(context) {}

    // Returns false if the message waits for room and goes later (retry), or if it could not be
    // sent, nor will be (ConnectEvent::unsent). A `close` does not wait: the caller sends it again.
    bool send(Peer& peer, MessageType type);
    // Returns true if messages wait for room. retry() sends them.
    bool owing() const { return !owing_.empty(); }
    void retry();
    // Forgets what the peer is owed.
    void forget(Peer& peer);

private:
    bool send_body(Peer& peer, MessageType type, const void* body, std::uint32_t length);
    static bool is_due(const Peer& peer, MessageType type);
    ConnectBody describe(const Peer& peer) const;
    static ConnectNote note_of(const Peer& peer, MessageType type);

    IntrusiveList<Peer, &Peer::connection, &PeerConnection::owing_link> owing_;
    const ConnectContext& context_;
};

} // namespace adaptib
