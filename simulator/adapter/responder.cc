// SPDX-License-Identifier: BSD-3-Clause
// Responder of a reliable connection (IBA vol. 1, 9.7.4, 9.7.5, 9.9.3).
#include <sched.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "engine.h"
#include "in_order.h"

namespace adaptib::hca {
namespace {

constexpr std::int64_t kScramblePause = 20'000; // ns until what was overtaken is placed
constexpr std::int64_t kOvertakePause = 50'000; // ns that a write waits for the one behind it

// Lets the program look at memory meanwhile.
void pause_placement() {
    for (const std::int64_t end = now_ns() + kScramblePause; now_ns() < end;) {
        sched_yield();
    }
}

bool is_request(PacketKind kind) {
    switch (kind) {
    case PacketKind::send:
    case PacketKind::write:
    case PacketKind::read_request:
    case PacketKind::compare_swap:
    case PacketKind::fetch_add: return true;
    default: return false;
    }
}

// A read and a write of their own, between which the processor may write: atomic only with other
// operations of the adapter, since the engine has a lock.
std::uint64_t perform_in_steps(PacketKind kind, std::uint64_t* value, const PacketHeader& packet) {
    const std::uint64_t old = __atomic_load_n(value, __ATOMIC_SEQ_CST);
    sched_yield();
    if (kind == PacketKind::fetch_add) {
        __atomic_store_n(value, old + packet.swap_or_add, __ATOMIC_SEQ_CST);
    } else if (old == packet.compare_or_old) {
        __atomic_store_n(value, packet.swap_or_add, __ATOMIC_SEQ_CST);
    }
    return old;
}

// Atomic towards the processor as well: the queue pairs of a host may be in several processes.
std::uint64_t perform(PacketKind kind, std::uint8_t* memory, const PacketHeader& packet,
                      bool in_steps) {
    auto* const value = reinterpret_cast<std::uint64_t*>(memory);
    if (in_steps) {
        return perform_in_steps(kind, value, packet);
    }
    if (kind == PacketKind::fetch_add) {
        return __atomic_fetch_add(value, packet.swap_or_add, __ATOMIC_SEQ_CST);
    }
    std::uint64_t expected = packet.compare_or_old;
    __atomic_compare_exchange_n(value, &expected, packet.swap_or_add, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    return expected;
}

} // namespace

void QueuePair::handle(const PacketHeader& packet, const std::uint8_t* payload) {
    const ibv_qp_state now = state();
    if (!accepts(packet) || now == IBV_QPS_RESET || now == IBV_QPS_INIT || now == IBV_QPS_ERR) {
        return;
    }
    if (packet.kind == PacketKind::datagram) {
        if (!reliable()) {
            handle_datagram(packet, payload);
        }
        return;
    }
    if (dynamic == Dynamic::target) {
        handle_dynamic(packet, payload);
        return;
    }
    if (!reliable() ||
        packet.has(kDynamic) != (dynamic == Dynamic::session && is_request(packet.kind)) ||
        packet.source_qpn != attributes.dest_qp_num) {
        return;
    }
    follow_migration(packet);
    if (is_request(packet.kind)) {
        handle_request(packet, payload);
    } else if (packet.kind == PacketKind::ack) {
        handle_ack(packet);
    } else if (packet.kind == PacketKind::read_response) {
        handle_read_response(packet, payload);
    } else if (packet.kind == PacketKind::atomic_response) {
        handle_atomic_response(packet);
    }
    if (unsent()) {
        engine_.schedule(this);
    }
}

void QueuePair::handle_request(const PacketHeader& packet, const std::uint8_t* payload) {
    if (state() == IBV_QPS_RTR && !established_ && rule(Rule::comm_est) != 0) {
        established_ = true;
        raise(IBV_EVENT_COMM_EST);
    }
    const std::int32_t ahead = psn_distance(packet.psn, responder.expected);
    if (ahead != 0 && responder.overtaken.until != 0) {
        place_overtaken(); // any answer acknowledges it
    }
    if (ahead < 0) {
        duplicate(packet);
    } else if (ahead > 0) {
        if (!responder.nak_sent) {
            responder.nak_sent = true;
            answer(PacketKind::ack, responder.expected, Syndrome::sequence_error);
        }
    } else {
        responder.nak_sent = false;
        const bool waited = responder.overtaken.until != 0;
        const bool write = packet.kind == PacketKind::write && !packet.has(kImmediate);
        if (waited && !write) {
            place_overtaken(); // only writes overtake writes
        }
        if (!execute(packet, payload)) {
            return;
        }
        if (waited && write && packet.has(kLast)) {
            pause_placement();
            place_overtaken();
        }
        if (packet.kind <= PacketKind::write && packet.has(kAckRequest) &&
            responder.overtaken.until == 0) {
            answer(PacketKind::ack, packet.psn, Syndrome::ack);
        }
    }
}

// The answer was lost: reads are done again, atomics answered from memory.
void QueuePair::duplicate(const PacketHeader& packet) {
    if (packet.kind == PacketKind::read_request) {
        if (engine_.memory(packet.rkey, ex.qp_base.pd, packet.address, packet.length,
                           IBV_ACCESS_REMOTE_READ) != nullptr ||
            packet.length == 0) {
            responder.answers.push_back({packet, 0});
        }
    } else if (packet.kind == PacketKind::compare_swap || packet.kind == PacketKind::fetch_add) {
        for (const AtomicAnswer& done : responder.atomics) {
            if (done.psn == packet.psn) {
                Response response{packet, 0};
                response.header.kind = PacketKind::atomic_response;
                response.header.compare_or_old = done.old;
                responder.answers.push_back(response);
            }
        }
    } else if (packet.has(kAckRequest)) {
        answer(PacketKind::ack, (responder.expected - 1) & kPsnMask, Syndrome::ack);
    }
}

bool QueuePair::execute(const PacketHeader& packet, const std::uint8_t* payload) {
    const bool middle = packet.kind <= PacketKind::write && !packet.has(kFirst);
    if (middle != responder.within) {
        refuse(packet, Syndrome::invalid_request);
        return false;
    }
    bool done = false;
    switch (packet.kind) {
    case PacketKind::send: done = execute_send(packet, payload); break;
    case PacketKind::write: done = execute_write(packet, payload); break;
    case PacketKind::read_request: done = execute_read(packet); break;
    default: done = execute_atomic(packet); break;
    }
    if (done) {
        std::uint64_t packets = 1;
        if (packet.kind == PacketKind::read_request && packet.length > 0) {
            packets = (packet.length + mtu() - 1) / mtu();
        }
        responder.expected = static_cast<std::uint32_t>(responder.expected + packets) & kPsnMask;
        responder.within = packet.kind <= PacketKind::write && !packet.has(kLast);
    }
    return done;
}

bool QueuePair::take_receive(ReceiveWork& work) {
    std::deque<ReceiveWork>& queue = init.srq != nullptr ? of(init.srq)->work : receives_;
    if (queue.empty()) {
        return false;
    }
    work = std::move(queue.front());
    queue.pop_front();
    if (init.srq != nullptr) {
        SharedReceiveQueue& srq = *of(init.srq);
        if (srq.limit != 0 && srq.work.size() < srq.limit) {
            srq.limit = 0;
            ibv_async_event event{};
            event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
            event.element.srq = &srq.srq;
            context().events.push(event);
        }
    }
    return true;
}

bool QueuePair::execute_send(const PacketHeader& packet, const std::uint8_t* payload) {
    if (packet.has(kFirst)) {
        if (!take_receive(responder.receive)) {
            refuse(packet, Syndrome::rnr_nak);
            return false;
        }
        responder.has_receive = true;
        responder.placed = 0;
    }
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (responder.placed + packet.payload > total(responder.receive.places)) {
        status = IBV_WC_LOC_LEN_ERR;
    } else if (!engine_.scatter(responder.receive.places, ex.qp_base.pd, responder.placed, payload,
                                packet.payload)) {
        status = IBV_WC_LOC_PROT_ERR;
    }
    if (status != IBV_WC_SUCCESS) {
        ibv_wc wc{};
        wc.wr_id = responder.receive.id;
        wc.status = status;
        wc.opcode = IBV_WC_RECV;
        wc.qp_num = ex.qp_base.qp_num;
        responder.has_receive = false;
        hca::complete(*of(init.recv_cq), wc, false);
        refuse(packet, status == IBV_WC_LOC_LEN_ERR ? Syndrome::invalid_request
                                                    : Syndrome::remote_operational_error);
        return false;
    }
    responder.placed += packet.payload;
    if (packet.has(kLast)) {
        received(packet, IBV_WC_RECV, responder.placed);
    }
    return true;
}

void QueuePair::received(const PacketHeader& packet, ibv_wc_opcode opcode, std::uint64_t bytes) {
    responder.has_receive = false;
    ibv_wc wc{};
    wc.wr_id = responder.receive.id;
    wc.status = IBV_WC_SUCCESS;
    wc.opcode = opcode;
    wc.byte_len = static_cast<std::uint32_t>(bytes);
    wc.qp_num = ex.qp_base.qp_num;
    wc.src_qp = packet.source_qpn;
    wc.slid = packet.source_lid;
    wc.sl = packet.sl;
    if (packet.has(kImmediate)) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = packet.immediate;
    }
    hca::complete(*of(init.recv_cq), wc, packet.has(kSolicited));
}

// Returns true if the write may be placed in any order, since its region allows that.
bool QueuePair::is_relaxed() const {
    return context().device->description->relaxed_order &&
           (engine_.access(responder.rkey) & IBV_ACCESS_RELAXED_ORDERING) != 0;
}

// The last packet of a write, by its number, is never held: behind it there is nothing.
bool QueuePair::is_placed_last(const PacketHeader& packet) const {
    const std::uint64_t number = is_relaxed() ? 1 : context().device->description->scrambled_writes;
    return number != 0 && responder.placed == (number - 1) * mtu() && !packet.has(kLast);
}

// Returns true if the write that begins with this packet waits for the one behind it.
bool QueuePair::may_be_overtaken(const PacketHeader& packet) const {
    const unsigned which = is_relaxed() ? 2 : context().device->description->scrambled_order;
    return responder.overtaken.until == 0 && packet.payload != 0 && !packet.has(kImmediate) &&
           (packet.has(kLast) ? which >= 1 : which == 2);
}

// Keeps a write, which was checked, for the one behind it. It is acknowledged when it is placed.
bool QueuePair::lets_overtake(const PacketHeader& packet, const std::uint8_t* payload) {
    OvertakenWrite& overtaken = responder.overtaken;
    if (packet.has(kFirst) && may_be_overtaken(packet)) {
        overtaken.within = true;
        overtaken.data.clear();
        overtaken.address = responder.address;
        overtaken.rkey = responder.rkey;
    }
    if (!overtaken.within) {
        return false;
    }
    overtaken.data.insert(overtaken.data.end(), payload, payload + packet.payload);
    overtaken.last = packet;
    if (packet.has(kLast)) {
        overtaken.within = false;
        overtaken.until = now_ns() + kOvertakePause;
        engine_.look_at(overtaken.until);
    }
    if (packet.has(kImmediate)) { // which tells that the data is there
        overtaken.last.flags &= static_cast<std::uint8_t>(~kAckRequest);
        place_overtaken();
        received(packet, IBV_WC_RECV_RDMA_WITH_IMM, responder.placed + packet.payload);
    }
    return true;
}

void QueuePair::place_overtaken() {
    OvertakenWrite& overtaken = responder.overtaken;
    const PacketHeader& packet = overtaken.last;
    const std::size_t bytes = overtaken.data.size();
    overtaken.clear();
    std::uint8_t* const memory = engine_.memory(overtaken.rkey, ex.qp_base.pd, overtaken.address,
                                                bytes, IBV_ACCESS_REMOTE_WRITE);
    if (memory != nullptr) { // else deregistered meanwhile
        static_cast<void>(copy_in_order(memory, overtaken.data.data(), bytes));
    }
    if (packet.has(kAckRequest)) {
        answer(PacketKind::ack, packet.psn, Syndrome::ack);
        engine_.schedule(this);
    }
}

bool QueuePair::execute_write(const PacketHeader& packet, const std::uint8_t* payload) {
    if (packet.has(kFirst)) {
        if ((attributes.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0) {
            refuse(packet, Syndrome::invalid_request);
            return false;
        }
        responder.address = packet.address;
        responder.length = packet.length;
        responder.rkey = packet.rkey;
        responder.placed = 0;
        responder.held.clear();
    }
    // With an immediate value a receive is needed, before the data of the last packet is placed.
    if (packet.has(kImmediate) && !responder.has_receive) {
        if (!take_receive(responder.receive)) {
            refuse(packet, Syndrome::rnr_nak);
            return false;
        }
        responder.has_receive = true;
    }
    const std::uint64_t start = responder.address;
    std::uint8_t* const memory = engine_.memory(responder.rkey, ex.qp_base.pd, start,
                                                responder.length, IBV_ACCESS_REMOTE_WRITE);
    if ((memory == nullptr && responder.length != 0) ||
        responder.placed + packet.payload > responder.length) {
        refuse(packet, Syndrome::remote_access_error);
        return false;
    }
    if (lets_overtake(packet, payload)) {
        responder.placed += packet.payload;
        return true;
    }
    if (is_placed_last(packet)) {
        responder.held.assign(payload, payload + packet.payload);
        responder.held_at = responder.placed;
    } else if (packet.payload != 0) {
        static_cast<void>(copy_in_order(memory + responder.placed, payload, packet.payload));
    }
    responder.placed += packet.payload;
    if (packet.has(kLast)) {
        if (!responder.held.empty()) {
            pause_placement();
            static_cast<void>(copy_pinned(memory + responder.held_at, responder.held.data(),
                                          responder.held.size()));
            responder.held.clear();
        }
        if (packet.has(kImmediate)) {
            received(packet, IBV_WC_RECV_RDMA_WITH_IMM, responder.placed);
        }
    }
    return true;
}

bool QueuePair::execute_read(const PacketHeader& packet) {
    if ((attributes.qp_access_flags & IBV_ACCESS_REMOTE_READ) == 0 ||
        attributes.max_dest_rd_atomic == 0) {
        refuse(packet, Syndrome::invalid_request);
        return false;
    }
    if (packet.length != 0 && engine_.memory(packet.rkey, ex.qp_base.pd, packet.address,
                                             packet.length, IBV_ACCESS_REMOTE_READ) == nullptr) {
        refuse(packet, Syndrome::remote_access_error);
        return false;
    }
    responder.answers.push_back({packet, 0});
    return true;
}

bool QueuePair::execute_atomic(const PacketHeader& packet) {
    if ((attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC) == 0 ||
        attributes.max_dest_rd_atomic == 0 || packet.address % 8 != 0) {
        refuse(packet, Syndrome::invalid_request);
        return false;
    }
    std::uint8_t* const memory =
        engine_.memory(packet.rkey, ex.qp_base.pd, packet.address, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (memory == nullptr) {
        refuse(packet, Syndrome::remote_access_error);
        return false;
    }
    const std::uint64_t old =
        perform(packet.kind, memory, packet, context().device->description->split_atomics);
    responder.atomics.push_back({packet.psn, old});
    if (responder.atomics.size() > attributes.max_dest_rd_atomic) {
        responder.atomics.pop_front();
    }
    Response response{packet, 0};
    response.header.kind = PacketKind::atomic_response;
    response.header.compare_or_old = old;
    responder.answers.push_back(response);
    return true;
}

// Refuses a request. All refusals but "receiver not ready" end the connection here as well.
void QueuePair::refuse(const PacketHeader& packet, Syndrome syndrome) {
    responder.nak_sent = true;
    answer(PacketKind::ack, packet.psn, syndrome);
    if (syndrome == Syndrome::rnr_nak) {
        return;
    }
    while (!responder.answers.empty() && send_answer(responder.answers.front())) {
    }
    if (dynamic == Dynamic::session) { // the target serves others
        fail(IBV_WC_WR_FLUSH_ERR);
        return;
    }
    raise(syndrome == Syndrome::remote_access_error ? IBV_EVENT_QP_ACCESS_ERR
          : syndrome == Syndrome::invalid_request   ? IBV_EVENT_QP_REQ_ERR
                                                    : IBV_EVENT_QP_FATAL);
    fail(IBV_WC_WR_FLUSH_ERR);
}

void QueuePair::answer(PacketKind kind, std::uint32_t psn, Syndrome syndrome) {
    // An acknowledgement that still waits is replaced by the later one.
    if (!responder.answers.empty()) {
        PacketHeader& last = responder.answers.back().header;
        if (last.kind == PacketKind::ack && last.syndrome == Syndrome::ack &&
            psn_distance(psn, last.psn) >= 0) {
            responder.answers.pop_back();
        }
    }
    PacketHeader header;
    header.kind = kind;
    header.psn = psn;
    header.syndrome = syndrome;
    header.rnr_timer = attributes.min_rnr_timer;
    responder.answers.push_back({header, 0});
}

// Sends one packet of an answer and removes it after its last. false: no room.
bool QueuePair::send_answer(Response& response) {
    PacketHeader header = response.header;
    const std::uint8_t* payload = nullptr;
    std::array<std::uint8_t, kMaxMtu> data;
    bool last = true;
    if (header.kind == PacketKind::read_request) {
        const std::uint64_t bytes =
            std::min<std::uint64_t>(mtu(), response.header.length - response.sent);
        header.kind = PacketKind::read_response;
        header.psn = static_cast<std::uint32_t>(header.psn + response.sent / mtu()) & kPsnMask;
        header.payload = static_cast<std::uint32_t>(bytes);
        payload = engine_.memory(header.rkey, ex.qp_base.pd, header.address + response.sent, bytes,
                                 IBV_ACCESS_REMOTE_READ);
        last = response.sent + bytes == response.header.length;
        if (payload != nullptr && !copy_pinned(data.data(), payload, bytes)) {
            data.fill(0); // an answer that is sent again, after the program has gone on
        }
        payload = payload == nullptr ? nullptr : data.data();
        if (payload == nullptr && bytes != 0) { // deregistered meanwhile
            header.kind = PacketKind::ack;
            header.syndrome = Syndrome::remote_access_error;
            header.payload = 0;
            last = true;
        }
    }
    header.flags = 0;
    if (!transmit(header, payload)) {
        engine_.schedule(this);
        return false;
    }
    response.sent += header.payload;
    if (last) {
        responder.answers.pop_front();
    }
    return true;
}

int QueuePair::post_receive(const ibv_recv_wr& request) {
    const bool stays = rule(Rule::receives_stay) != 0;
    if ((state() == IBV_QPS_RESET && !stays) || init.srq != nullptr || request.num_sge < 0 ||
        static_cast<unsigned>(request.num_sge) > init.cap.max_recv_sge) {
        return EINVAL;
    }
    if (receives_.size() >= init.cap.max_recv_wr) {
        return ENOMEM;
    }
    if (state() == IBV_QPS_ERR && !stays) {
        ibv_wc wc{};
        wc.wr_id = request.wr_id;
        wc.status = IBV_WC_WR_FLUSH_ERR;
        wc.opcode = IBV_WC_RECV;
        wc.qp_num = ex.qp_base.qp_num;
        hca::complete(*of(init.recv_cq), wc, false);
        return 0;
    }
    receives_.push_back({request.wr_id, {request.sg_list, request.sg_list + request.num_sge}});
    return 0;
}

} // namespace adaptib::hca
