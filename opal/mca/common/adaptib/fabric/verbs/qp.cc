// SPDX-License-Identifier: BSD-3-Clause
// Lifetime and states of queue pairs.
#include "fabric/verbs/qp.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/invariant.h"
#include "fabric/qp_rules.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/memory.h"

namespace adaptib::verbs {

namespace {

ibv_qp_state verbs_state(QpState state) {
    switch (state) {
    case QpState::reset: return IBV_QPS_RESET;
    case QpState::init: return IBV_QPS_INIT;
    case QpState::ready_to_receive: return IBV_QPS_RTR;
    case QpState::ready_to_send: return IBV_QPS_RTS;
    case QpState::error: break;
    }
    return IBV_QPS_ERR;
}

QpState state_from(ibv_qp_state state) {
    switch (state) {
    case IBV_QPS_RESET: return QpState::reset;
    case IBV_QPS_INIT: return QpState::init;
    case IBV_QPS_RTR: return QpState::ready_to_receive;
    case IBV_QPS_RTS: return QpState::ready_to_send;
    default: return QpState::error;
    }
}

// Attributes that one bit of QpMask stands for. fill_paths() handles the paths.
struct MaskPair {
    std::uint32_t here;
    int verbs;
};
constexpr MaskPair kMasks[] = {
    {kQpState, IBV_QP_STATE},
    {kQpAccess, IBV_QP_ACCESS_FLAGS},
    {kQpKey, IBV_QP_QKEY},
    {kQpRemote, IBV_QP_DEST_QPN | IBV_QP_RQ_PSN},
    {kQpReceiveLimits, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
    {kQpRetry, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY},
    {kQpSendPsn, IBV_QP_SQ_PSN},
    {kQpSendLimits, IBV_QP_MAX_QP_RD_ATOMIC},
    {kQpMigration, IBV_QP_PATH_MIG_STATE},
};

// Takes what is left out of the receive queue of a queue pair in RESET: the system does so at the
// move to ERR.
int drop_receives(const VerbsRail& rail, ibv_qp* qp) {
    ibv_qp_attr attributes{};
    attributes.port_num = rail.port().number;
    attributes.pkey_index = rail.port().pkey_index();
    const int rights = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    const std::pair<ibv_qp_state, int> moves[] = {
        {IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights},
        {IBV_QPS_ERR, 0},
        {IBV_QPS_RESET, 0}};
    for (const auto& [state, mask] : moves) {
        attributes.qp_state = state;
        const int result = rail.calls().modify_qp(qp, &attributes, IBV_QP_STATE | mask);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

// Reads another port of the device each time, because it may have come up or gone down.
Status alternate_port(VerbsRail& rail, std::uint8_t number, Port& port) {
    if (number == 0 || number == port.number) {
        return kOk;
    }
    if (number > rail.device().limits().phys_port_cnt) {
        return Status::error(Reason::bad_argument);
    }
    Port other;
    std::string& why = rail.error_text_out();
    const Status status = read_port(rail.device(), number, rail.options(), other, why);
    if (!status.ok()) {
        return status;
    }
    if (!other.active()) {
        why = "port " + std::to_string(number) + " of " + rail.device().name() + " is not active";
        return Status::error(Reason::unreachable);
    }
    port = other;
    return kOk;
}

} // namespace

std::uint32_t queue_key(std::uint64_t access_key) {
    return static_cast<std::uint32_t>(access_key ^ access_key >> 32) & 0x7fffffff;
}

// A request has room for whatever a queue pair can do unless its creator says otherwise; then comes
// its list, or inline data (providers/mlx5/verbs.c, sq_overhead, mlx5_calc_send_wqe).
Bytes bytes_of_queues(const ibv_qp_cap& cap) {
    constexpr Bytes kOverhead = 192;
    constexpr Bytes kInlineHeader = 4;
    constexpr Bytes kEntry = 16;
    constexpr Bytes kBlock = 64;
    constexpr Bytes kPage = 4096;
    const Bytes data =
        cap.max_inline_data == 0 ? 0 : round_up(kInlineHeader + cap.max_inline_data, kEntry);
    const Bytes request = round_up(kOverhead + std::max(data, kEntry * cap.max_send_sge), kBlock);
    const Bytes receive = std::bit_ceil(kEntry * cap.max_recv_sge);
    return round_up(
        std::bit_ceil(cap.max_send_wr * request) + std::bit_ceil(cap.max_recv_wr * receive), kPage);
}

VerbsQueuePair::VerbsQueuePair(VerbsRail& rail, const QpInit& init)
    : QueuePair(init.type), rail_(rail),
      send_cq_(*static_cast<VerbsCompletionQueue*>(init.send_cq)),
      receive_cq_(*static_cast<VerbsCompletionQueue*>(init.receive_cq)),
      srq_(static_cast<VerbsSharedReceiveQueue*>(init.srq)),
      places_(init.send_depth, rail.device().frees_places_early()), signal_all_(init.signal_all),
      receive_depth_(init.receive_depth), max_gather_(init.max_gather),
      inline_bytes_(init.inline_bytes) {
    ADAPTIB_INVARIANT(max_gather_ <= kMaxGather, "the list of a request fits on the stack",
                      max_gather_);
}

// Makes room for completions only once the send queue's real depth is known: providers round it up,
// and the caller posts until the queue is full.
int VerbsQueuePair::create() {
    ADAPTIB_INVARIANT(qp_ == nullptr && number_ == 0, "a queue pair is created once", qp_, number_);
    ibv_qp_init_attr init{};
    init.qp_context = this;
    init.send_cq = send_cq_.cq();
    init.recv_cq = receive_cq_.cq();
    init.srq = srq_ == nullptr ? nullptr : srq_->srq();
    init.qp_type = type() == QpType::ud ? IBV_QPT_UD : IBV_QPT_RC;
    init.sq_sig_all = signal_all_ ? 1 : 0;
    init.cap.max_send_wr = std::max(send_depth(), 1u);
    init.cap.max_send_sge = std::max(max_gather_, 1u);
    init.cap.max_inline_data = static_cast<std::uint32_t>(inline_bytes_);
    if (srq_ == nullptr) {
        init.cap.max_recv_wr = std::max(receive_depth_, 1u);
        init.cap.max_recv_sge = std::max(max_gather_, 1u) + (type() == QpType::ud ? 1 : 0);
    }
    errno = 0;
    qp_ = make(init);
    if (qp_ == nullptr) {
        return error_number(-1);
    }
    inline_bytes_ = std::min<Bytes>(inline_bytes_, init.cap.max_inline_data);
    places_.set_depth(send_depth() > 0 ? std::max(send_depth(), init.cap.max_send_wr) : 0);
    int error = send_cq_.make_room(*this);
    if (error == 0 && &receive_cq_ != &send_cq_) {
        error = receive_cq_.make_room(*this);
    }
    if (error != 0) {
        rail_.calls().destroy_qp(std::exchange(qp_, nullptr));
        return error;
    }
    number_ = qp_->qp_num;
    queue_bytes_ = bytes_of_queues(init.cap);
    send_cq_.attach(*this);
    receive_cq_.attach(*this);
    if (srq_ != nullptr) {
        srq_->qps().push_back(this);
    }
    return 0;
}

ibv_qp* VerbsQueuePair::make(ibv_qp_init_attr& init) {
    return rail_.calls().create_qp(rail_.device().pd(), &init);
}

VerbsQueuePair::~VerbsQueuePair() {
    if (qp_ != nullptr) {
        if (rail_.cm_service() != nullptr) {
            rail_.cm_service()->forget(*this);
        }
        rail_.calls().destroy_qp(qp_);
    }
    state_ = QpState::error; // nothing may ask its state any more
    if (number_ != 0) {
        forget_completions();
    }
    send_cq_.detach(*this);
    receive_cq_.detach(*this);
    std::erase(rail_.rearming(), this);
    std::erase(rail_.suspects(), this);
    if (srq_ != nullptr) {
        std::erase(srq_->qps(), this);
    }
}

void VerbsQueuePair::lose_device() {
    state_ = QpState::error;
    reported_ = Reported::lost;
}

void VerbsQueuePair::forget_completions() {
    if (reported_ == Reported::lost) {
        return;
    }
    send_cq_.forget(*this);
    if (&send_cq_ != &receive_cq_) {
        receive_cq_.forget(*this);
    }
    std::erase(rail_.fatal(), number_);
}

// -------------------------------------------------------------------------------------------------
// Known state

void VerbsQueuePair::look_again() const {
    ADAPTIB_INVARIANT(qp_ != nullptr,
                      "a queue pair is asked for its state while the adapter has it", number_);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    if (reported_ == Reported::lost ||
        rail_.calls().query_qp(qp_, &attributes, IBV_QP_STATE, &init) != 0) {
        return;
    }
    const QpState before = std::exchange(state_, state_from(attributes.qp_state));
    if (state_ == QpState::error && before != QpState::error) {
        suspect();
    }
}

// Notes that the queue pair is in ERR without a known reason. Not every device raises an event.
void VerbsQueuePair::suspect() const {
    if (reported_ == Reported::nobody) {
        reported_ = Reported::suspected;
        ADAPTIB_AUDIT(std::count(rail_.suspects().begin(), rail_.suspects().end(), this) == 0,
                      "a queue pair is a suspect once", number_);
        rail_.suspects().push_back(this);
    }
}

bool VerbsQueuePair::needs_event() const {
    send_cq_.fetch();
    receive_cq_.fetch();
    const bool needed = reported_ == Reported::suspected;
    reported_ = needed ? Reported::event : reported_;
    return needed;
}

void VerbsQueuePair::enter_error() {
    if (state_ != QpState::error) {
        move_to_error();
        state_ = QpState::error;
    }
}

void VerbsQueuePair::failed(ibv_wc_status status) {
    enter_error();
    if (status == IBV_WC_WR_FLUSH_ERR) {
        suspect();
    } else if (reported_ != Reported::event) {
        reported_ = Reported::completion;
    }
}

bool VerbsQueuePair::fatal() {
    enter_error();
    return std::exchange(reported_, Reported::event) != Reported::event;
}

QpAttributes VerbsQueuePair::query_impl() const {
    QpAttributes out = attributes_;
    look_again();
    out.state = state_;
    if (type() == QpType::rc && rail_.info().has(Capability::migration)) {
        ibv_qp_attr attributes{};
        ibv_qp_init_attr init{};
        if (rail_.calls().query_qp(qp_, &attributes, IBV_QP_PATH_MIG_STATE, &init) == 0) {
            out.migration = static_cast<MigrationState>(attributes.path_mig_state);
        }
    }
    return out;
}

bool VerbsQueuePair::usable_impl() const {
    return state_ == QpState::ready_to_send && rail_.state() == PortState::active;
}

bool VerbsQueuePair::armed() const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr init{};
    return rail_.calls().query_qp(qp_, &attributes, IBV_QP_PATH_MIG_STATE, &init) == 0 &&
           attributes.path_mig_state == IBV_MIG_ARMED;
}

void VerbsQueuePair::path_migrated() {
    alternate_loaded_ = false;
    attributes_.path = attributes_.alternate_path;
    std::erase(rail_.rearming(), this);
}

// -------------------------------------------------------------------------------------------------
// Transitions

Status VerbsQueuePair::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    if (reported_ == Reported::lost) {
        return Status::error(Reason::no_device);
    }
    QpState to = state_;
    if (const Status status = check_transition(type(), state_, attributes, mask,
                                               rail_.info().has(Capability::migration), to);
        !status.ok()) {
        return status;
    }
    if (const Status status = check_values(attributes, mask); !status.ok()) {
        return status;
    }
    int result = 0;
    if (to == QpState::error) {
        result = move_to_error();
    } else {
        ibv_qp_attr wanted{};
        int wanted_mask = 0;
        if (const Status status = fill(attributes, mask, to, wanted, wanted_mask); !status.ok()) {
            return status;
        }
        result = rail_.calls().modify_qp(qp_, &wanted, wanted_mask);
    }
    if (result == 0 && to == QpState::reset && receive_depth_ > 0 &&
        rail_.device().keeps_receives()) {
        result = drop_receives(rail_, qp_);
    }
    if (result != 0) {
        return refused_move(result);
    }
    took_effect(attributes, mask, to);
    return kOk;
}

Status VerbsQueuePair::refused_move(int result) {
    const int error = error_number(result);
    const QpState before = state_;
    look_again();
    return state_ != before ? Status::error(Reason::bad_state) : path_status(error);
}

void VerbsQueuePair::took_effect(const QpAttributes& attributes, std::uint32_t mask, QpState to) {
    apply_attributes(attributes, mask, attributes_);
    state_ = to;
    if (to == QpState::error && reported_ == Reported::nobody) {
        reported_ = Reported::completion; // the caller's own action
    }
    if (to == QpState::reset) {
        attributes_ = {};
        reported_ = Reported::nobody;
        std::erase(rail_.suspects(), this);
        alternate_loaded_ = false;
        std::erase(rail_.rearming(), this);
        forget_completions();
        places_.clear();
    }
    alternate_loaded_ = alternate_loaded_ || (mask & kQpAlternatePath) != 0;
    if ((mask & kQpMigration) != 0 && attributes.migration == MigrationState::rearm &&
        std::find(rail_.rearming().begin(), rail_.rearming().end(), this) ==
            rail_.rearming().end()) {
        rail_.rearming().push_back(this);
    }
    ADAPTIB_AUDIT(std::count(rail_.rearming().begin(), rail_.rearming().end(), this) <= 1,
                  "a queue pair waits once for ARMED", number_);
}

// Adapters move to ERR from every state except RESET.
int VerbsQueuePair::move_to_error() {
    ADAPTIB_INVARIANT(qp_ != nullptr, "a queue pair moves while the adapter has it", number_);
    ibv_qp_attr attributes{};
    if (state_ == QpState::reset) {
        QpAttributes nothing;
        int mask = 0;
        const std::uint32_t required = kQpState | (type() == QpType::ud   ? kQpKey
                                                   : type() == QpType::rc ? kQpAccess
                                                                          : 0u);
        nothing.state = QpState::init;
        (void)fill(nothing, required, QpState::init, attributes, mask);
        if (const int result = rail_.calls().modify_qp(qp_, &attributes, mask); result != 0) {
            return result;
        }
    }
    attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    const int result = rail_.calls().modify_qp(qp_, &attributes, IBV_QP_STATE);
    if (result != 0 && state_ == QpState::reset) {
        attributes.qp_state = IBV_QPS_RESET;
        rail_.calls().modify_qp(qp_, &attributes, IBV_QP_STATE);
    }
    return result;
}

void VerbsQueuePair::sent() { places_.polled(); }

Status VerbsQueuePair::check_values(const QpAttributes& a, std::uint32_t mask) const {
    const RailInfo& info = rail_.info();
    const bool wrong =
        ((mask & kQpRemote) != 0 && a.remote_qp > kNumberMask) ||
        ((mask & kQpReceiveLimits) != 0 &&
         (a.max_target_reads > info.max_reads || a.rnr_timer > 31)) ||
        ((mask & kQpRetry) != 0 && (a.timeout > 31 || a.retry_count > 7 || a.rnr_retry > 7)) ||
        ((mask & kQpSendLimits) != 0 && a.max_reads > info.max_reads);
    if (wrong) {
        return Status::error(Reason::bad_argument);
    }
    return (mask & kQpMigration) != 0 ? check_migration(a, mask) : kOk;
}

Status VerbsQueuePair::check_migration(const QpAttributes& a, std::uint32_t mask) const {
    switch (a.migration) {
    case MigrationState::rearm:
        return alternate_loaded_ || (mask & kQpAlternatePath) != 0
                   ? kOk
                   : Status::error(Reason::bad_argument);
    case MigrationState::migrated: return armed() ? kOk : Status::error(Reason::bad_state);
    case MigrationState::armed: break;
    }
    return Status::error(Reason::bad_argument);
}

Status VerbsQueuePair::fill(const QpAttributes& a, std::uint32_t mask, QpState to, ibv_qp_attr& out,
                            int& out_mask) {
    for (const MaskPair& pair : kMasks) {
        out_mask |= (mask & pair.here) != 0 ? pair.verbs : 0;
    }
    out.qp_state = verbs_state(to);
    if (state_ == QpState::reset && to == QpState::init) {
        out_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        out.pkey_index = pkey_index_ = rail_.port().pkey_index();
        out.port_num = rail_.port().number;
    }
    out.qp_access_flags = static_cast<unsigned>(verbs_access(rail_, a.access));
    out.qkey = queue_key(a.access_key);
    out.dest_qp_num = a.remote_qp;
    out.rq_psn = a.receive_psn & kNumberMask;
    out.sq_psn = a.send_psn & kNumberMask;
    out.max_rd_atomic = static_cast<std::uint8_t>(a.max_reads);
    out.max_dest_rd_atomic = static_cast<std::uint8_t>(a.max_target_reads);
    out.min_rnr_timer = a.rnr_timer;
    out.timeout = a.timeout;
    out.retry_cnt = a.retry_count;
    out.rnr_retry = a.rnr_retry;
    out.path_mig_state = static_cast<ibv_mig_state>(a.migration);
    add_to_move(to, out, out_mask);
    return fill_paths(a, mask, out, out_mask);
}

Status VerbsQueuePair::fill_paths(const QpAttributes& a, std::uint32_t mask, ibv_qp_attr& out,
                                  int& out_mask) {
    const Port& port = rail_.port();
    PathVector found;
    if ((mask & kQpPath) != 0) {
        out_mask |= IBV_QP_AV | IBV_QP_PATH_MTU;
        if (const Status status = path_vector(port, a.path, rail_.options(), Traffic::connection,
                                              found, rail_.error_text_out());
            !status.ok()) {
            return status;
        }
        out.ah_attr = found.attributes;
        out.path_mtu = found.mtu;
        out.pkey_index = found.pkey_index;
        out_mask |= found.pkey_index != pkey_index_ ? IBV_QP_PKEY_INDEX : 0;
    }
    if ((mask & kQpAlternatePath) != 0) {
        out_mask |= IBV_QP_ALT_PATH;
        Port other = port;
        if (const Status status = alternate_port(rail_, a.alternate_path.source_port, other);
            !status.ok()) {
            return status;
        }
        if (const Status status = path_vector(other, a.alternate_path, rail_.options(),
                                              Traffic::connection, found, rail_.error_text_out());
            !status.ok()) {
            return status;
        }
        out.alt_ah_attr = found.attributes;
        out.alt_port_num = other.number;
        out.alt_pkey_index = found.pkey_index;
        out.alt_timeout = (mask & kQpRetry) != 0 ? a.timeout : attributes_.timeout;
    }
    return kOk;
}

// -------------------------------------------------------------------------------------------------
// Connections by a service

Status VerbsQueuePair::cm_connect_impl(const QpAttributes& attributes, std::uint32_t mask,
                                       const CmConnectParams& params) {
    if (rail_.cm_service() == nullptr || type() != QpType::rc) {
        return Status::error(Reason::not_supported);
    }
    if (state_ == QpState::reset || state_ == QpState::error) {
        return Status::error(Reason::bad_state);
    }
    if ((mask & kCmConnectRequired) != kCmConnectRequired ||
        (mask & ~(kCmConnectRequired | kCmConnectOptional)) != 0) {
        return Status::error(Reason::bad_argument);
    }
    if (const Status status = check_values(attributes, mask & kCmConnectRequired); !status.ok()) {
        return status;
    }
    PathVector found;
    if (const Status status = path_vector(rail_.port(), attributes.path, rail_.options(),
                                          Traffic::connection, found, rail_.error_text_out());
        !status.ok()) {
        return status;
    }
    wanted_ = attributes;
    wanted_mask_ = mask;
    rail_.cm_service()->cm_connect(*this, params);
    return kOk;
}

// The service decides the path, the partition, the packet numbers, and as many reads as both ends
// take. The fabric decides the timeouts and, on RoCE, the flow label of a further path and the
// priority of the options. (On InfiniBand the service level belongs to the path.)
Status VerbsQueuePair::rise(QpState to, const ibv_qp_attr& found) {
    ADAPTIB_INVARIANT(to == QpState::ready_to_receive || to == QpState::ready_to_send,
                      "a connection brings a queue pair to RTR and RTS", to);
    ADAPTIB_INVARIANT(type() == QpType::rc, "a service connects RC queue pairs", number_);
    const Port& port = rail_.port();
    QpAttributes a = wanted_;
    a.state = to;
    a.remote_qp = found.dest_qp_num;
    a.receive_psn = found.rq_psn;
    a.send_psn = found.sq_psn;
    a.max_target_reads = std::min<std::uint32_t>(a.max_target_reads, found.max_dest_rd_atomic);
    a.max_reads = std::min<std::uint32_t>(a.max_reads, found.max_rd_atomic);
    std::uint32_t mask = kQpState | kQpRemote | kQpReceiveLimits;
    if (to == QpState::ready_to_send) {
        mask =
            kQpState | kQpRetry | kQpSendPsn | kQpSendLimits | (wanted_mask_ & kCmConnectOptional);
    }
    if ((mask & kQpMigration) != 0) {
        if (const Status status = check_migration(a, mask); !status.ok()) {
            return status;
        }
    }
    ibv_qp_attr move{};
    int move_mask = 0;
    if (const Status status = fill(a, mask, to, move, move_mask); !status.ok()) {
        return status;
    }
    if (to == QpState::ready_to_receive) {
        move_mask |= IBV_QP_AV | IBV_QP_PATH_MTU;
        move.ah_attr = found.ah_attr;
        move.path_mtu = found.path_mtu;
        move.pkey_index = found.pkey_index;
        move_mask |= found.pkey_index != pkey_index_ ? IBV_QP_PKEY_INDEX : 0;
        if (port.ethernet()) {
            const VerbsOptions& options = rail_.options();
            ibv_global_route& grh = move.ah_attr.grh;
            grh.flow_label = a.path.flow_label != 0 ? a.path.flow_label : grh.flow_label;
            if (options.traffic_class >= 0 || grh.traffic_class == 0) {
                grh.traffic_class = traffic_class_of(port, options);
            }
            move.ah_attr.sl = options.service_level != 0 ? options.service_level : move.ah_attr.sl;
        }
        mask |= kQpPath;
    }
    if (const int result = rail_.calls().modify_qp(qp_, &move, move_mask); result != 0) {
        return refused_move(result);
    }
    took_effect(a, mask, to);
    return kOk;
}

Status VerbsQueuePair::begin_again() {
    ADAPTIB_INVARIANT(type() == QpType::rc, "a service connects RC queue pairs", number_);
    if (state_ == QpState::init) {
        return kOk;
    }
    QpAttributes a;
    a.state = QpState::reset;
    a.access = attributes_.access;
    if (const Status status = modify_impl(a, kQpState); !status.ok()) {
        return status;
    }
    a.state = QpState::init;
    return modify_impl(a, kQpState | kQpAccess);
}

} // namespace adaptib::verbs
