// SPDX-License-Identifier: BSD-3-Clause
// What each handshake message does when it arrives (connect/connection_manager.h has the picture).
#include <utility>

#include "connect/connection_manager.h"

namespace adaptib {

namespace {

// 4.096 us x 2^18 = 1.1 s for one try, as other transports have it. A host with more processes than processors
// may be silent for longer than a tenth of a second. Who knows earlier that a rail is down says so.
constexpr std::uint8_t kAnswerTimeout = 18;

} // namespace

void ConnectionManager::on_handshake(Peer& peer, MessageType type, const ConnectBody& body) {
    switch (type) {
    case MessageType::connect_request: on_request(peer, body); break;
    case MessageType::connect_reply: on_reply(peer, body); break;
    case MessageType::connect_confirm: on_confirm(peer, body); break;
    default: ++counters_.bad_packets; break;
    }
}

// The peer is through with the goodbye, we are not yet: handled when we are.
void ConnectionManager::keep_for_later(Peer& peer, const ConnectBody& request) {
    peer.early_request = std::make_unique<ConnectBody>(request);
}

void ConnectionManager::on_request(Peer& peer, const ConnectBody& body) {
    switch (peer.state) {
    case ConnectState::requested:
        ++counters_.connections_crossed;
        if (options_.self > peer.name) {
            return; // ours is the one that the peer answers
        }
        break;
    case ConnectState::idle:
        if (peer.goodbyes_over()) {
            keep_for_later(peer, body);
            return;
        }
        ++peer.connection;
        break;
    case ConnectState::answered:
    case ConnectState::open:
        if (body.connection == peer.remote_connection) {
            send(peer, MessageType::connect_reply); // doubled: answer again
        } else if (peer.said_goodbye) {
            keep_for_later(peer, body);
        } else {
            ++counters_.bad_packets;
        }
        return;
    case ConnectState::failed: return;
    }
    Status status = prepare(peer);
    if (status.ok()) {
        status = connect_subchannels(peer, body);
    }
    if (!status.ok()) {
        fail(peer, status, "a connection that was asked for could not be made");
        return;
    }
    peer.remote_connection = body.connection;
    peer.state = ConnectState::answered;
    ++counters_.connections_accepted;
    send(peer, MessageType::connect_reply);
}

void ConnectionManager::on_reply(Peer& peer, const ConnectBody& body) {
    if (body.answers != peer.connection) {
        ++counters_.bad_packets;
        return;
    }
    if (peer.state == ConnectState::open && body.connection == peer.remote_connection) {
        send(peer, MessageType::connect_confirm); // doubled: confirm again
        return;
    }
    if (peer.state != ConnectState::requested) {
        return;
    }
    if (const Status status = connect_subchannels(peer, body); !status.ok()) {
        fail(peer, status, "a connection could not be completed");
        return;
    }
    peer.remote_connection = body.connection;
    send(peer, MessageType::connect_confirm);
    if (peer.state == ConnectState::requested) {
        open(peer);
    }
}

void ConnectionManager::on_confirm(Peer& peer, const ConnectBody& body) {
    if (peer.state != ConnectState::answered) {
        return; // doubled
    }
    if (body.answers != peer.connection || body.connection != peer.remote_connection) {
        ++counters_.bad_packets;
        return;
    }
    open(peer);
}

Status ConnectionManager::connect_subchannels(Peer& peer, const ConnectBody& body) {
    if (body.subchannel_count != peer.subchannels.size()) {
        return Status::error(Reason::bad_wire);
    }
    for (std::uint32_t i = 0; i < body.subchannel_count; ++i) {
        const ConnectSubchannel& remote = body.subchannels[i];
        if (remote.rail != peer.subchannels[i].remote_rail) { // both ends find the same pairs
            return Status::error(Reason::bad_wire);
        }
        const Status status = connect_one(peer, peer.subchannels[i], remote);
        if (!status.ok()) {
            return status;
        }
    }
    use_remote_ring(peer, body);
    return kOk;
}

Status ConnectionManager::connect_one(Peer& peer, Subchannel& subchannel,
                                      const ConnectSubchannel& remote) {
    const RailInfo& info = rails_[subchannel.local_rail]->info();
    const AddressRail& rail = peer.address.rails[remote.rail];
    subchannel.remote_rail = remote.rail;
    subchannel.remote_memory_key = remote.memory_key;
    QpAttributes attributes;
    attributes.state = QpState::ready_to_receive;
    attributes.path.remote.size = rail.size;
    attributes.path.remote.bytes = rail.bytes;
    attributes.remote_qp = remote.qp;
    attributes.receive_psn = remote.psn;
    attributes.max_target_reads = info.max_reads;
    Status status =
        subchannel.qp->modify(attributes, kQpState | kQpPath | kQpRemote | kQpReceiveLimits);
    if (!status.ok()) {
        return status;
    }
    attributes.state = QpState::ready_to_send;
    attributes.timeout = kAnswerTimeout;
    attributes.send_psn = (peer.connection + subchannel.qp->number()) & 0xffffff;
    attributes.max_reads = info.max_reads;
    return subchannel.qp->modify(attributes, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits);
}

// The ring is built here and put to use by open(): before that the other side may not be ready.
void ConnectionManager::use_remote_ring(Peer& peer, const ConnectBody& body) {
    peer.credit_address = body.credit_address;
    const Subchannel& subchannel = peer.subchannels[chosen_subchannel(peer)];
    peer.remote_ring = {body.ring_address, subchannel.remote_memory_key,
                        body.ring_bytes / kRingUnit, inline_bytes(subchannel.local_rail)};
}

void ConnectionManager::open(Peer& peer) {
    peer.state = ConnectState::open;
    ++counters_.connections_open;
    if (peer.remote_ring.units > 0) {
        Subchannel& subchannel = peer.subchannels[chosen_subchannel(peer)];
        const auto* credit = reinterpret_cast<const std::uint64_t*>(
            static_cast<const std::byte*>(peer.ring_memory->address()) +
            peer.ring_memory->length() - kCacheLine);
        peer.ring_out =
            std::make_unique<RingWriter>(*rails_[subchannel.local_rail], *subchannel.qp,
                                         peer.remote_ring, credit, wr_id_of(&peer.ring_work));
        peer.ring_capacity = peer.remote_ring.units / 2 * kRingUnit - kRingOverhead;
    }
    listener_.on_connected(peer);
}

} // namespace adaptib
