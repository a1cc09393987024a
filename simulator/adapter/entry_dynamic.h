// SPDX-License-Identifier: BSD-3-Clause
// Functions of the virtual adapter that its libmlx5 calls (mlx5/library.cc).
// Threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

extern "C" {

// 1: the device has dynamically connected queue pairs.
int adaptib_hca_has_dc(ibv_device* device);
// Makes an initiator, or a target with this key. Null: errno says why.
ibv_qp* adaptib_hca_create_dc(ibv_context* context, ibv_qp_init_attr_ex* wanted, int target,
                              std::uint64_t key);
// Sets the destination of the request that is being built.
void adaptib_hca_set_dc_address(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t target, std::uint64_t key);
}
