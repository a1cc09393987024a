// SPDX-License-Identifier: BSD-3-Clause
// The functions of libmlx5 that the fabric uses, as a table, so that a test can stand in.
// Arguments and results are those of the manual pages. What posting a request takes is no part of it: mlx5dv and
// verbs have functions for that in the queue pair itself (ibv_wr_start and so on).
// Threads: constant.
// May touch: libmlx5, libibverbs. The header of the former is included here alone, and this one only where
//   ADAPTIB_HAVE_MLX5DV.
#pragma once

#include <infiniband/mlx5dv.h>

namespace adaptib::verbs {

struct Mlx5Calls {
    bool (*is_supported)(ibv_device* device);
    ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                         mlx5dv_qp_init_attr* mlx5);
    mlx5dv_qp_ex* (*mlx5_qp_of)(ibv_qp_ex* qp);
    ibv_qp_ex* (*qp_ex_of)(ibv_qp* qp); // libibverbs'
};

// libmlx5 as libibverbs has loaded it for the devices that it has listed. False: it has not.
bool load_mlx5(Mlx5Calls& out);

} // namespace adaptib::verbs
