// SPDX-License-Identifier: BSD-3-Clause
// DC targets: their states.
#include "adaptib_config.h"

#if ADAPTIB_HAVE_MLX5DV

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/invariant.h"
#include "fabric/qp_rules.h"
#include "fabric/verbs/dc_queue_pairs.h"
#include "fabric/verbs/errors.h"
#include "fabric/verbs/memory.h"

namespace adaptib::verbs {

namespace {

// Address vector of replies: they leave from this port. Initiators determine their destination.
ibv_ah_attr answers(const Port& port, const PathSpec& path, const VerbsOptions& options) {
    PathSpec own;
    own.gid_index = path.gid_index;
    own.flow_label = path.flow_label;
    own.service_level = path.service_level;
    WireAddress self{};
    decode_address(encode_address(port, 0, nullptr), self);
    ibv_ah_attr out;
    fill_vector(port, own, self, options, out);
    return out;
}

} // namespace

int DcTarget::create() {
    ADAPTIB_INVARIANT(srq_ != nullptr, "a DC target has a shared receive queue", number_);
    srq_->qps().push_back(this);
    return 0;
}

DcTarget::~DcTarget() { end(); }

void DcTarget::end() {
    if (qp_ != nullptr) {
        receive_cq_.detach(*this);
        rail_.calls().destroy_qp(std::exchange(qp_, nullptr));
    }
}

QpAttributes DcTarget::query_impl() const {
    QpAttributes out = attributes_;
    out.state = state_;
    return out;
}

ibv_qp* DcTarget::make_target(std::uint64_t key) {
    ADAPTIB_INVARIANT(rail_.device().mlx5() != nullptr, "libmlx5 makes DC targets", number_);
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_context = static_cast<VerbsQueuePair*>(this);
    wanted.send_cq = send_cq_.cq(); // sends nothing, but verbs requires a CQ
    wanted.recv_cq = receive_cq_.cq();
    wanted.srq = srq_->srq();
    wanted.qp_type = IBV_QPT_DRIVER;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = rail_.device().pd();
    mlx5dv_qp_init_attr dc{};
    dc.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    dc.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
    dc.dc_init_attr.dct_access_key = key;
    errno = 0;
    return rail_.device().mlx5()->create_qp(rail_.device().context(), &wanted, &dc);
}

// Creates a new object even if there is one, because neither key nor rights of an object can
// change. Returns 0 or the error number; after an error the old object is unchanged.
int DcTarget::to_init(const QpAttributes& wanted) {
    ibv_qp* made = make_target(wanted.access_key);
    if (made == nullptr) {
        return error_number(-1);
    }
    ibv_qp_attr move{};
    move.qp_state = IBV_QPS_INIT;
    move.pkey_index = rail_.port().pkey_index();
    move.port_num = rail_.port().number;
    move.qp_access_flags = static_cast<unsigned>(verbs_access(rail_, wanted.access));
    const int result = rail_.calls().modify_qp(
        made, &move, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (result != 0) {
        const int error = error_number(result);
        rail_.calls().destroy_qp(made);
        return error;
    }
    end();
    qp_ = made;
    return 0;
}

// mlx5 takes only one of the receive limits: reads wait until the adapter has room for them.
int DcTarget::to_ready(const QpAttributes& wanted) {
    ADAPTIB_INVARIANT(qp_ != nullptr, "a DC target in INIT is in the adapter", number_);
    if (const int error = receive_cq_.make_room(*this); error != 0) {
        return error;
    }
    ibv_qp_attr move{};
    move.qp_state = IBV_QPS_RTR;
    move.min_rnr_timer = wanted.rnr_timer;
    move.path_mtu = rail_.port().attributes.active_mtu;
    move.ah_attr = answers(rail_.port(), wanted.path, rail_.options());
    const int result = rail_.calls().modify_qp(
        qp_, &move, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU);
    if (result != 0) {
        return error_number(result);
    }
    number_ = qp_->qp_num;
    receive_cq_.attach(*this);
    return 0;
}

Status DcTarget::modify_impl(const QpAttributes& attributes, std::uint32_t mask) {
    QpState to = state_;
    if (const Status status = check_transition(type(), state_, attributes, mask, false, to);
        !status.ok()) {
        return status;
    }
    if (const Status status = check_values(attributes, mask); !status.ok()) {
        return status;
    }
    QpAttributes wanted = attributes_;
    apply_attributes(attributes, mask, wanted);
    int error = 0;
    switch (to) {
    case QpState::init: error = to_init(wanted); break;
    case QpState::ready_to_receive: error = to_ready(wanted); break;
    case QpState::error:
        receive_cq_.fetch(); // keeps what has arrived
        end();
        number_ = 0; // may be another queue pair's number now
        break;
    default: end(); break;
    }
    if (error != 0) {
        rail_.error_text_out() = std::string("a DC target: ") + std::strerror(error);
        return status_of(error);
    }
    took_effect(attributes, mask, to);
    number_ = to == QpState::reset ? 0 : number_;
    return kOk;
}

} // namespace adaptib::verbs

#endif
