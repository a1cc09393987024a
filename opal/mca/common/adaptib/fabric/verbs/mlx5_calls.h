// SPDX-License-Identifier: BSD-3-Clause
// Functions of libmlx5 that the fabric uses, as a table, so that a test can replace them.
// Arguments and results are those of the manual pages. Posting a request needs no entry: the
// functions of mlx5dv and verbs for that are in the queue pair itself (ibv_wr_start and so on).
// Threads: constant.
// May touch: libmlx5, libibverbs. Only this file includes mlx5dv.h; include this file only with
//   ADAPTIB_HAVE_MLX5DV.
#pragma once

#include <infiniband/mlx5dv.h>

namespace adaptib::verbs {

struct Mlx5Calls {
    bool (*is_supported)(ibv_device* device);
    ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attributes,
                         mlx5dv_qp_init_attr* mlx5);
    mlx5dv_qp_ex* (*mlx5_qp_of)(ibv_qp_ex* qp);
    ibv_qp_ex* (*qp_ex_of)(ibv_qp* qp); // of libibverbs
};

// Fills the table from libmlx5 as libibverbs has loaded it for a listed device. False: not loaded,
// or a function is missing.
bool load_mlx5(Mlx5Calls& out);

} // namespace adaptib::verbs
