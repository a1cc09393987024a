// SPDX-License-Identifier: BSD-3-Clause
// States of a queue pair and the attributes that each move needs or allows (IBA vol. 1, 10.3.1 and
// 11.2.5.2).
#include <cerrno>

#include "engine.h"

namespace adaptib::hca {
namespace {

struct Move {
    ibv_qp_state from;
    ibv_qp_state to;
    int needs[4]; // RC, UD, DC initiator, DC target
    int allows[4];
};

constexpr int kRunning = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH |
                         IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER;
constexpr int kDatagram = IBV_QP_CUR_STATE | IBV_QP_QKEY;
constexpr int kPlace = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kDrained = kRunning | IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
                         IBV_QP_PKEY_INDEX;

constexpr int kNever = ~0; // a DC target stays in RTR

constexpr Move kMoves[] = {
    {IBV_QPS_RESET,
     IBV_QPS_INIT,
     {kPlace | IBV_QP_ACCESS_FLAGS, kPlace | IBV_QP_QKEY, kPlace, kPlace | IBV_QP_ACCESS_FLAGS},
     {}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {0, 0}, {kPlace | IBV_QP_ACCESS_FLAGS, kPlace | IBV_QP_QKEY}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
          IBV_QP_MIN_RNR_TIMER,
      0, IBV_QP_PATH_MTU, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER},
     {IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
      IBV_QP_PKEY_INDEX | IBV_QP_AV, 0}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
          IBV_QP_MAX_QP_RD_ATOMIC,
      IBV_QP_SQ_PSN,
      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
          IBV_QP_MAX_QP_RD_ATOMIC,
      kNever},
     {kRunning, kDatagram, kRunning, 0}},
    {IBV_QPS_RTS, IBV_QPS_RTS, {0, 0}, {kRunning, kDatagram}},
    {IBV_QPS_RTS, IBV_QPS_SQD, {0, 0}, {IBV_QP_EN_SQD_ASYNC_NOTIFY, IBV_QP_EN_SQD_ASYNC_NOTIFY}},
    {IBV_QPS_SQD, IBV_QPS_RTS, {0, 0}, {kRunning, kDatagram}},
    {IBV_QPS_SQD, IBV_QPS_SQD, {0, 0}, {kDrained, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, {0, 0}, {kRunning, kDatagram}},
};

} // namespace

QueuePair::QueuePair(Engine& engine, ibv_pd* pd, const ibv_qp_init_attr& wanted,
                     std::uint32_t number)
    : init(wanted), engine_(engine) {
    ibv_qp& qp = ex.qp_base;
    qp.context = pd->context;
    qp.qp_context = init.qp_context;
    qp.pd = pd;
    qp.send_cq = init.send_cq;
    qp.recv_cq = init.recv_cq;
    qp.srq = init.srq;
    qp.qp_num = number;
    qp.handle = number;
    qp.qp_type = init.qp_type;
    pthread_mutex_init(&qp.mutex, nullptr);
    pthread_cond_init(&qp.cond, nullptr);
    reset();
}

int QueuePair::modify(const ibv_qp_attr& wanted, int mask, const EthernetPath& ethernet) {
    const ibv_qp_state from = state();
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
    if ((mask & IBV_QP_CUR_STATE) != 0 && wanted.cur_qp_state != from) {
        return EINVAL;
    }
    if (const int error = check_move(wanted, mask, from, to); error != 0) {
        return error;
    }
    if (const int error = check_values(wanted, mask); error != 0) {
        return error;
    }
    take_values(wanted, mask);
    if ((mask & IBV_QP_AV) != 0) {
        ethernet_ = ethernet;
    }
    enter(from, to, mask);
    return 0;
}

int QueuePair::check_move(const ibv_qp_attr&, int mask, ibv_qp_state from, ibv_qp_state to) const {
    if (from == IBV_QPS_ERR && to == IBV_QPS_RESET && !context().device->description->reusable) {
        return EINVAL;
    }
    if (was_reset_ && to == IBV_QPS_INIT && rule(Rule::reset_reuse) == 0) {
        return EINVAL;
    }
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
        return (mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE)) == 0 ? 0 : EINVAL;
    }
    const int kind = dynamic == Dynamic::initiator ? 2
                     : dynamic == Dynamic::target  ? 3
                     : reliable()                  ? 0
                                                   : 1;
    for (const Move& move : kMoves) {
        if (move.from == from && move.to == to) {
            const int known =
                IBV_QP_STATE | IBV_QP_CUR_STATE | move.needs[kind] | move.allows[kind];
            const bool whole = (mask & move.needs[kind]) == move.needs[kind];
            return whole && (mask & ~known) == 0 ? 0 : EINVAL;
        }
    }
    return EINVAL;
}

bool QueuePair::mtu_is_allowed(ibv_mtu wanted, const PortDescription& at) const {
    if (wanted < IBV_MTU_256 || wanted > IBV_MTU_4096) {
        return false;
    }
    const unsigned bytes = 128U << wanted;
    switch (static_cast<MtuCheck>(rule(Rule::mtu_check))) {
    case MtuCheck::port: return bytes <= at.max_mtu;
    case MtuCheck::active: return bytes <= at.active_mtu;
    case MtuCheck::range:
    case MtuCheck::lesser: break;
    }
    return true;
}

unsigned QueuePair::mtu() const {
    const unsigned bytes = 128U << attributes.path_mtu;
    const bool lesser = static_cast<MtuCheck>(rule(Rule::mtu_check)) == MtuCheck::lesser;
    return lesser ? std::min(bytes, port(attributes.port_num).active_mtu) : bytes;
}

int QueuePair::check_values(const ibv_qp_attr& wanted, int mask) const {
    const DeviceDescription& device = *context().device->description;
    const std::uint8_t port_index =
        (mask & IBV_QP_PORT) != 0 ? wanted.port_num : attributes.port_num;
    if ((mask & IBV_QP_PORT) != 0 && (port_index == 0 || port_index > device.ports.size())) {
        return EINVAL;
    }
    if ((mask & IBV_QP_PKEY_INDEX) != 0 && wanted.pkey_index >= port(port_index).pkeys.size()) {
        return EINVAL;
    }
    if ((mask & IBV_QP_PATH_MTU) != 0 && !mtu_is_allowed(wanted.path_mtu, port(port_index))) {
        return EINVAL;
    }
    if ((mask & IBV_QP_AV) != 0 && port(port_index).ethernet && !wanted.ah_attr.is_global) {
        return EINVAL;
    }
    if ((mask & IBV_QP_AV) != 0 && wanted.ah_attr.is_global &&
        wanted.ah_attr.grh.sgid_index >= port(port_index).gids.size()) {
        return wanted.ah_attr.grh.sgid_index < port(port_index).gid_entries ? ENODATA : EINVAL;
    }
    if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && device.rule(Rule::init_reads_cut) == 0 &&
         wanted.max_rd_atomic > device.rule(Rule::max_init_reads)) ||
        ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 &&
         wanted.max_dest_rd_atomic > device.rule(Rule::max_reads))) {
        return EINVAL;
    }
    if ((mask & IBV_QP_ALT_PATH) != 0 && port(port_index).ethernet) {
        return EINVAL;
    }
    if ((mask & IBV_QP_ALT_PATH) != 0 &&
        (wanted.alt_port_num == 0 || wanted.alt_port_num > device.ports.size() ||
         wanted.alt_pkey_index >= port(wanted.alt_port_num).pkeys.size())) {
        return EINVAL;
    }
    if ((mask & IBV_QP_PATH_MIG_STATE) != 0) {
        const bool loaded = attributes.alt_port_num != 0 || (mask & IBV_QP_ALT_PATH) != 0;
        const bool rearm = wanted.path_mig_state == IBV_MIG_REARM && loaded;
        const bool move = wanted.path_mig_state == IBV_MIG_MIGRATED;
        return rearm || move ? 0 : EINVAL;
    }
    return 0;
}

void QueuePair::take_values(const ibv_qp_attr& wanted, int mask) {
    const auto take = [&](int bit, auto member) {
        if ((mask & bit) != 0) {
            attributes.*member = wanted.*member;
        }
    };
    take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
    take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
    take(IBV_QP_PORT, &ibv_qp_attr::port_num);
    take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
    take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
    take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
    take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
    take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
    take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
    take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
    take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
    take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
    take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
    take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_ah_attr);
    take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_pkey_index);
    take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_port_num);
    take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_timeout);
    take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
    take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
    attributes.max_rd_atomic = static_cast<std::uint8_t>(
        std::min<std::int64_t>(attributes.max_rd_atomic, rule(Rule::max_init_reads)));
    if ((mask & IBV_QP_RQ_PSN) != 0) {
        responder.expected = wanted.rq_psn & kPsnMask;
    }
    if ((mask & IBV_QP_SQ_PSN) != 0) {
        requester.next_psn = wanted.sq_psn & kPsnMask;
    }
    if ((mask & IBV_QP_PATH_MIG_STATE) != 0) {
        if (wanted.path_mig_state == IBV_MIG_MIGRATED) {
            migrate();
        } else {
            attributes.path_mig_state = IBV_MIG_REARM;
            announce_migration();
        }
    }
}

void QueuePair::enter(ibv_qp_state from, ibv_qp_state to, int) {
    attributes.qp_state = attributes.cur_qp_state = to;
    ex.qp_base.state = to;
    if (to == IBV_QPS_RESET) {
        was_reset_ = true;
        reset();
    } else if (to == IBV_QPS_ERR && from != IBV_QPS_ERR) {
        flush();
    } else if (to == IBV_QPS_RTS) {
        if (from == IBV_QPS_RTR) {
            requester.retries_left = attributes.retry_cnt;
            requester.rnr_left = attributes.rnr_retry;
        }
        pump();
    }
}

void QueuePair::reset() {
    disconnect();
    requester = {};
    responder = {};
    if (rule(Rule::receives_stay) == 0) {
        receives_.clear();
    }
    taken_ = 0;
    established_ = last_reached_ = connected_ = false;
    end_sessions();
    attributes = {};
    attributes.qp_state = attributes.cur_qp_state = IBV_QPS_RESET;
    attributes.path_mig_state = IBV_MIG_MIGRATED;
    attributes.cap = init.cap;
    ex.qp_base.state = IBV_QPS_RESET;
}

void QueuePair::query(ibv_qp_attr& result, ibv_qp_init_attr& init_result) const {
    result = attributes;
    result.sq_psn = requester.next_psn;
    result.rq_psn = responder.expected;
    result.cap = init.cap;
    init_result = init;
}

void QueuePair::raise(ibv_event_type type) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.qp = pointer();
    context().events.push(event);
}

void QueuePair::fail(ibv_wc_status status) {
    if (state() == IBV_QPS_ERR || state() == IBV_QPS_RESET) {
        return;
    }
    if (status != IBV_WC_WR_FLUSH_ERR && !requester.work.empty()) {
        complete(status);
    }
    attributes.qp_state = attributes.cur_qp_state = IBV_QPS_ERR;
    ex.qp_base.state = IBV_QPS_ERR;
    flush();
}

void QueuePair::flush() {
    while (!requester.work.empty()) {
        complete(IBV_WC_WR_FLUSH_ERR);
    }
    requester.deadline = requester.rnr_until = 0;
    responder.answers.clear();
    responder.overtaken.clear();
    ibv_wc wc{};
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.qp_num = ex.qp_base.qp_num;
    if (responder.has_receive) {
        responder.has_receive = false;
        wc.wr_id = responder.receive.id;
        hca::complete(*of(init.recv_cq), wc, false);
    }
    for (; !receives_.empty(); receives_.pop_front()) {
        wc.wr_id = receives_.front().id;
        hca::complete(*of(init.recv_cq), wc, false);
    }
    if (init.srq != nullptr && !last_reached_) {
        last_reached_ = true;
        if (rule(Rule::last_wqe) != 0) {
            raise(IBV_EVENT_QP_LAST_WQE_REACHED);
        }
    }
}

} // namespace adaptib::hca
