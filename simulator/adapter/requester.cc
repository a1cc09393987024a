// SPDX-License-Identifier: BSD-3-Clause
// Requester of a reliable connection (IBA vol. 1, 9.7.3, 9.7.6, 9.7.7).
#include <cerrno>
#include <cstring>

#include "engine.h"

namespace adaptib::hca {
namespace {

constexpr int kWindow = 64; // packets that may wait for an acknowledgement
constexpr unsigned kAckEvery = 16;
constexpr std::int64_t kBusyPause = 200'000; // ns, until an initiator tries a busy target again

// Waits that the RNR timer codes mean, in units of 10 us (IBA vol. 1, table 45).
constexpr std::uint32_t kRnrTimers[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                          16,    24,   32,   48,    64,    96,    128,   192,
                                          256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                          4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    default: return IBV_WC_SEND;
    }
}

bool known(ibv_wr_opcode opcode, bool reliable) {
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return reliable;
    default: return false;
    }
}

} // namespace

bool QueuePair::may_post() const {
    if (state() == IBV_QPS_INIT || state() == IBV_QPS_RTR) {
        return rule(Rule::post_before_rts) != 0;
    }
    return state() != IBV_QPS_RESET;
}

// Checks what a driver looks at when a request is posted.
int QueuePair::check_request(const ibv_send_wr& request) const {
    const bool reads = request.opcode == IBV_WR_RDMA_READ;
    const bool atomic = request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                        request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if ((atomic && rule(Rule::atomics) == 0) ||
        (reads && request.num_sge > rule(Rule::max_sge_rd))) {
        return EINVAL;
    }
    if (rule(Rule::keys_at_post) == 0) {
        return 0;
    }
    for (int index = 0; index < request.num_sge; ++index) {
        const ibv_sge& place = request.sg_list[index];
        if (place.length != 0 &&
            engine_.memory(place.lkey, ex.qp_base.pd, place.addr, place.length,
                           reads || atomic ? IBV_ACCESS_LOCAL_WRITE : 0) == nullptr) {
            return EINVAL;
        }
    }
    return 0;
}

int QueuePair::post_send(const ibv_send_wr& request, const DynamicAddress* to) {
    if (!may_post() || !known(request.opcode, reliable()) || request.num_sge < 0 ||
        static_cast<unsigned>(request.num_sge) > init.cap.max_send_sge) {
        return EINVAL;
    }
    if (taken_ >= init.cap.max_send_wr) {
        return ENOMEM;
    }
    if (const int error = check_request(request); error != 0) {
        return error;
    }
    SendWork work;
    work.request = request;
    if (rule(Rule::inline_ignored) != 0) {
        work.request.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
    }
    work.places.assign(request.sg_list, request.sg_list + request.num_sge);
    work.length = total(work.places);
    work.signaled = init.sq_sig_all != 0 || (request.send_flags & IBV_SEND_SIGNALED) != 0;
    if ((dynamic == Dynamic::initiator) != (to != nullptr)) {
        return EINVAL;
    }
    if (to != nullptr) {
        work.dynamic = *to;
    }
    if (!reliable()) {
        if (request.wr.ud.ah == nullptr) {
            return EINVAL;
        }
        work.address = of(request.wr.ud.ah)->attributes;
        work.ethernet = of(request.wr.ud.ah)->ethernet;
    }
    if ((work.request.send_flags & IBV_SEND_INLINE) != 0) {
        if (work.length > init.cap.max_inline_data || work.reads()) {
            return EINVAL;
        }
        for (const ibv_sge& place : work.places) {
            const auto* const data = reinterpret_cast<const std::uint8_t*>(place.addr);
            work.data.insert(work.data.end(), data, data + place.length);
        }
    }
    requester.work.push_back(std::move(work));
    ++taken_;
    if (state() == IBV_QPS_ERR) {
        complete(IBV_WC_WR_FLUSH_ERR);
    }
    return 0;
}

bool QueuePair::unsent() const {
    return !responder.answers.empty() || (state() == IBV_QPS_RTS && requester.rnr_until == 0 &&
                                          requester.index < requester.work.size());
}

bool QueuePair::waits() const {
    return requester.deadline != 0 || requester.rnr_until != 0 || responder.overtaken.until != 0 ||
           (connected_ && state() == IBV_QPS_RTS);
}

void QueuePair::pump() {
    if (attributes.port_num == 0 || engine_.port_silent(port(attributes.port_num).number)) {
        return;
    }
    bool room = true;
    while (room && !responder.answers.empty() && state() != IBV_QPS_ERR) {
        room = send_answer(responder.answers.front());
    }
    if (!reliable()) {
        send_datagrams();
        return;
    }
    while (room && state() == IBV_QPS_RTS && send_next()) {
    }
    if (!responder.answers.empty()) {
        engine_.schedule(this);
    }
}

// Sends one packet. false: none may be sent now.
bool QueuePair::send_next() {
    if (requester.rnr_until != 0 || requester.index >= requester.work.size()) {
        return false;
    }
    SendWork& work = requester.work[requester.index];
    if (!work.numbered && !may_send(work)) {
        return false;
    }
    if (dynamic == Dynamic::initiator && !follow(work)) {
        return false;
    }
    if (work.length > static_cast<std::uint64_t>(rule(Rule::max_message))) {
        if (requester.index == 0) {
            fail(IBV_WC_LOC_LEN_ERR);
        }
        return false;
    }
    number(work);
    const SendWork& oldest = requester.work.front();
    const std::uint32_t acknowledged =
        static_cast<std::uint32_t>(oldest.first_psn + (oldest.reads() ? 0 : oldest.received));
    const std::uint32_t psn = work.first_psn + requester.packet;
    if (!work.reads() && psn_distance(psn, acknowledged) >= kWindow) {
        return false;
    }
    return send_packet(work);
}

void QueuePair::number(SendWork& work) {
    if (work.numbered) {
        return;
    }
    work.numbered = true;
    work.first_psn = requester.next_psn;
    const std::uint64_t packets = work.atomic() ? 1 : (work.length + mtu() - 1) / mtu();
    work.packets = packets == 0 ? 1 : static_cast<std::uint32_t>(packets);
    requester.next_psn = (requester.next_psn + work.packets) & kPsnMask;
}

// A fence waits for the reads before it; reads wait for their limit.
bool QueuePair::may_send(const SendWork& work) const {
    unsigned reads = 0;
    for (std::size_t index = 0; index < requester.index; ++index) {
        reads += requester.work[index].reads() ? 1 : 0;
    }
    const bool fenced = (work.request.send_flags & IBV_SEND_FENCE) != 0 && reads > 0;
    return !fenced && (!work.reads() || reads < attributes.max_rd_atomic);
}

bool QueuePair::send_packet(SendWork& work) {
    std::uint8_t payload[kMaxMtu];
    PacketHeader header;
    const ibv_send_wr& request = work.request;
    header.address = request.wr.rdma.remote_addr;
    header.rkey = request.wr.rdma.rkey;
    header.length = work.length;
    header.psn = (work.first_psn + requester.packet) & kPsnMask;
    std::uint32_t steps = work.packets;
    if (request.opcode == IBV_WR_RDMA_READ) {
        header.kind = PacketKind::read_request;
        header.psn = static_cast<std::uint32_t>(work.first_psn + work.received / mtu()) & kPsnMask;
        header.address += work.received;
        header.length -= work.received;
        header.flags = kFirst | kLast | kAckRequest;
    } else if (work.atomic()) {
        header.kind = request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? PacketKind::compare_swap
                                                                  : PacketKind::fetch_add;
        header.address = request.wr.atomic.remote_addr;
        header.rkey = request.wr.atomic.rkey;
        header.length = 8;
        header.compare_or_old = request.wr.atomic.compare_add;
        header.swap_or_add = header.kind == PacketKind::compare_swap
                                 ? request.wr.atomic.swap
                                 : request.wr.atomic.compare_add;
        header.flags = kFirst | kLast | kAckRequest;
    } else {
        steps = 1;
        const std::uint64_t offset = std::uint64_t{requester.packet} * mtu();
        header.payload =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(mtu(), work.length - offset));
        const bool last = requester.packet + 1 == work.packets;
        header.kind =
            request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
                ? PacketKind::write
                : PacketKind::send;
        header.flags = static_cast<std::uint8_t>(
            (requester.packet == 0 ? kFirst : 0) | (last ? kLast | kAckRequest : 0) |
            (requester.packet % kAckEvery == kAckEvery - 1 ? kAckRequest : 0));
        if (last && (request.opcode == IBV_WR_SEND_WITH_IMM ||
                     request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)) {
            header.flags |= kImmediate;
            header.immediate = request.imm_data;
        }
        if (last && (request.send_flags & IBV_SEND_SOLICITED) != 0) {
            header.flags |= kSolicited;
        }
        if ((request.send_flags & IBV_SEND_INLINE) != 0) {
            std::memcpy(payload, work.data.data() + offset, header.payload);
        } else if (!engine_.gather(work.places, ex.qp_base.pd, offset, payload, header.payload,
                                   requester.packet < work.sent)) {
            // Those before it come to their end first.
            if (requester.index == 0) {
                fail(IBV_WC_LOC_PROT_ERR);
            }
            return false;
        }
    }
    if (dynamic == Dynamic::initiator) {
        add_session(header);
    }
    if (!transmit(header, payload)) {
        engine_.schedule(this);
        return false;
    }
    if (requester.deadline == 0 && attributes.timeout != 0) {
        requester.deadline = now_ns() + timeout();
    }
    requester.packet += steps;
    work.sent = std::max(work.sent, requester.packet);
    if (requester.packet >= work.packets) {
        ++requester.index;
        requester.packet = 0;
    }
    return true;
}

std::int64_t QueuePair::timeout() const { return std::int64_t{4096} << attributes.timeout; }

// `received` counts the acknowledged packets of a request that is no read.
void QueuePair::go_back() {
    requester.index = 0;
    requester.packet = 0;
    if (!requester.work.empty() && !requester.work.front().reads()) {
        requester.packet = static_cast<std::uint32_t>(requester.work.front().received);
    }
}

void QueuePair::progressed() {
    requester.retries_left = attributes.retry_cnt;
    requester.rnr_left = attributes.rnr_retry;
    requester.deadline = outstanding() && attributes.timeout != 0 ? now_ns() + timeout() : 0;
}

// Completes the oldest request.
void QueuePair::complete(ibv_wc_status status) {
    const SendWork& work = requester.work.front();
    ibv_wc wc{};
    wc.wr_id = work.request.wr_id;
    wc.status = status;
    wc.opcode = completion_opcode(work.request.opcode);
    wc.byte_len = static_cast<std::uint32_t>(work.atomic() ? 8 : work.length);
    wc.qp_num = ex.qp_base.qp_num;
    const bool told = work.signaled || status != IBV_WC_SUCCESS;
    requester.work.pop_front();
    if (requester.index > 0) {
        --requester.index;
    } else {
        requester.packet = 0;
    }
    ++requester.unreleased;
    const bool at_once = rule(Rule::places_free) != 0;
    if (at_once) {
        release(requester.unreleased);
    }
    if (told) {
        hca::complete(*of(init.send_cq),
                      Completion{wc, 0, this, at_once ? 0 : requester.unreleased}, false);
    }
    requester.unreleased = told || at_once ? 0 : requester.unreleased;
}

// Everything up to this number has arrived. A read that it passes over has lost its answer.
void QueuePair::acknowledge(std::uint32_t psn) {
    bool any = false;
    while (!requester.work.empty() && requester.work.front().numbered) {
        SendWork& work = requester.work.front();
        const std::int32_t packets = psn_distance(psn, work.first_psn) + 1;
        if (packets <= 0) {
            break;
        }
        if (work.reads()) {
            if (packets > static_cast<std::int32_t>(work.packets) && requester.index > 0) {
                go_back();
            }
            break;
        }
        any = true;
        if (packets < static_cast<std::int32_t>(work.packets)) {
            if (static_cast<std::uint64_t>(packets) > work.received) {
                work.received = static_cast<std::uint64_t>(packets);
            }
            if (requester.index == 0 && requester.packet < work.received) {
                requester.packet = static_cast<std::uint32_t>(work.received);
            }
            break;
        }
        complete(IBV_WC_SUCCESS);
    }
    if (any) {
        progressed();
    }
}

void QueuePair::handle_ack(const PacketHeader& packet) {
    if (packet.syndrome == Syndrome::ack) {
        acknowledge(packet.psn);
    } else {
        acknowledge((packet.psn - 1) & kPsnMask);
        negative(packet);
    }
}

void QueuePair::negative(const PacketHeader& packet) {
    if (requester.work.empty() || !requester.work.front().numbered ||
        psn_distance(packet.psn, requester.work.front().first_psn) < 0) {
        return;
    }
    switch (packet.syndrome) {
    case Syndrome::rnr_nak:
        if (attributes.rnr_retry != 7 && requester.rnr_left-- <= 0) {
            fail(IBV_WC_RNR_RETRY_EXC_ERR);
            return;
        }
        go_back();
        requester.deadline = 0;
        requester.rnr_until = now_ns() + std::int64_t{kRnrTimers[packet.rnr_timer & 31]} * 10'000;
        return;
    case Syndrome::busy:
        go_back();
        requester.deadline = 0;
        requester.rnr_until = now_ns() + kBusyPause;
        return;
    case Syndrome::sequence_error: retry(); return;
    case Syndrome::invalid_request: fail(IBV_WC_REM_INV_REQ_ERR); return;
    case Syndrome::remote_access_error: fail(IBV_WC_REM_ACCESS_ERR); return;
    default: fail(IBV_WC_REM_OP_ERR); return;
    }
}

void QueuePair::retry() {
    if (requester.retries_left-- <= 0) {
        if (!migrate()) {
            fail(IBV_WC_RETRY_EXC_ERR);
            return;
        }
        requester.retries_left = attributes.retry_cnt;
    }
    go_back();
    requester.deadline = attributes.timeout != 0 ? now_ns() + timeout() : 0;
}

void QueuePair::check_timers(std::int64_t now) {
    if (!reliable() || state() == IBV_QPS_ERR || attributes.port_num == 0 ||
        engine_.port_silent(port(attributes.port_num).number)) {
        return;
    }
    if (requester.rnr_until != 0 && now >= requester.rnr_until) {
        requester.rnr_until = 0;
    } else if (requester.deadline != 0 && now >= requester.deadline) {
        retry();
    }
    if (responder.overtaken.until != 0 && now >= responder.overtaken.until) {
        place_overtaken();
    }
    if (unsent()) {
        pump();
    }
    leave_if_idle(now);
}

void QueuePair::handle_read_response(const PacketHeader& packet, const std::uint8_t* payload) {
    acknowledge((packet.psn - 1) & kPsnMask);
    if (requester.work.empty() || !requester.work.front().numbered) {
        return;
    }
    SendWork& work = requester.work.front();
    if (work.request.opcode != IBV_WR_RDMA_READ) {
        return;
    }
    const auto next = static_cast<std::uint32_t>(work.first_psn + work.received / mtu()) & kPsnMask;
    if (packet.psn != next) {
        if (psn_distance(packet.psn, next) > 0 && requester.index > 0) {
            retry();
        }
        return;
    }
    if (!engine_.scatter(work.places, ex.qp_base.pd, work.received, payload, packet.payload)) {
        fail(IBV_WC_LOC_PROT_ERR);
        return;
    }
    work.received += packet.payload;
    if (work.received >= work.length) {
        complete(IBV_WC_SUCCESS);
    }
    progressed();
}

void QueuePair::handle_atomic_response(const PacketHeader& packet) {
    acknowledge((packet.psn - 1) & kPsnMask);
    if (requester.work.empty() || !requester.work.front().numbered ||
        !requester.work.front().atomic() || requester.work.front().first_psn != packet.psn) {
        return;
    }
    std::uint8_t old[8];
    std::memcpy(old, &packet.compare_or_old, sizeof old);
    if (!engine_.scatter(requester.work.front().places, ex.qp_base.pd, 0, old, sizeof old)) {
        fail(IBV_WC_LOC_PROT_ERR);
        return;
    }
    complete(IBV_WC_SUCCESS);
    progressed();
}

} // namespace adaptib::hca
