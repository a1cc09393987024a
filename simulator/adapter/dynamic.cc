// SPDX-License-Identifier: BSD-3-Clause
// Dynamic connections, as mlx5 adapters have them (AQPS, section 2.1; mlx5dv_create_qp(3)).
//
// An initiator is the requester of a reliable connection that changes its target: it connects anew
// once all answers of the target before are there. Each of its packets names the connection and its
// first packet number, so that any of them connects. A target serves each initiator by a session, a
// responder of its own. An initiator that changes its target, or has had nothing to do for a while,
// disconnects, which ends the session; a target that serves as many initiators as it can
// (dc_initiators of the topology file) refuses others until then, and they try again.
#include <cstring>

#include "engine.h"

namespace adaptib::hca {
namespace {

constexpr std::int64_t kIdleInitiator = 1'000'000;     // ns until it disconnects
constexpr std::int64_t kLostInitiator = 4'000'000'000; // ns until its session makes room

bool same_path(const ibv_ah_attr& a, const ibv_ah_attr& b) {
    return a.dlid == b.dlid && a.src_path_bits == b.src_path_bits && a.sl == b.sl &&
           a.is_global == b.is_global &&
           (!a.is_global || (std::memcmp(a.grh.dgid.raw, b.grh.dgid.raw, 16) == 0 &&
                             a.grh.flow_label == b.grh.flow_label));
}

// Path back to the sender of a packet, from a port with the base LID.
ibv_ah_attr path_back(const PacketHeader& packet, const ibv_ah_attr& own, std::uint16_t lid) {
    ibv_ah_attr path = own;
    path.dlid = packet.source_lid;
    path.src_path_bits = static_cast<std::uint8_t>(packet.target_lid - lid);
    path.sl = packet.sl;
    path.is_global = packet.has(kGlobal) ? 1 : 0;
    if (packet.has(kGlobal)) {
        std::memcpy(path.grh.dgid.raw, &packet.grh[8], sizeof path.grh.dgid.raw);
    }
    return path;
}

} // namespace

// Connects an initiator to the target of its next request. false: the target before has not
// answered all yet.
bool QueuePair::follow(const SendWork& work) {
    const DynamicAddress& to = work.dynamic;
    if (connected_ && attributes.dest_qp_num == to.target && remote_key_ == to.key &&
        same_path(attributes.ah_attr, to.path)) {
        return true;
    }
    if (requester.index > 0) {
        return false;
    }
    disconnect();
    attributes.ah_attr = to.path;
    ethernet_ = to.ethernet;
    attributes.dest_qp_num = to.target;
    remote_key_ = to.key;
    connected_ = true;
    ++session_;
    session_psn_ = requester.next_psn;
    return true;
}

void QueuePair::add_session(PacketHeader& header) const {
    header.flags |= kDynamic;
    header.access_key = remote_key_;
    header.session = session_;
    header.session_psn = session_psn_;
}

// Without the key, nobody answers. A later connection of an initiator ends the one before.
void QueuePair::handle_dynamic(const PacketHeader& packet, const std::uint8_t* payload) {
    if (!packet.has(kDynamic) || packet.access_key != access_key) {
        return;
    }
    const auto found = sessions_.find(packet.source_qpn);
    const bool known = found != sessions_.end();
    if (packet.kind == PacketKind::disconnect) {
        if (known && found->second->session_ == packet.session) {
            end_session(packet.source_qpn);
        }
        return;
    }
    const std::int64_t now = now_ns();
    if (!known && !has_room_for_session(now)) {
        refuse_session(packet);
        return;
    }
    std::unique_ptr<QueuePair>& session = sessions_[packet.source_qpn];
    const auto later = static_cast<std::int32_t>(packet.session - (known ? session->session_ : 0));
    if (known && later < 0) {
        return;
    }
    if (!known || later > 0) {
        if (known) {
            session->return_receive();
            engine_.unschedule(session.get());
        }
        session = std::make_unique<QueuePair>(engine_, ex.qp_base.pd, init, ex.qp_base.qp_num);
        session->serve(*this, packet);
    }
    session->used_at_ = now;
    session->handle(packet, payload);
}

// Leaves the present target, all of whose answers are there.
void QueuePair::disconnect() {
    if (!connected_) {
        return;
    }
    connected_ = false;
    if (engine_.port_silent(port(attributes.port_num).number)) {
        return;
    }
    PacketHeader header;
    header.kind = PacketKind::disconnect;
    add_session(header);
    static_cast<void>(transmit(header, nullptr)); // without room it is lost
}

// Disconnects an initiator that has had nothing to do for a while.
void QueuePair::leave_if_idle(std::int64_t now) {
    if (!requester.work.empty()) {
        used_at_ = now;
    } else if (connected_ && now - used_at_ > kIdleInitiator) {
        disconnect();
    }
}

void QueuePair::end_session(std::uint32_t initiator) {
    const auto found = sessions_.find(initiator);
    found->second->return_receive();
    engine_.unschedule(found->second.get());
    sessions_.erase(found);
}

// Ends the session of an initiator that has vanished if there is no room otherwise.
bool QueuePair::has_room_for_session(std::int64_t now) {
    const unsigned most = context().device->description->dc_initiators;
    if (most == 0 || sessions_.size() < most) {
        return true;
    }
    for (const auto& [initiator, session] : sessions_) {
        if (now - session->used_at_ > kLostInitiator) {
            end_session(initiator);
            return true;
        }
    }
    return false;
}

void QueuePair::refuse_session(const PacketHeader& packet) {
    QueuePair none(engine_, ex.qp_base.pd, init, ex.qp_base.qp_num);
    none.serve(*this, packet);
    // The number before it is acknowledged.
    none.answer(PacketKind::ack, packet.session_psn, Syndrome::busy);
    none.send_answer(none.responder.answers.front());
    engine_.unschedule(&none);
}

// Begins to serve the connection that the packet names.
void QueuePair::serve(const QueuePair& target, const PacketHeader& packet) {
    dynamic = Dynamic::session;
    attributes = target.attributes;
    attributes.dest_qp_num = packet.source_qpn;
    attributes.max_dest_rd_atomic =
        static_cast<std::uint8_t>(target.context().device->description->rule(Rule::max_reads));
    attributes.ah_attr =
        path_back(packet, target.attributes.ah_attr, engine_.lid(port(attributes.port_num)));
    ethernet_.mac = engine_.mac(packet.source_port);
    established_ = last_reached_ = true; // reports neither
    session_ = packet.session;
    responder.expected = packet.session_psn;
}

// A message that did not arrive as a whole leaves its receive to the next one.
void QueuePair::return_receive() {
    if (responder.has_receive && init.srq != nullptr) {
        of(init.srq)->work.push_front(responder.receive);
        responder.has_receive = false;
    }
}

void QueuePair::end_sessions() {
    disconnect();
    for (const auto& [number, session] : sessions_) {
        session->return_receive();
        engine_.unschedule(session.get());
    }
    sessions_.clear();
}

} // namespace adaptib::hca
