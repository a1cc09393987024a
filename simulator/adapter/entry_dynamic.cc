// SPDX-License-Identifier: BSD-3-Clause
// Entry points for dynamically connected queue pairs.
#include "entry_dynamic.h"

#include <cerrno>

#include "engine.h"

using namespace adaptib::hca;

extern "C" {

int adaptib_hca_has_dc(ibv_device* device) { return of(device)->description->dc ? 1 : 0; }

// A target without a shared receive queue, or an initiator with one, does not exist.
ibv_qp* adaptib_hca_create_dc(ibv_context* context, ibv_qp_init_attr_ex* wanted, int target,
                              std::uint64_t key) {
    if (!of(context)->device->description->dc || (wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if ((target != 0) != (wanted->srq != nullptr)) {
        errno = EINVAL;
        return nullptr;
    }
    ibv_qp_init_attr init{};
    init.qp_context = wanted->qp_context;
    init.send_cq = wanted->send_cq;
    init.recv_cq = wanted->recv_cq;
    init.srq = wanted->srq;
    init.cap = wanted->cap;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = wanted->sq_sig_all;
    ibv_qp* const made = ibv_create_qp(wanted->pd, &init);
    if (made == nullptr) {
        return nullptr;
    }
    const std::lock_guard guard(Engine::get()->lock);
    made->qp_type = IBV_QPT_DRIVER;
    of(made)->dynamic = target != 0 ? Dynamic::target : Dynamic::initiator;
    of(made)->access_key = key;
    return made;
}

void adaptib_hca_set_dc_address(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t target,
                                std::uint64_t key) {
    of(qp)->batch_addresses.back() = {of(ah)->attributes, of(ah)->ethernet, target, key};
}

} // extern "C"
