// SPDX-License-Identifier: BSD-3-Clause
#include "driver_rules.h"

#include <cerrno>
#include <sstream>

namespace adaptib::hca {

const std::array<const char*, kDrivers> kDriverNames{"none", "mlx5",    "mlx4",  "hfi1",
                                                     "qib",  "bnxt_re", "irdma", "rxe",
                                                     "siw",  "efa",     "hns",   "strict"};

namespace {

constexpr std::int64_t kNoMemory = ENOMEM;
constexpr std::int64_t kInvalid = EINVAL;
constexpr std::int64_t kAgain = EAGAIN;

} // namespace

// Where firmware decides, the value is what a usual card says. Columns:
//   none, mlx5, mlx4, hfi1, qib, bnxt_re, irdma, rxe, siw, efa, hns, strict
const std::array<RuleRow, kRules> kRuleTable{{
    {Rule::vendor,
     "vendor",
     "vendor_id of ibv_query_device; for none and strict a locally administered one",
     "hw/*/main.c, verbs.c: query_device; <sw/rxe/rxe_param.h> RXE_VENDOR_ID; <sw/siw/siw.h> "
     "SIW_VENDOR_ID",
     "DriverRules.KindsAreAnnounced",
     {0x020000, 0x2c9, 0x2c9, 0x1175, 0x1175, 0x14e4, 0x8086, 0xffffff, 0x626d74, 0x1d0f, 0x19e5,
      0x020000}},
    {Rule::transport,
     "transport",
     "0: InfiniBand or RoCE; 1: iWARP, node type RNIC; 2: unspecified",
     "sw/siw/siw_main.c siw_device_create; hw/efa/efa_main.c efa_ib_device_add; libibverbs/init.c "
     "decode_knode_type",
     "DriverRules.KindsAreAnnounced",
     {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0}},
    {Rule::rc,
     "rc",
     "1: has reliable connections; 0: EOPNOTSUPP",
     "hw/efa/efa_verbs.c efa_qp_validate_attr",
     "DriverRules.QueuePairKinds",
     {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1}},
    {Rule::ud,
     "ud",
     "1: has datagrams; 0: EOPNOTSUPP",
     "sw/siw/siw_verbs.c siw_create_qp",
     "DriverRules.QueuePairKinds",
     {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1}},
    {Rule::atomics,
     "atomics",
     "atomic_cap (0: none, 1: HCA, 2: GLOB); at 0 a posted atomic is EINVAL",
     "hw/mlx5/main.c get_atomic_caps; hw/bnxt_re/ib_verbs.c bnxt_re_query_device; "
     "hw/irdma/verbs.c irdma_query_device; hw/hfi1/verbs.c hfi1_fill_device_attr; sw/rxe/rxe.c "
     "rxe_init_device_param; sw/siw/siw_verbs.c siw_query_device",
     "DriverRules.Atomics",
     {2, 1, 1, 2, 2, 0, 0, 1, 0, 0, 1, 0}},
    {Rule::apm,
     "apm",
     "1: announces path migration. Over Ethernet an alternate path is EINVAL, whoever announces "
     "it",
     "core/verbs.c _ib_modify_qp; hw/mlx4/main.c mlx4_ib_query_device; hw/hfi1/verbs.c "
     "hfi1_fill_device_attr; <sw/rxe/rxe_param.h> RXE_DEVICE_CAP_FLAGS",
     "DriverRules.PathMigration",
     {1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0}},
    {Rule::dmabuf,
     "dmabuf",
     "1: ibv_reg_dmabuf_mr; 0: EOPNOTSUPP",
     "hw/mlx5/mr.c mlx5_ib_reg_user_mr_dmabuf; hw/efa/efa_verbs.c efa_reg_user_mr_dmabuf; "
     "core/uverbs_std_types_mr.c UVERBS_METHOD_REG_DMABUF_MR",
     "DriverRules.FilesAreRegistered",
     {1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}},
    {Rule::resize_cq,
     "resize_cq",
     "1: completion queues can be resized; 0: EOPNOTSUPP",
     "hw/*/main.c, sw/*: ib_device_ops.resize_cq; sw/siw/siw_main.c, hw/efa/efa_main.c and "
     "hw/hns/hns_roce_main.c have none",
     "DriverRules.Resizing",
     {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1}},
    {Rule::resize_busy,
     "resize_busy",
     "1: EBUSY until the queue is polled after it was resized",
     "Linux 6.12 hw/bnxt_re/ib_verbs.c bnxt_re_resize_cq, bnxt_re_resize_cq_complete",
     "DriverRules.Resizing",
     {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}},
    {Rule::max_qp,
     "max_qp",
     "queue pairs",
     "hw/mlx5/main.c mlx5_ib_query_device (firmware); hw/hfi1/verbs.c hfi1_max_qps; "
     "hw/qib/qib_verbs.c ib_qib_max_qps; <hw/bnxt_re/bnxt_re.h> BNXT_RE_MAX_QPC_COUNT; "
     "<sw/rxe/rxe_param.h> RXE_MAX_QP; <sw/siw/siw.h> SIW_MAX_QP; <hw/hns/hns_roce_hw_v2.h> "
     "HNS_ROCE_V2_MAX_QP_NUM",
     "DriverRules.ObjectsAreCounted",
     {8000, 262144, 262144, 32768, 16384, 65536, 262144, 1048560, 102400, 256, 4096, 256}},
    {Rule::max_cq,
     "max_cq",
     "completion queues",
     "hw/hfi1/verbs.c hfi1_max_cqs; hw/qib/qib_verbs.c ib_qib_max_cqs; <hw/bnxt_re/bnxt_re.h> "
     "BNXT_RE_MAX_CQ_COUNT; <sw/rxe/rxe_param.h> RXE_MAX_CQ; <sw/siw/siw.h> SIW_MAX_CQ; "
     "<hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_CQ_NUM",
     "DriverRules.ObjectsAreCounted",
     {65536, 16777216, 65408, 131071, 131071, 65536, 524288, 1048576, 102400, 512, 1048576, 512}},
    {Rule::max_pd,
     "max_pd",
     "protection domains",
     "hw/hfi1/verbs.c hfi1_max_pds; sw/rdmavt/pd.c rvt_alloc_pd; hw/bnxt_re/qplib_sp.c "
     "bnxt_qplib_get_dev_attr; <sw/rxe/rxe_param.h> RXE_MAX_PD; <sw/siw/siw.h> SIW_MAX_PD; "
     "<hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_PD_NUM",
     "DriverRules.ObjectsAreCounted",
     {1048576, 16777216, 32764, 65535, 65535, 65536, 262144, 1048576, 102400, 256, 16777216, 256}},
    {Rule::max_mr,
     "max_mr",
     "memory regions",
     "sw/rdmavt/mr.c rvt_driver_mr_init, hw/hfi1/verbs.c hfi1_lkey_table_size; "
     "<hw/bnxt_re/bnxt_re.h> BNXT_RE_MAX_MRW_COUNT; <sw/rxe/rxe_param.h> RXE_MAX_MR; "
     "<sw/siw/siw.h> SIW_MAX_MR; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_MTPT_NUM",
     "DriverRules.ObjectsAreCounted",
     {1048576, 16777216, 524032, 65536, 65536, 262144, 2097152, 524287, 1024000, 262144, 1048576,
      65536}},
    {Rule::max_ah,
     "max_ah",
     "address handles; an announced 0 is no limit",
     "hw/hfi1/verbs.c hfi1_max_ahs, sw/rdmavt/ah.c rvt_create_ah; hw/mlx5/main.c "
     "mlx5_ib_query_device; <sw/rxe/rxe_param.h> RXE_MAX_AH; hw/hns/hns_roce_main.c "
     "hns_roce_query_device",
     "DriverRules.ObjectsAreCounted",
     {1048576, kAny, kAny, 65535, 65535, 131072, 131072, 32767, 0, 65535, 0, 32767}},
    {Rule::max_srq,
     "max_srq",
     "shared receive queues; 0: EOPNOTSUPP",
     "hw/hfi1/verbs.c hfi1_max_srqs; <sw/rxe/rxe_param.h> RXE_MAX_SRQ; <sw/siw/siw.h> "
     "SIW_MAX_SRQ; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_SRQ_NUM; hw/irdma/verbs.c and "
     "hw/efa/efa_main.c have no create_srq",
     "DriverRules.ObjectsAreCounted",
     {1024, 8388608, 65472, 1024, 1024, 65535, 0, 917503, 102400, 0, 1048576, 0}},
    {Rule::full_error,
     "full_error",
     "errno at one of these six limits",
     "hw/mlx5: drivers/net/ethernet/mellanox/mlx5/core/cmd.c cmd_status_to_err (LIM_ERR ENOMEM, "
     "NO_RES_ERR EAGAIN); sw/rdmavt/{qp,cq,pd,ah,srq}.c; sw/rxe/rxe_pool.c __rxe_add_to_pool; "
     "sw/siw/siw_verbs.c",
     "DriverRules.ObjectsAreCounted",
     {kNoMemory, kNoMemory, kNoMemory, kNoMemory, kNoMemory, kNoMemory, kNoMemory, kInvalid,
      kNoMemory, kNoMemory, kNoMemory, kAgain}},
    {Rule::cgroup_objects,
     "cgroup_objects",
     "hca_object of rdma.max, objects of a process; beyond them EAGAIN; 0: no limit",
     "kernel/cgroup/rdma.c rdmacg_try_charge; core/rdma_core.c alloc_begin_idr_uobject",
     "DriverRules.ControlGroup",
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {Rule::max_qp_wr,
     "max_qp_wr",
     "requests in a queue; more: EINVAL",
     "hw/mlx5/main.c mlx5_ib_query_device; <hw/mlx4/mlx4_ib.h> MLX4_IB_SQ_MAX_SPARE; "
     "hw/hfi1/verbs.c hfi1_max_qp_wrs; hw/bnxt_re/qplib_sp.c bnxt_qplib_get_dev_attr; "
     "<hw/irdma/defs.h> IRDMA_MAX_QP_WRS; <sw/rxe/rxe_param.h> RXE_MAX_QP_WR; <sw/siw/siw.h> "
     "SIW_MAX_QP_WR; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_WQE_NUM",
     "DriverRules.LimitsOfQueuePairs",
     {16384, 32768, 16351, 16383, 16383, 65407, 4063, 1048576, 32768, 4096, 32768, 4063}},
    {Rule::max_sge,
     "max_sge",
     "entries of a request; more: EINVAL",
     "hw/mlx5/main.c mlx5_ib_query_device; hw/hfi1/verbs.c hfi1_max_sges; <hw/bnxt_re/qplib_fp.h> "
     "BNXT_QPLIB_QP_MAX_SGL; <hw/irdma/user.h> IRDMA_MAX_WQ_FRAGMENT_COUNT; <sw/rxe/rxe_param.h> "
     "RXE_MAX_SGE; <include/uapi/rdma/siw-abi.h> SIW_MAX_SGE; <hw/hns/hns_roce_hw_v2.h> "
     "HNS_ROCE_V2_MAX_SQ_SGE_NUM",
     "DriverRules.LimitsOfQueuePairs",
     {30, 30, 32, 96, 96, 6, 13, 32, 6, 2, 64, 2}},
    {Rule::max_sge_rd,
     "max_sge_rd",
     "entries of an RDMA read; more: EINVAL when it is posted",
     "<include/linux/mlx5/device.h> MLX5_MAX_SGE_RD; <sw/siw/siw.h> SIW_MAX_SGE_RD, "
     "sw/siw/siw_verbs.c siw_post_send; <hw/irdma/user.h> IRDMA_MAX_SGE_RD; "
     "hw/hns/hns_roce_main.c hns_roce_query_device",
     "DriverRules.EntriesOfReads",
     {30, 30, 30, 96, 96, 6, 13, 32, 1, 1, 1, 1}},
    {Rule::max_inline,
     "max_inline",
     "max_inline_data that may be asked for; more: EINVAL",
     "providers/mlx5/verbs.c mlx5_calc_send_wqe; providers/mlx4/qp.c mlx4_calc_sq_wqe_size; "
     "sw/rdmavt/qp.c rvt_create_qp (any); <hw/bnxt_re/qplib_fp.h> "
     "BNXT_QPLIB_SWQE_MAX_INLINE_LENGTH; <hw/irdma/user.h> IRDMA_MAX_INLINE_DATA_SIZE; "
     "<sw/rxe/rxe_param.h> RXE_MAX_INLINE_DATA; <include/uapi/rdma/siw-abi.h> SIW_MAX_INLINE; "
     "hw/efa/efa_verbs.c efa_qp_validate_cap; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_SQ_INLINE",
     "DriverRules.LimitsOfQueuePairs",
     {256, 828, 928, kAny, kAny, 96, 101, 512, 80, 32, 32, kAny}},
    {Rule::max_cqe,
     "max_cqe",
     "completions of a queue; more: EINVAL",
     "hw/mlx5/main.c mlx5_ib_query_device; hw/hfi1/verbs.c hfi1_max_cqes; hw/qib/qib_verbs.c "
     "ib_qib_max_cqes; <hw/irdma/user.h> IRDMA_MAX_CQ_SIZE; <sw/rxe/rxe_param.h> RXE_MAX_LOG_CQE; "
     "<sw/siw/siw.h> SIW_MAX_CQE; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_CQE_NUM",
     "DriverRules.CompletionQueueDepth",
     {262144, 4194303, 4194303, 3145727, 196607, 8388608, 1048574, 32767, 3276800, 32768, 4194304,
      32767}},
    {Rule::max_srq_wr,
     "max_srq_wr",
     "receives of a shared queue; more: EINVAL",
     "hw/hfi1/verbs.c hfi1_max_srq_wrs; <sw/rxe/rxe_param.h> RXE_MAX_SRQ_WR; <sw/siw/siw.h> "
     "SIW_MAX_SRQ_WR; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_SRQ_WR",
     "DriverRules.SharedReceiveQueues",
     {16384, 32767, 16383, 131071, 131071, 65534, 0, 1048576, 327680, 0, 32768, 0}},
    {Rule::max_srq_sge,
     "max_srq_sge",
     "entries of a receive of a shared queue; more: EINVAL",
     "hw/mlx5/main.c mlx5_ib_query_device; hw/hfi1/verbs.c hfi1_max_srq_sges; "
     "<sw/rxe/rxe_param.h> RXE_MAX_SRQ_SGE; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_SRQ_SGE",
     "DriverRules.SharedReceiveQueues",
     {30, 31, 31, 128, 128, 6, 0, 27, 6, 0, 64, 0}},
    {Rule::max_reads,
     "max_reads",
     "reads and atomics that a queue pair serves at a time (max_qp_rd_atom); more: EINVAL",
     "hw/mlx5/qp.c validate_rd_atomic; <hw/hfi1/verbs.h> HFI1_MAX_RDMA_ATOMIC; "
     "<hw/bnxt_re/qplib_sp.h> BNXT_QPLIB_MAX_OUT_RD_ATOM; <hw/irdma/icrdma_hw.h> "
     "ICRDMA_MAX_IRD_SIZE; <sw/rxe/rxe_param.h> RXE_MAX_QP_RD_ATOM; <sw/siw/siw.h> "
     "SIW_MAX_ORD_QP; <hw/hns/hns_roce_hw_v2.h> HNS_ROCE_V2_MAX_QP_DEST_RDMA",
     "DriverRules.Reads",
     {16, 16, 16, 16, 16, 126, 127, 128, 128, 0, 128, 16}},
    {Rule::max_init_reads,
     "max_init_reads",
     "reads and atomics that a queue pair has outstanding (max_qp_init_rd_atom); more: EINVAL",
     "hw/hfi1/verbs.c hfi1_fill_device_attr (255); <hw/irdma/icrdma_hw.h> ICRDMA_MAX_ORD_SIZE; "
     "others as max_reads",
     "DriverRules.Reads",
     {16, 16, 16, 255, 255, 126, 255, 128, 128, 0, 128, 16}},
    {Rule::init_reads_cut,
     "init_reads_cut",
     "1: a greater max_rd_atomic is taken for the greatest; 0: EINVAL",
     "hw/bnxt_re/ib_verbs.c bnxt_re_modify_qp (1); sw/rxe/rxe_qp.c rxe_qp_chk_attr, "
     "hw/hns/hns_roce_qp.c hns_roce_check_qp_attr, hw/irdma/verbs.c irdma_modify_qp_roce (0)",
     "DriverRules.Reads",
     {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
    {Rule::max_message,
     "max_message",
     "bytes of a message (max_msg_sz of a port); longer: local length error",
     "hw/mlx5/main.c mlx5_query_port_roce; sw/rdmavt/vt.c rvt_query_port; hw/bnxt_re/ib_verbs.c "
     "bnxt_re_query_port; <hw/irdma/user.h> IRDMA_MAX_OUTBOUND_MSG_SIZE; <sw/rxe/rxe_param.h> "
     "RXE_PORT_MAX_MSG_SZ; hw/efa/efa_verbs.c efa_query_port (mtu)",
     "DriverRules.LongMessages",
     {1073741824, 1073741824, 1073741824, 2147483648, 2147483648, 1073741824, 2147483647, 8388608,
      4294967295, 8928, 2147483648, 8388608}},
    {Rule::wr_api,
     "wr_api",
     "1: queue pairs with ibv_wr_*; 0: EOPNOTSUPP",
     "providers/{mlx5,bnxt_re,efa,hns,rxe}/*.c: IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; libibverbs/cmd.c "
     "ibv_cmd_create_qp_ex (no such flag)",
     "DriverRules.WorkRequestCalls",
     {1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0}},
    {Rule::inline_returned,
     "inline_returned",
     "max_inline_data of a new queue pair. 0: as asked; 1: 0, whatever was asked; 2: what its "
     "entry holds, of whole blocks of 64 bytes; 3: what its entry holds, a power of two; 4: all "
     "entries of the list; 5: a power of two",
     "sw/rdmavt/qp.c rvt_create_qp (1); providers/mlx5/verbs.c mlx5_calc_sq_size (2); "
     "providers/mlx4/qp.c mlx4_set_sq_sizes (3); sw/rxe/rxe_qp.c rxe_qp_init_req (4); "
     "providers/hns/hns_roce_u_verbs.c get_max_inline_data (5)",
     "DriverRules.InlineAsReturned",
     {0, 2, 3, 1, 1, 0, 0, 4, 0, 0, 5, 1}},
    {Rule::inline_ignored,
     "inline_ignored",
     "1: IBV_SEND_INLINE has no effect: the data is read when it is sent, by its key",
     "sw/rdmavt/qp.c rvt_post_one_wr; providers/hfi1verbs/verbs.c hfi1_post_send",
     "DriverRules.InlineIsIgnored",
     {0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1}},
    {Rule::send_depth,
     "send_depth",
     "max_send_wr of a new queue pair. 0: as asked; 1: a power of two; 2: a power of two less "
     "one; 3: entries in a power of two of blocks; 4: a power of two less 2 KiB and an entry; 5: "
     "a power of two less 258",
     "sw/siw/siw_verbs.c siw_create_qp (1); sw/rxe/rxe_queue.c rxe_queue_init (2); "
     "providers/mlx5/verbs.c mlx5_calc_sq_size (3); <hw/mlx4/mlx4_ib.h> MLX4_IB_SQ_HEADROOM, "
     "providers/mlx4/qp.c mlx4_set_sq_sizes (4); providers/irdma/uverbs.c irdma_ucreate_qp (5); "
     "providers/efa/verbs.c create_qp, providers/hns/hns_roce_u_verbs.c (1)",
     "DriverRules.SendDepth",
     {0, 3, 4, 0, 0, 0, 5, 2, 1, 1, 1, 0}},
    {Rule::entry_block,
     "entry_block",
     "bytes of a block. Where it is not 0, max_qp_wr counts blocks: deeper queues of long entries "
     "are EINVAL",
     "providers/mlx5/verbs.c mlx5_calc_sq_size (max_send_wqebb)",
     "DriverRules.SendDepth",
     {0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64}},
    {Rule::cqe_depth,
     "cqe_depth",
     "cqe of a new completion queue. 0: as asked; 1: a power of two; 2: a power of two less one",
     "providers/mlx5/verbs.c create_cq, providers/mlx4/verbs.c mlx4_create_cq (2); "
     "sw/rxe/rxe_queue.c rxe_queue_init (2); hw/bnxt_re/ib_verbs.c bnxt_re_create_cq, "
     "sw/siw/siw_verbs.c siw_create_cq (1); hw/hns/hns_roce_cq.c set_cq_param (2); sw/rdmavt/cq.c "
     "rvt_create_cq (0)",
     "DriverRules.CompletionQueueDepth",
     {0, 2, 2, 0, 0, 1, 0, 2, 1, 1, 2, 0}},
    {Rule::reset_reuse,
     "reset_reuse",
     "1: a queue pair that was reset can be used again; 0: INIT is EINVAL then",
     "hw/irdma/verbs.c irdma_modify_qp_roce (RESET moves to the hardware's error state, INIT needs "
     "an earlier one)",
     "DriverRules.ResetQueuePairs",
     {1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0}},
    {Rule::post_before_rts,
     "post_before_rts",
     "1: a request posted before RTS waits for it; 0: EINVAL",
     "providers/mlx5/verbs.c set_qp_operational_state; providers/mlx4/qp.c mlx4_post_send (no "
     "check); sw/rdmavt/qp.c rvt_post_send; providers/hns/hns_roce_u_hw_v2.c check_qp_send; "
     "providers/efa/verbs.c efa_post_send; providers/bnxt_re/verbs.c bnxt_re_post_send, "
     "providers/irdma/uverbs.c irdma_upost_send (no check)",
     "DriverRules.PostingBeforeReady",
     {0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0}},
    {Rule::receives_stay,
     "receives_stay",
     "1: the receive queue is the program's memory: it takes receives in any state, the move to "
     "ERR flushes what is in it, later ones stay, and RESET leaves them there; 0: a receive posted "
     "in RESET is EINVAL, one in ERR is flushed, RESET drops all",
     "providers/hfi1verbs/verbs.c, providers/ipathverbs/verbs.c: post_recv; sw/rdmavt/qp.c "
     "rvt_error_qp, rvt_init_qp (from Linux 5.3 on)",
     "DriverRules.ReceivesThatStay",
     {0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0}},
    {Rule::entries_error,
     "entries_error",
     "errno of a request with more entries than its queue pair takes (as returned: those "
     "that fit where inline_returned bytes do, for 3 and 4)",
     "providers/mlx4/qp.c mlx4_post_send, providers/bnxt_re/verbs.c bnxt_re_post_send (ENOMEM); "
     "providers/mlx5/qp.c _mlx5_post_send, "
     "sw/rdmavt/qp.c rvt_post_one_wr, providers/rxe/rxe.c validate_send_wr (EINVAL)",
     "DriverRules.TooManyEntries",
     {kInvalid, kInvalid, kNoMemory, kInvalid, kInvalid, kNoMemory, kInvalid, kInvalid, kInvalid,
      kInvalid, kInvalid, kNoMemory}},
    {Rule::keys_at_post,
     "keys_at_post",
     "1: a wrong local key or range is EINVAL when it is posted, 0: a completion with a local "
     "protection error",
     "sw/rdmavt/qp.c rvt_post_one_wr, sw/rdmavt/mr.c rvt_lkey_ok",
     "DriverRules.KeysAtPost",
     {0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1}},
    {Rule::places_free,
     "places_free",
     "places of a send queue are free: 0: when the program has taken a completion behind them; 1: "
     "when they are done",
     "providers/mlx5/qp.c mlx5_wq_overflow, providers/mlx5/cq.c; sw/rdmavt/qp.c rvt_qp_is_avail "
     "(1); providers/rxe/rxe.c queue_full (1)",
     "DriverRules.PlacesOfSendQueues",
     {0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0}},
    {Rule::cq_overrun,
     "cq_overrun",
     "a completion too many raises IBV_EVENT_CQ_ERR and, 1: is the last of its queue; 0: is lost, "
     "later ones come, and the event again",
     "sw/rdmavt/cq.c rvt_cq_enter (cq_full); sw/rxe/rxe_cq.c rxe_cq_post",
     "DriverRules.Overrun",
     {1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1}},
    {Rule::order_told,
     "order_told",
     "ibv_query_qp_data_in_order: 0: no; 1: as in_order says; 2: that in RTS, or for a DC target "
     "in RTR, else no",
     "providers/mlx5/verbs.c mlx5_query_qp_data_in_order (2); libibverbs/dummy_ops.c "
     "query_qp_data_in_order (0); providers/efa/verbs.c efa_query_qp_data_in_order (0 for whole "
     "messages)",
     "DriverRules.OrderIsTold",
     {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {Rule::mtu_check,
     "mtu_check",
     "path_mtu is checked, 0: by itself; 1: against max_mtu; 2: against active_mtu (EINVAL); 3: "
     "not, the lesser is used",
     "hw/mlx5/qp.c __mlx5_ib_modify_qp, hw/mlx4/qp.c (0); sw/rxe/rxe_qp.c rxe_qp_chk_attr (1); "
     "hw/bnxt_re/ib_verbs.c bnxt_re_modify_qp, hw/hns/hns_roce_qp.c check_mtu_validate (2); "
     "sw/rdmavt/qp.c rvt_modify_qp, hw/hfi1/qp.c get_pmtu_from_attr (3)",
     "DriverRules.PathMtu",
     {2, 0, 0, 3, 3, 2, 0, 1, 2, 2, 2, 2}},
    {Rule::pkey_table,
     "pkey_table",
     "entries of an InfiniBand port's P_Key table, those of the file first, then empty ones; 0: "
     "those of the file",
     "hw/mlx5/main.c mlx5_query_hca_port (firmware); hw/hfi1/verbs.c hfi1_get_npkeys; "
     "hw/qib/qib_init.c qib_get_npkeys",
     "DriverRules.Tables",
     {0, 128, 128, 16, 4, 0, 0, 0, 0, 0, 0, 128}},
    {Rule::gid_table,
     "gid_table",
     "entries of a port's GID table, those of the file first, then empty ones (ibv_query_gid: "
     "zeros; ibv_query_gid_ex: ENODATA); 0: those of the file",
     "hw/mlx5/main.c mlx5_query_port_roce (firmware); <hw/hfi1/hfi.h> HFI1_GUIDS_PER_PORT; "
     "<hw/bnxt_re/qplib_sp.h> BNXT_QPLIB_NUM_GIDS_SUPPORTED; hw/irdma/verbs.c irdma_query_port; "
     "<sw/rxe/rxe_param.h> RXE_PORT_GID_TBL_LEN; libibverbs/verbs.c ibv_query_gid",
     "DriverRules.Tables",
     {0, 255, 128, 5, 5, 256, 32, 1024, 0, 0, 256, 255}},
    {Rule::gid_twice,
     "gid_twice",
     "1: each GID of an Ethernet port is there twice, as RoCE v1 and behind it as RoCE v2",
     "core/cache.c ib_cache_gid_set_default_gid, core/roce_gid_mgmt.c update_gid; hw/mlx5/main.c "
     "mlx5_port_immutable, hw/bnxt_re/ib_verbs.c bnxt_re_get_port_immutable",
     "DriverRules.Tables",
     {0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1}},
    {Rule::arp,
     "arp",
     "1: a handle or connection over Ethernet asks for the destination's MAC address: up to 1 s, "
     "then ETIMEDOUT, each time anew; it keeps the address (irdma's queue pairs follow the "
     "system's table instead, hw/irdma/utils.c irdma_net_event: not here)",
     "core/verbs.c ib_resolve_unicast_gid_dmac; core/addr.c rdma_addr_find_l2_eth_by_grh, "
     "rdma_resolve_ip",
     "AdapterNeighbours.SilenceTakesASecondEachTime",
     {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1}},
    {Rule::udp_port,
     "udp_port",
     "source port of packets without a flow label. 0: of the two queue pairs' numbers; 1: of a "
     "handle: at random, each anew",
     "providers/mlx5/verbs.c mlx5_ah_set_udp_sport; providers/hns/hns_roce_u_verbs.c "
     "get_ah_udp_sport; <include/rdma/ib_verbs.h> rdma_get_udp_sport",
     "DriverRules.SourcePorts",
     {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}},
    {Rule::comm_est,
     "comm_est",
     "1: IBV_EVENT_COMM_EST for a request that arrives in RTR",
     "hw/mlx5/qp.c mlx5_ib_qp_event; hw/hfi1/rc.c hfi1_rc_rcv; none in hw/bnxt_re, hw/irdma, "
     "sw/rxe, sw/siw",
     "DriverRules.Events",
     {1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0}},
    {Rule::last_wqe,
     "last_wqe",
     "1: IBV_EVENT_QP_LAST_WQE_REACHED for a queue pair with a shared receive queue that goes to "
     "ERR",
     "hw/mlx5/qp.c mlx5_ib_qp_event; sw/rdmavt/qp.c rvt_modify_qp; hw/bnxt_re/main.c "
     "bnxt_re_handle_qp_async_event; none in sw/rxe of 6.1, sw/siw",
     "DriverRules.Events",
     {1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0}},
    {Rule::gone_post,
     "gone_post",
     "posting to a removed device, or arming its completion queue. 0: is taken, and nothing comes "
     "of it; 1: EIO. All other calls: EIO; a completion channel: POLLERR for ever, EIO; "
     "asynchronous events: IBV_EVENT_DEVICE_FATAL and no further one; what is opened after its "
     "return is another device",
     "core/uverbs_main.c ib_uverbs_free_hw_resources, ib_uverbs_event_poll, ib_uverbs_event_read; "
     "core/uverbs_std_types.c ib_uverbs_free_event_queue; <libibverbs/driver.h> "
     "verbs_is_destroy_err; posting by a call: providers/hfi1verbs, ipathverbs, rxe, siw",
     "DriverRules.ARemovedDevice",
     {0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1}},
}};

RuleValues rules_of(Driver driver) {
    RuleValues out{};
    for (std::size_t rule = 0; rule < kRules; ++rule) {
        out[rule] = kRuleTable[rule].values[static_cast<std::size_t>(driver)];
    }
    return out;
}

bool find_rule(const std::string& name, Rule& out) {
    for (const RuleRow& row : kRuleTable) {
        if (name == row.name) {
            out = row.rule;
            return true;
        }
    }
    return false;
}

bool find_driver(const std::string& name, Driver& out) {
    for (std::size_t driver = 0; driver < kDrivers; ++driver) {
        if (name == kDriverNames[driver]) {
            out = static_cast<Driver>(driver);
            return true;
        }
    }
    return false;
}

std::string rules_page() {
    std::ostringstream out;
    out << "# Rules of real drivers\n\n"
           "`driver=NAME` of a device in a topology file gives it the values of a column; a rule's "
           "name as a setting changes\none value. `none`: a device as the specification has it; "
           "`strict`: the worst of what any driver does. Where\nfirmware decides, the value is "
           "what a usual card says. This page is `driver_rules.cc`, printed by\n"
           "`adaptib_hca_control rules`.\n\n| rule |";
    for (const char* name : kDriverNames) {
        out << ' ' << name << " |";
    }
    out << "\n|---|";
    for (std::size_t driver = 0; driver < kDrivers; ++driver) {
        out << "---|";
    }
    for (const RuleRow& row : kRuleTable) {
        out << "\n| `" << row.name << "` |";
        for (const std::int64_t value : row.values) {
            out << ' ' << (value == kAny ? std::string("any") : std::to_string(value)) << " |";
        }
    }
    out << "\n\nSources are files and functions of Linux 6.1, below `drivers/infiniband` where "
           "nothing else is said, and of\nrdma-core 65 (`providers`, `libibverbs`). Each rule has "
           "a test in `test/unit/adapter`.\n\n"
           "| rule | meaning | source | test |\n|---|---|---|---|";
    for (const RuleRow& row : kRuleTable) {
        std::string source; // with headers as code
        for (const char* at = row.source; *at != '\0'; ++at) {
            source += *at == '<' ? "`<" : *at == '>' ? ">`" : std::string(1, *at);
        }
        out << "\n| `" << row.name << "` | " << row.meaning << " | " << source << " | `" << row.test
            << "` |";
    }
    out << '\n';
    return out.str();
}

} // namespace adaptib::hca
