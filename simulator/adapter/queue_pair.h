// SPDX-License-Identifier: BSD-3-Clause
// A queue pair: its attributes, the requester and the responder of a reliable connection, and
// datagrams.
//
// Purpose: IBA vol. 1, 9.7 (reliable service), 9.8.3 (unreliable datagram), 10.3 (states),
// 17.2.8 (path migration).
// The requester sends packets from (send_index, send_packet) on; what is before that and not yet
// acknowledged waits for the peer. To go back sets the two to the oldest unacknowledged packet.
// Ownership: the program's. Threads: under the engine's lock.
// May touch: objects.h, packet.h, engine.h.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "objects.h"
#include "packet.h"

namespace adaptib::hca {

class Engine;

// Destination of a request of a DC initiator.
struct DynamicAddress {
    ibv_ah_attr path{};
    EthernetPath ethernet;
    std::uint32_t target = 0;
    std::uint64_t key = 0;
};

// Part of a queue pair in a dynamic connection (dynamic.cc).
enum class Dynamic : std::uint8_t {
    none,
    initiator,
    target,
    session, // a target's end of the connection with one initiator
};

struct SendWork {
    ibv_send_wr request{}; // without its lists
    std::vector<ibv_sge> places;
    std::vector<std::uint8_t> data; // of an inline request
    ibv_ah_attr address{};          // of a datagram
    EthernetPath ethernet;          // likewise
    DynamicAddress dynamic;         // of an initiator's request
    std::uint64_t length = 0;
    std::uint64_t received = 0; // bytes of a read
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 1; // numbers that it takes
    std::uint32_t sent = 0;    // of them, at least once
    bool numbered = false;
    bool signaled = false;

    bool reads() const { return request.opcode == IBV_WR_RDMA_READ || atomic(); }
    bool atomic() const {
        return request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    std::uint32_t last_psn() const { return (first_psn + packets - 1) & kPsnMask; }
};

// Answer that waits for room on the wire.
struct Response {
    PacketHeader header; // of an acknowledgement, an atomic's answer, or a read's first packet
    std::uint64_t sent = 0;
};

struct AtomicAnswer {
    std::uint32_t psn = 0;
    std::uint64_t old = 0;
};

struct Requester {
    std::deque<SendWork> work;
    std::size_t index = 0;    // of the request to send next
    std::uint32_t packet = 0; // in it
    std::uint32_t next_psn = 0;
    unsigned unreleased = 0; // places that completed, unsignaled
    int retries_left = 0;
    int rnr_left = 0;
    std::int64_t deadline = 0; // ns; 0: none
    std::int64_t rnr_until = 0;
};

// A write that waits for the one behind it (scrambled_order of the topology file).
struct OvertakenWrite {
    PacketHeader last;              // its last packet
    std::vector<std::uint8_t> data; // of all its packets
    std::uint64_t address = 0;
    std::uint32_t rkey = 0;
    bool within = false;    // further packets will come
    std::int64_t until = 0; // ns; 0: none waits

    void clear() {
        within = false;
        until = 0;
    }
};

struct Responder {
    std::deque<Response> answers;
    std::deque<AtomicAnswer> atomics;
    std::uint32_t expected = 0;
    bool nak_sent = false;
    bool within = false; // a message of several packets
    ReceiveWork receive;
    std::uint64_t placed = 0; // bytes of it
    bool has_receive = false;
    std::uint64_t address = 0; // of a write
    std::uint64_t length = 0;
    std::uint32_t rkey = 0;
    std::vector<std::uint8_t> held; // the packet of a scrambled write that is placed last
    std::uint64_t held_at = 0;      // offset of that in the write
    OvertakenWrite overtaken;
};

class QueuePair {
public:
    QueuePair(Engine& engine, ibv_pd* pd, const ibv_qp_init_attr& init, std::uint32_t number);
    QueuePair(const QueuePair&) = delete;
    QueuePair& operator=(const QueuePair&) = delete;

    ibv_qp* pointer() { return &ex.qp_base; }
    ibv_qp_state state() const { return attributes.qp_state; }

    // Calls of the program. Result: 0 or an error number.
    // `ethernet`: of the path, if the mask has one.
    int modify(const ibv_qp_attr& wanted, int mask, const EthernetPath& ethernet = {});
    void query(ibv_qp_attr& result, ibv_qp_init_attr& init_result) const;
    // `to`: of an initiator's request, else null.
    int post_send(const ibv_send_wr& request, const DynamicAddress* to = nullptr);
    int post_receive(const ibv_recv_wr& request);
    void release(unsigned places) { taken_ -= std::min(taken_, places); }

    // Sends what may be sent now.
    void pump();
    void handle(const PacketHeader& packet, const std::uint8_t* payload);
    void check_timers(std::int64_t now);
    bool waits() const;
    bool unsent() const;
    // Moves to ERR and flushes. status: of the oldest request, if one failed.
    void fail(ibv_wc_status status);
    void raise(ibv_event_type type);
    const PortDescription& port(std::uint8_t index) const;
    bool uses(unsigned port_number) const;

    ibv_qp_ex ex{}; // first
    ibv_qp_init_attr init{};
    ibv_qp_attr attributes{};
    unsigned async_delivered = 0;
    bool queued = false;            // in the engine's list of those that have something to send
    std::vector<ibv_send_wr> batch; // of ibv_wr_start
    std::deque<std::vector<ibv_sge>> batch_places;
    std::deque<std::vector<std::uint8_t>> batch_data;
    std::deque<DynamicAddress> batch_addresses;
    Dynamic dynamic = Dynamic::none;
    std::uint64_t access_key = 0; // of a DC target
    // Ends the connections of a DC target.
    void end_sessions();

private:
    Context& context() const { return *of(ex.qp_base.context); }
    bool reliable() const { return init.qp_type == IBV_QPT_RC; }
    std::int64_t rule(Rule which) const { return context().device->description->rule(which); }
    unsigned mtu() const;

    // qp_state.cc
    int check_move(const ibv_qp_attr& wanted, int mask, ibv_qp_state from, ibv_qp_state to) const;
    int check_values(const ibv_qp_attr& wanted, int mask) const;
    bool mtu_is_allowed(ibv_mtu wanted, const PortDescription& at) const;
    void take_values(const ibv_qp_attr& wanted, int mask);
    void enter(ibv_qp_state from, ibv_qp_state to, int mask);
    void reset();
    void flush();

    // requester.cc
    bool may_post() const;
    int check_request(const ibv_send_wr& request) const;
    bool send_next();
    void number(SendWork& work);
    bool may_send(const SendWork& work) const;
    bool send_packet(SendWork& work);
    void go_back();
    void acknowledge(std::uint32_t psn);
    void handle_ack(const PacketHeader& packet);
    void handle_read_response(const PacketHeader& packet, const std::uint8_t* payload);
    void handle_atomic_response(const PacketHeader& packet);
    void negative(const PacketHeader& packet);
    void retry();
    void progressed();
    void complete(ibv_wc_status status);
    std::int64_t timeout() const;
    bool outstanding() const { return requester.index > 0 || requester.packet > 0; }

    // responder.cc
    void handle_request(const PacketHeader& packet, const std::uint8_t* payload);
    void duplicate(const PacketHeader& packet);
    bool execute(const PacketHeader& packet, const std::uint8_t* payload);
    bool execute_send(const PacketHeader& packet, const std::uint8_t* payload);
    bool is_relaxed() const;
    bool is_placed_last(const PacketHeader& packet) const;
    bool may_be_overtaken(const PacketHeader& packet) const;
    bool lets_overtake(const PacketHeader& packet, const std::uint8_t* payload);
    void place_overtaken();
    bool execute_write(const PacketHeader& packet, const std::uint8_t* payload);
    bool execute_read(const PacketHeader& packet);
    bool execute_atomic(const PacketHeader& packet);
    bool take_receive(ReceiveWork& work);
    void received(const PacketHeader& packet, ibv_wc_opcode opcode, std::uint64_t bytes);
    void refuse(const PacketHeader& packet, Syndrome syndrome);
    void answer(PacketKind kind, std::uint32_t psn, Syndrome syndrome);
    bool send_answer(Response& response);

    // dynamic.cc
    bool follow(const SendWork& work);
    void add_session(PacketHeader& header) const;
    void handle_dynamic(const PacketHeader& packet, const std::uint8_t* payload);
    void serve(const QueuePair& target, const PacketHeader& packet);
    void disconnect();
    void leave_if_idle(std::int64_t now);
    void end_session(std::uint32_t initiator);
    bool has_room_for_session(std::int64_t now);
    void refuse_session(const PacketHeader& packet);
    void return_receive();

    // datagram.cc
    void send_datagrams();
    void handle_datagram(const PacketHeader& packet, const std::uint8_t* payload);

    // path.cc
    bool address_packet(PacketHeader& header, const ibv_ah_attr& path, const EthernetPath& ethernet,
                        std::uint8_t port_index, std::uint16_t pkey_index) const;
    bool transmit(PacketHeader& header, const std::uint8_t* payload);
    bool accepts(const PacketHeader& packet) const;
    void follow_migration(const PacketHeader& packet);
    void announce_migration();
    bool migrate();

    Engine& engine_;
    EthernetPath ethernet_; // of the path
    Requester requester;
    Responder responder;
    std::deque<ReceiveWork> receives_;
    unsigned taken_ = 0; // places of the send queue, until their completions are taken
    bool established_ = false;
    bool was_reset_ = false; // RESET since it was made
    bool last_reached_ = false;
    // Of an initiator: its present connection. Of a session: the one that it serves.
    std::uint32_t session_ = 0;
    std::uint32_t session_psn_ = 0;
    bool connected_ = false;
    std::int64_t used_at_ = 0; // ns, of an initiator's connection or of a session
    std::uint64_t remote_key_ = 0;
    // Of a target, by the initiator's number.
    std::unordered_map<std::uint32_t, std::unique_ptr<QueuePair>> sessions_;
};

inline QueuePair* of(ibv_qp* qp) { return reinterpret_cast<QueuePair*>(qp); }
inline QueuePair* of(ibv_qp_ex* qp) { return reinterpret_cast<QueuePair*>(qp); }

// Bytes of a list.
std::uint64_t total(const std::vector<ibv_sge>& places);

} // namespace adaptib::hca
