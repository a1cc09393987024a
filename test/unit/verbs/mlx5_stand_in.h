// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libmlx5's part of DC queue pairs, beside that for libibverbs (stand_in.h).
//
// Purpose: makes the two ends as mlx5dv_create_qp does and keeps the rules of mlx5dv_wr_post(3).
// Each request has to be begun, given its operation, its target and its memory, once each, and
// completed; none may be begun while the send queue is full, which libmlx5 does not survive. The
// stand-in complains about anything else.
// Names of failures to ask for: "mlx5dv_create_qp", "mlx5dv_qp_ex" (null), "wr_complete".
// Ownership: the StandIn's.  Threads: one.
// May touch: fabric/verbs/mlx5_calls.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/verbs/mlx5_calls.h"
#include "unit/verbs/stand_in.h"

namespace adaptib::test {

const verbs::Mlx5Calls& mlx5_calls();

// One request as it was posted.
struct DcRequest {
    std::uint32_t qp_number = 0;
    std::uint64_t wr_id = 0;
    unsigned flags = 0;
    ibv_wr_opcode opcode = IBV_WR_SEND;
    std::uint32_t remote_key = 0;
    std::uint64_t remote_address = 0;
    std::uint32_t immediate = 0; // host order
    std::uint64_t compare_add = 0;
    std::uint64_t swap = 0;
    ibv_ah* ah = nullptr;
    std::uint32_t target = 0;
    std::uint64_t key = 0;
    std::vector<ibv_sge> list;
    std::optional<std::string> taken; // inline data
};

// Returns the requests since the previous call.
std::vector<DcRequest> take_dc_requests();
// Arguments of one call of mlx5dv_create_qp.
struct DcCreation {
    ibv_qp_init_attr_ex attributes;
    mlx5dv_qp_init_attr mlx5;
};
const std::vector<DcCreation>& dc_creations();
// Forgets everything; called before and after each StandIn.
void reset_dc();

} // namespace adaptib::test
