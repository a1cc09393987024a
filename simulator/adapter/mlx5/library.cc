// SPDX-License-Identifier: BSD-3-Clause
// libmlx5 of the virtual adapter: the functions for dynamically connected queue pairs, with the
// names and symbol versions of rdma-core's library. Empty where its header is missing.
#if __has_include(<infiniband/mlx5dv.h>)

#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <mutex>
#include <unordered_map>

#include "simulator/adapter/entry_dynamic.h"

namespace {

// A program's interface for posting to an initiator.
struct Poster {
    mlx5dv_qp_ex mlx5{}; // first
    ibv_qp_ex* qp = nullptr;
};

// Stays for the next queue pair at the same place.
Poster* poster_of(ibv_qp_ex* qp) {
    static std::mutex lock;
    static std::unordered_map<ibv_qp_ex*, Poster> posters;
    const std::lock_guard guard(lock);
    Poster& poster = posters[qp];
    poster.qp = qp;
    poster.mlx5.wr_set_dc_addr = [](mlx5dv_qp_ex* to, ibv_ah* ah, std::uint32_t target,
                                    std::uint64_t key) {
        adaptib_hca_set_dc_address(reinterpret_cast<Poster*>(to)->qp, ah, target, key);
    };
    return &poster;
}

} // namespace

extern "C" {

bool mlx5dv_is_supported(ibv_device* device) { return adaptib_hca_has_dc(device) != 0; }

ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* wanted,
                         mlx5dv_qp_init_attr* mlx5) {
    if (mlx5->comp_mask != MLX5DV_QP_INIT_ATTR_MASK_DC) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    const bool target = mlx5->dc_init_attr.dc_type == MLX5DV_DCTYPE_DCT;
    return adaptib_hca_create_dc(context, wanted, target ? 1 : 0,
                                 target ? mlx5->dc_init_attr.dct_access_key : 0);
}

mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) { return &poster_of(qp)->mlx5; }

} // extern "C"

#endif
