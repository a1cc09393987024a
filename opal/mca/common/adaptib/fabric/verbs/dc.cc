// SPDX-License-Identifier: BSD-3-Clause
// Trial of a rail's DC, and creation of its queue pairs.
#include "fabric/verbs/dc.h"

#include "adaptib_config.h"

#if ADAPTIB_HAVE_MLX5DV

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/invariant.h"
#include "fabric/verbs/dc_queue_pairs.h"

namespace adaptib::verbs {

namespace {

constexpr std::uint32_t kDepth = 16;

// Brings both ends up as users do later, and records what was refused.
class Trial {
public:
    Trial(VerbsRail& rail, DcLimits& limits, std::string& why)
        : rail_(rail), limits_(limits), why_(why) {}

    bool run() {
        return done("completion queue", rail_.create_cq(kDepth, cq_)) &&
               done("shared receive queue", rail_.create_srq(kDepth, srq_)) && initiator() &&
               target();
    }

private:
    bool done(const char* what, Status status) {
        if (!status.ok()) {
            why_ = std::string("no ") + what + ": " + reason_text(status.reason());
        }
        return status.ok();
    }

    int create(QpType type, std::unique_ptr<VerbsQueuePair>& out) {
        QpInit init;
        init.type = type;
        init.send_cq = init.receive_cq = cq_.get();
        init.srq = type == QpType::dc_target ? srq_.get() : nullptr;
        init.send_depth = std::min(kDepth, rail_.info().max_send_depth);
        init.max_gather = rail_.info().max_gather;
        init.inline_bytes = limits_.inline_bytes;
        out = new_dc_queue_pair(rail_, init);
        return out->create();
    }

    bool initiator() {
        std::unique_ptr<VerbsQueuePair> qp;
        int error = create(QpType::dc_initiator, qp);
        while (error == EINVAL && limits_.inline_bytes > 0) { // too many bytes for a request
            limits_.inline_bytes = limits_.inline_bytes > 32 ? limits_.inline_bytes / 2 : 0;
            error = create(QpType::dc_initiator, qp);
        }
        if (error != 0) {
            why_ = std::string("no DC initiator: ") + std::strerror(error);
            return false;
        }
        QpAttributes a;
        for (const QpState state : {QpState::init, QpState::ready_to_receive}) {
            a.state = state;
            if (!done("DC initiator", qp->modify(a, kQpState))) {
                return false;
            }
        }
        a.state = QpState::ready_to_send;
        const auto rise = [&] {
            a.max_reads = limits_.max_reads;
            return qp->modify(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits);
        };
        Status status = rise();
        while (status == Status::error(Reason::bad_argument) && limits_.max_reads > 1) {
            limits_.max_reads /= 2;
            status = rise();
        }
        return done("DC initiator in RTS", status);
    }

    bool target() {
        std::unique_ptr<VerbsQueuePair> qp;
        create(QpType::dc_target, qp); // makes only room until INIT
        QpAttributes a;
        a.state = QpState::init;
        a.max_target_reads = std::min(a.max_target_reads, rail_.info().max_reads);
        a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
        if (!done("DC target", qp->modify(a, kQpState | kQpAccess | kQpKey))) {
            return false;
        }
        a.state = QpState::ready_to_receive;
        if (!done("DC target in RTR", qp->modify(a, kQpState | kQpPath | kQpReceiveLimits))) {
            return false;
        }
        limits_.places_in_order = trusts_order(rail_.device(), qp->writes_in_order());
        return true;
    }

    VerbsRail& rail_;
    DcLimits& limits_;
    std::string& why_;
    std::unique_ptr<CompletionQueue> cq_;
    std::unique_ptr<SharedReceiveQueue> srq_;
};

} // namespace

const Mlx5Calls* mlx5_of(const Mlx5Calls* library, ibv_device* device) {
    return library != nullptr && library->is_supported(device) ? library : nullptr;
}

bool try_dc(VerbsRail& rail, DcLimits& limits, std::string& why) {
    if (rail.device().mlx5() == nullptr) {
        why = rail.device().name() + " is not an mlx5 adapter";
        return false;
    }
    return Trial(rail, limits, why).run();
}

std::unique_ptr<VerbsQueuePair> new_dc_queue_pair(VerbsRail& rail, const QpInit& init) {
    ADAPTIB_INVARIANT(init.type == QpType::dc_initiator || init.type == QpType::dc_target,
                      "a DC queue pair is one of two types", init.type);
    if (init.type == QpType::dc_initiator) {
        return std::make_unique<DcInitiator>(rail, init);
    }
    return std::make_unique<DcTarget>(rail, init);
}

} // namespace adaptib::verbs

#else

namespace adaptib::verbs {

const Mlx5Calls* mlx5_of(const Mlx5Calls*, ibv_device*) { return nullptr; }

bool try_dc(VerbsRail&, DcLimits&, std::string& why) {
    why = "this adaptib was built without mlx5dv (infiniband/mlx5dv.h)";
    return false;
}

std::unique_ptr<VerbsQueuePair> new_dc_queue_pair(VerbsRail&, const QpInit&) { return nullptr; }

} // namespace adaptib::verbs

#endif
