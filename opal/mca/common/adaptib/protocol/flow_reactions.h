// SPDX-License-Identifier: BSD-3-Clause
// FlowReactions: what transfers, the flow of messages and rendezvous ask of the other parts of the
// protocol and of the connections.
//
// Purpose: implements the listeners of TransferEngine, SendFlow and Rendezvous, which know nothing
// of each other, by calling the part that is concerned.
// Ownership: owns nothing; refers to the parts of the protocol.
// Threads: one at a time (the core's lock).
// May touch: base/, connect/, memory/, peer/, protocol/.
#pragma once

#include <string>

#include "connect/connection_manager.h"
#include "memory/exposed_memory.h"
#include "memory/staging.h"
#include "peer/peer.h"
#include "protocol/active_messages.h"
#include "protocol/disconnects.h"
#include "protocol/message_sends.h"
#include "protocol/peer_failures.h"
#include "protocol/protocol_listener.h"
#include "protocol/rendezvous.h"
#include "protocol/send_flow.h"
#include "protocol/tagged_receives.h"
#include "protocol/transfer_engine.h"

namespace adaptib {

class FlowReactions final : public TransferListener,
                            public SendFlowListener,
                            public RendezvousListener {
public:
    // All are used by calls only, and need not be constructed yet.
    struct Parts {
        ConnectionManager& connections;
        ExposedMemory& memory;
        TaggedReceives& receives;
        MessageSends& sends;
        ActiveMessages& active;
        Rendezvous& rendezvous;
        Disconnects& disconnects;
        PeerFailures& failures;
        ProtocolListener& listener;
    };

    explicit FlowReactions(const Parts& parts) : parts_(parts) {}

private:
    void want_connection(Peer& peer) override { parts_.connections.request(peer); }
    void want_repair(Peer& peer) override { parts_.connections.repairs().begin(peer); }
    void on_control_lane(Peer& peer, std::uint32_t lane) override {
        parts_.connections.migrate_control_lane(peer, lane);
    }
    bool send_pending(PendingSend& send) override {
        if (send.kind != PendingSend::Kind::request) {
            return parts_.rendezvous.send_fragments(
                static_cast<SendTransfer::Fragments&>(send).transfer);
        }
        auto& request = static_cast<SendRequest&>(send);
        return request.type == MessageType::active ? parts_.active.transmit(request)
                                                   : parts_.sends.transmit(request);
    }
    void on_send_lost(SendRequest& request) override { parts_.sends.on_lost(request); }
    void on_flushed(Peer& peer) override { parts_.disconnects.end_if_over(peer); }
    void on_peer_failed(Peer& peer, const std::string& what) override {
        parts_.failures.fail(peer, what);
    }
    bool leaves(Peer& peer) override { return parts_.listener.leaves(peer); }
    StagingPool& staging(const Peer& peer) override {
        return parts_.memory.staging(peer.contact.route.fabric);
    }
    const Registration* registered(const Peer& peer, RegistrationCache::Use& own, void* address,
                                   Bytes length, std::uint32_t access) override {
        return parts_.memory.registered(peer.contact.route.fabric, own, address, length, access);
    }
    AcceleratorMemory::Use on_accelerator(const Peer& peer, const Data& data) override {
        return parts_.memory.accelerator(peer.contact.route.fabric).use(data);
    }
    void on_sent(SendRequest& request, bool failed) override {
        parts_.receives.completions().complete(
            *request.user, failed ? OPAL_COMMON_ADAPTIB_UNREACHABLE : OPAL_COMMON_ADAPTIB_SUCCESS,
            failed ? 0 : request.data.bytes);
    }
    void on_received(ReceiveRequest& request, Bytes message_bytes, Bytes received,
                     int failure) override {
        parts_.receives.complete_receive(request, request.envelope, message_bytes, received,
                                         failure);
    }

    const Parts parts_;
};

} // namespace adaptib
