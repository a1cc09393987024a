// SPDX-License-Identifier: BSD-3-Clause
// The three-way handshake's life: asking, resources, closing (connect/connection_manager.h).
// What happens when a handshake message arrives is in handshake.cc.
#include "connect/connection_manager.h"

#include <algorithm>
#include <utility>

namespace adaptib {

namespace {

constexpr std::uint32_t kPsnMask = 0xffffff;
constexpr std::uint32_t kSendDepth = 256;

std::uint32_t bit_of(MessageType type) { return 1u << static_cast<unsigned>(type); }

} // namespace

void ConnectionManager::request(Peer& peer) {
    if (peer.state != ConnectState::idle) {
        return;
    }
    ++peer.connection;
    if (const Status status = prepare(peer); !status.ok()) {
        fail(peer, status, "a connection's queue pairs could not be made");
        return;
    }
    peer.state = ConnectState::requested;
    ++counters_.connections_requested;
    send(peer, MessageType::connect_request);
}

std::uint32_t ConnectionManager::common_rails(const Peer& peer) const { return peer.route.count; }

// Queue pairs in the state init and a ring for the peer to write into, unless they exist already.
Status ConnectionManager::prepare(Peer& peer) {
    if (!peer.subchannels.empty()) {
        return kOk;
    }
    const Status status = make_queue_pairs(peer);
    return status.ok() ? offer_ring(peer) : status;
}

Status ConnectionManager::make_queue_pairs(Peer& peer) {
    for (std::uint32_t i = 0; i < common_rails(peer); ++i) {
        const std::uint32_t rail = peer.route.pairs[i].local;
        QpInit init;
        init.type = QpType::rc;
        init.send_cq = cqs_[rail].get();
        init.receive_cq = cqs_[rail].get();
        init.send_depth = std::min(kSendDepth, rails_[rail]->info().max_send_depth);
        init.inline_bytes = inline_bytes(rail);
        Subchannel subchannel;
        subchannel.local_rail = rail;
        subchannel.remote_rail = peer.route.pairs[i].remote;
        QpAttributes attributes;
        attributes.state = QpState::init;
        attributes.access = kRemoteRead | kRemoteWrite | kRemoteAtomic;
        Status status = rails_[rail]->create_qp(init, subchannel.qp);
        if (status.ok()) {
            status = subchannel.qp->modify(attributes, kQpState | kQpAccess);
        }
        if (!status.ok()) {
            peer.subchannels.clear();
            return status;
        }
        peer.subchannels.push_back(std::move(subchannel));
    }
    peer.scheduler = make_scheduler(options_.scheduler);
    return kOk;
}

Status ConnectionManager::open_loopback(Peer& self) {
    Status status = make_queue_pairs(self);
    for (std::size_t i = 0; i < self.subchannels.size() && status.ok(); ++i) {
        Subchannel& subchannel = self.subchannels[i];
        const std::uint32_t number = subchannel.qp->number();
        status =
            connect_one(self, subchannel,
                        {subchannel.local_rail, number, (self.connection + number) & kPsnMask, 0});
    }
    if (!status.ok()) {
        self.subchannels.clear();
        return status;
    }
    self.state = ConnectState::open;
    ++counters_.connections_open;
    return kOk;
}

// No ring when there are enough of them, or no memory for one: then the peer goes on with datagrams.
Status ConnectionManager::offer_ring(Peer& peer) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteWrite;
    bool ring = counters_.rings_open < options_.ring_max;
    Bytes lines_bytes = ring ? options_.ring_bytes : 0;
    Rail& first = *rails_[peer.route.local.first];
    Status status = first.allocate(lines_bytes + kCacheLine, kAccess, peer.ring_memory);
    if (!status.ok() && ring) {
        if (!told_no_room_) {
            told_no_room_ = true;
            listener_.on_notice(
                "There is no room for another ring; further peers share the queue, which is slower. "
                "Enlarge opal_common_adaptib_shm_segment_max, or lower opal_common_adaptib_ring_bytes.");
        }
        ring = false;
        lines_bytes = 0;
        status = first.allocate(kCacheLine, kAccess, peer.ring_memory);
    }
    if (status.ok()) {
        status = peer.ring_registration.make(rails_, peer.route.local, peer.ring_memory->address(),
                                             peer.ring_memory->length(), kAccess);
    }
    if (!status.ok()) {
        peer.ring_memory.reset();
        peer.subchannels.clear();
        return status;
    }
    if (ring) {
        peer.ring_in = std::make_unique<RingReader>(
            static_cast<std::byte*>(peer.ring_memory->address()), lines_bytes / kRingUnit);
        ++counters_.rings_open;
        listener_.on_ring_offered(peer);
    }
    return kOk;
}

ConnectBody ConnectionManager::describe(const Peer& peer) const {
    ConnectBody body{};
    body.connection = peer.connection;
    body.answers = peer.remote_connection;
    body.subchannel_count = static_cast<std::uint32_t>(peer.subchannels.size());
    const Bytes lines_bytes = peer.ring_memory->length() - kCacheLine;
    const auto base = reinterpret_cast<std::uintptr_t>(peer.ring_memory->address());
    body.ring_bytes = peer.ring_in != nullptr ? static_cast<std::uint32_t>(options_.ring_bytes) : 0;
    body.ring_address = base;
    body.credit_address = base + lines_bytes;
    for (std::size_t i = 0; i < peer.subchannels.size(); ++i) {
        const Subchannel& subchannel = peer.subchannels[i];
        body.subchannels[i].rail = subchannel.local_rail;
        body.subchannels[i].qp = subchannel.qp->number();
        body.subchannels[i].psn = (peer.connection + subchannel.qp->number()) & kPsnMask;
        body.subchannels[i].memory_key = peer.ring_registration.remote_key(subchannel.local_rail);
    }
    return body;
}

void ConnectionManager::send(Peer& peer, MessageType type) {
    if (peer.waiting_link.linked()) {
        peer.handshakes_owed |= bit_of(type);
        return;
    }
    const ConnectBody body = describe(peer);
    std::byte* to = peer.datagrams.reserve(sizeof body);
    Status status = Status::again(Reason::queue_full);
    if (to != nullptr) {
        std::memcpy(to, &body, sizeof body);
        MessageHeader header;
        header.type = type;
        header.length = sizeof body;
        status = peer.datagrams.commit(peer.datagram, header);
    }
    if (status.is_again()) {
        peer.handshakes_owed |= bit_of(type);
        owing_.push_back(peer);
    } else if (status.is_error()) {
        fail(peer, status, "a connection handshake could not be sent");
    }
}

void ConnectionManager::retry() {
    for (std::size_t left = owing_.size(); left > 0 && !owing_.empty(); --left) {
        Peer& peer = *owing_.front();
        owing_.remove(peer);
        const std::uint32_t owed = std::exchange(peer.handshakes_owed, 0);
        for (const MessageType type : {MessageType::connect_request, MessageType::connect_reply,
                                       MessageType::connect_confirm}) {
            if ((owed & bit_of(type)) != 0) {
                send(peer, type);
            }
        }
    }
}

void ConnectionManager::fail(Peer& peer, Status status, const std::string& what) {
    if (peer.state != ConnectState::open) {
        close(peer, ConnectState::failed); // else work is outstanding: break_off lets it come back
    }
    listener_.on_connect_failed(peer, status, what);
}

void ConnectionManager::leave(Peer& peer, ConnectState state) {
    if (peer.waiting_link.linked()) {
        owing_.remove(peer);
    }
    peer.handshakes_owed = 0;
    if (peer.state == ConnectState::open) {
        --counters_.connections_open;
    }
    peer.state = state;
    peer.ring_out.reset();
    if (state == ConnectState::failed) {
        peer.datagrams.forget(peer.datagram);
    }
}

void ConnectionManager::break_off(Peer& peer) {
    leave(peer, ConnectState::failed);
    ++counters_.connections_failed;
    QpAttributes attributes;
    attributes.state = QpState::error;
    for (Subchannel& subchannel : peer.subchannels) {
        // One that is in no state to fail has nothing outstanding either.
        static_cast<void>(subchannel.qp->modify(attributes, kQpState));
    }
}

void ConnectionManager::close(Peer& peer, ConnectState state) {
    leave(peer, state);
    withdraw_ring(peer);
    peer.subchannels.clear();
    peer.ring_registration.reset();
    peer.ring_memory.reset();
}

void ConnectionManager::withdraw_ring(Peer& peer) {
    if (peer.ring_in != nullptr) {
        listener_.on_ring_withdrawn(peer);
        peer.ring_in.reset();
        --counters_.rings_open;
    }
}

} // namespace adaptib
