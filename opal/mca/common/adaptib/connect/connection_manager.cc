// SPDX-License-Identifier: BSD-3-Clause
// A connection's resources and messages (connect/connection_manager.h). handshake.cc handles
// arriving handshake messages, limits.cc decides which peers get a connection, closing.cc ends
// connections.
#include "connect/connection_manager.h"

#include <algorithm>
#include <utility>

#include "peer/subchannel_stats.h"

namespace adaptib {

namespace {

std::uint32_t bit_of(MessageType type) { return 1u << static_cast<unsigned>(type); }

} // namespace

// Makes queue pairs in the state INIT and a ring for the peer to write into, unless they exist
// already.
Status ConnectionManager::prepare(Peer& peer) {
    if (!peer.subchannels.empty()) {
        return kOk;
    }
    pool_.leave(peer);
    Status status = queue_pairs_.make_all(peer);
    peer.kept.clear(); // those of paths that cannot be used
    if (status.ok()) {
        context_.counters.paths_most =
            std::max<std::uint64_t>(context_.counters.paths_most, peer.live_subchannels());
        enter_slot(peer);
        status = offered_rings_.offer(peer);
    }
    if (!status.ok()) {
        drop_queue_pairs(peer);
        pool_.free_ring(peer);
    }
    return status;
}

void ConnectionManager::drop_queue_pairs(Peer& peer) {
    if (peer.slot_link.linked()) {
        leave_slot(peer);
    }
    drop_queue_pairs_of(peer);
    peer.subchannels.clear();
}

void ConnectionManager::drop_queue_pairs_of(Peer& peer) {
    cm_connects_.leave(peer);
    queue_pairs_.drop_all(peer);
}

Status ConnectionManager::open_loopback(Peer& self) {
    Status status = queue_pairs_.make_all(self);
    for (std::size_t i = 0; i < self.subchannels.size() && status.ok(); ++i) {
        Subchannel& subchannel = self.subchannels[i];
        if (subchannel.qp == nullptr) {
            continue;
        }
        const std::uint32_t number = subchannel.qp->number();
        status = queue_pairs_.connect(self, subchannel,
                                      {static_cast<std::uint16_t>(subchannel.local_rail), 0, number,
                                       QueuePairs::first_packet(self.connection, number), 0});
    }
    if (!status.ok()) {
        self.subchannels.clear();
        if (no_room_says(status)) {
            wait_with_self();
        }
        return status;
    }
    self.state = ConnectState::open;
    ++context_.counters.connections_open;
    return kOk;
}

ConnectBody ConnectionManager::describe(const Peer& peer) const {
    ConnectBody body{};
    body.connection = peer.connection;
    body.answers = peer.remote_connection;
    body.replaces = peer.repair.active ? peer.repair.replaces : 0;
    body.expected = peer.next_receive;
    const RingMemory memory = peer.ring_layout();
    body.ring_bytes =
        peer.ring_in.has_value() ? static_cast<std::uint32_t>(memory.lines_bytes()) : 0;
    body.ring_address = reinterpret_cast<std::uintptr_t>(memory.lines());
    body.credit_address = reinterpret_cast<std::uintptr_t>(memory.credit());
    body.access_key = peer.shared ? context_.options.shared->access_key() : 0;
    body.measure_address =
        peer.ring_parts.measuring ? reinterpret_cast<std::uintptr_t>(memory.measuring()) : 0;
    for (const Subchannel& subchannel : peer.subchannels) {
        if (subchannel.qp != nullptr) {
            ConnectSubchannel& out = body.subchannels[body.subchannel_count++];
            out.rail = static_cast<std::uint16_t>(subchannel.local_rail);
            out.path = static_cast<std::uint16_t>(subchannel.path);
            out.qp = peer.shared ? peer.shared_queue_pair(subchannel)->own_target()
                                 : subchannel.qp->number();
            out.psn = QueuePairs::first_packet(peer.connection, out.qp);
            out.memory_key = peer.ring_registration.remote_key(subchannel.local_rail);
        }
    }
    return body;
}

ConnectNote ConnectionManager::note_of(const Peer& peer, MessageType type) const {
    if (type == MessageType::connect_refuse) {
        return {peer.connection, peer.remote_connection, peer.refusal, peer.next_receive};
    }
    const std::uint32_t number =
        type == MessageType::connect_keep ? peer.closing.heard : peer.closing.number;
    return {peer.connection, peer.remote_connection, number, 0};
}

// Returns false if the message waits for room and goes later (retry), or if the peer has failed.
bool ConnectionManager::send(Peer& peer, MessageType type) {
    if (peer.waiting_link.linked()) {
        peer.handshakes_owed |= bit_of(type);
        return false;
    }
    switch (type) {
    case MessageType::connect_refuse:
    case MessageType::connect_keep:
    case MessageType::connect_yield:
    case MessageType::connect_close: {
        const ConnectNote note = note_of(peer, type);
        return send_body(peer, type, &note, sizeof note);
    }
    default: {
        const ConnectBody body = describe(peer);
        return send_body(peer, type, &body, sizeof body);
    }
    }
}

bool ConnectionManager::send_body(Peer& peer, MessageType type, const void* body,
                                  std::uint32_t length) {
    std::byte* to = peer.datagrams.reserve(length);
    Status status = Status::again(Reason::queue_full);
    if (to != nullptr) {
        std::memcpy(to, body, length);
        MessageHeader header;
        header.type = type;
        header.length = length;
        if (type == MessageType::connect_request && is_needed(peer)) {
            header.flags = kConnectNeeded | (peer.users > 0 ? kConnectAwaited : 0) |
                           (peer.rma_operations > 0 ? kConnectRequired : 0);
        }
        status = peer.datagrams.commit(peer.datagram, header);
    }
    if (status.is_again() && type != MessageType::connect_close) { // closing.cc sends again itself
        peer.handshakes_owed |= bit_of(type);
        owing_.push_back(peer);
    } else if (status.is_error()) {
        fail(peer, status, "a message of the connection handshake could not be sent");
    }
    return status.ok();
}

// Returns true if a message that waited for room still has to be sent. A message describes the
// state at the time of sending.
bool ConnectionManager::is_due(const Peer& peer, MessageType type) {
    switch (type) {
    case MessageType::connect_request: return peer.state == ConnectState::requested;
    case MessageType::connect_reply:
        return peer.state == ConnectState::answered || peer.state == ConnectState::open ||
               peer.state == ConnectState::closing;
    case MessageType::connect_confirm:
        return peer.state == ConnectState::open || peer.state == ConnectState::closing;
    case MessageType::connect_yield: return peer.yields;
    default: return true;
    }
}

void ConnectionManager::retry() {
    for (std::size_t left = owing_.size(); left > 0 && !owing_.empty(); --left) {
        Peer& peer = *owing_.front();
        owing_.remove(peer);
        const std::uint32_t owed = std::exchange(peer.handshakes_owed, 0);
        for (const MessageType type : {MessageType::connect_refuse, MessageType::connect_request,
                                       MessageType::connect_reply, MessageType::connect_confirm,
                                       MessageType::connect_keep, MessageType::connect_yield}) {
            if ((owed & bit_of(type)) != 0 && is_due(peer, type)) {
                static_cast<void>(send(peer, type));
            }
        }
    }
    if (!yielding_.empty()) [[unlikely]] {
        advance_yielding();
    }
    advance_closing();
    if (lane_migrations_.active()) [[unlikely]] {
        lane_migrations_.advance();
    }
    if (!repairing_.empty()) [[unlikely]] {
        advance_repairs();
    }
    if (cm_connects_.active()) [[unlikely]] {
        cm_connects_.advance();
    }
}

void ConnectionManager::fail(Peer& peer, Status status, const std::string& what) {
    if (peer.state != ConnectState::open && peer.state != ConnectState::closing) {
        // Otherwise work is outstanding: break_off lets it complete.
        close(peer, ConnectState::failed);
    }
    context_.listener.on_connect_failed(peer, status, what);
}

void ConnectionManager::leave(Peer& peer, ConnectState state) {
    if (peer.waiting_link.linked()) {
        owing_.remove(peer);
    }
    peer.handshakes_owed = 0;
    if (peer.state == ConnectState::open || peer.state == ConnectState::closing) {
        --context_.counters.connections_open;
    }
    if (peer.closing_link.linked()) {
        closing_.remove(peer);
    }
    if (peer.wanted_link.linked()) {
        wanted_.remove(peer);
    }
    stop_yielding(peer);
    lane_migrations_.stop(peer);
    measurement_.stop(peer);
    leave_repairs(peer);
    cm_connects_.leave(peer);
    const std::uint32_t expected = peer.repair.expected;
    peer.repair = {};
    peer.repair.expected = expected;
    peer.repairable = peer.ring_broken = false;
    peer.state = state;
    peer.ring_out.reset();
    peer.answers = nullptr;
    peer.ring_paused.reset();
    if (state == ConnectState::failed) {
        peer.datagrams.forget(peer.datagram);
    }
}

void ConnectionManager::break_off(Peer& peer) {
    stop_shared(peer);
    leave(peer, ConnectState::failed);
    pool_.give_up(peer);
    if (peer.slot_link.linked()) {
        leave_slot(peer);
    }
    ++context_.counters.connections_failed;
    queue_pairs_.fail_all(peer);
}

void ConnectionManager::close(Peer& peer, ConnectState state) {
    stop_shared(peer);
    leave(peer, state);
    offered_rings_.withdraw(peer);
    drop_queue_pairs(peer);
    pool_.give_up(peer);
    pool_.free_ring(peer);
}

// Replaces close(): the pool keeps what it may. REQUIRES: nothing is under way on either side.
void ConnectionManager::keep(Peer& peer) {
    if (!pool_.takes(peer)) {
        close(peer, ConnectState::idle);
        return;
    }
    const std::uint64_t used = peer.ring_in.has_value() ? peer.ring_in->consumed() : 0;
    leave(peer, ConnectState::idle);
    offered_rings_.withdraw(peer);
    OfferedRings::clean(peer, used * kRingUnit);
    std::vector<std::unique_ptr<QueuePair>> kept(peer.subchannels.size());
    for (std::size_t i = 0; i < peer.subchannels.size(); ++i) {
        std::unique_ptr<QueuePair> qp = queue_pairs_.take(peer, peer.subchannels[i]);
        const bool cm_connected =
            queue_pairs_.needs_cm_connect(peer, peer.subchannels[i]); // it keeps its rdma_cm id
        if (!cm_connected && !peer.shared) {
            kept[i] = std::move(qp);
        }
    }
    drop_queue_pairs(peer);
    pool_.keep(peer, std::move(kept));
}

} // namespace adaptib
