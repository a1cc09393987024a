// SPDX-License-Identifier: BSD-3-Clause
// Rules of real drivers: what devices of each driver announce, refuse and do.
//
// Purpose: one table. `driver=` of a device in a topology file chooses a column; a setting with the
// name of a rule changes one value. drivers.md is the table as a page; a unit test compares the
// two, and checks that the test that each row names is there.
// Threads: constant.
// May touch: the standard library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace adaptib::hca {

enum class Driver : std::uint8_t {
    none, // a device as the InfiniBand Architecture Specification has it, without surprises
    mlx5,
    mlx4,
    hfi1,
    qib,
    bnxt_re,
    irdma,
    rxe,
    siw,
    efa,
    hns,
    strict, // the worst of what any of them does, but for kinds of queue pairs that it lacks
};
inline constexpr std::size_t kDrivers = 12;
extern const std::array<const char*, kDrivers> kDriverNames;

enum class Rule : std::uint8_t {
    // Kinds
    vendor,
    transport,
    rc,
    ud,
    atomics,
    apm,
    dmabuf,
    resize_cq,
    resize_busy,
    // Limits of a device, for all processes of its host
    max_qp,
    max_cq,
    max_pd,
    max_mr,
    max_ah,
    max_srq,
    full_error,
    cgroup_objects,
    // Limits of an object
    max_qp_wr,
    max_sge,
    max_sge_rd,
    max_inline,
    max_cqe,
    max_srq_wr,
    max_srq_sge,
    max_reads,
    max_init_reads,
    init_reads_cut,
    max_message,
    // Answers of a device to a request for an object
    wr_api,
    inline_returned,
    inline_ignored,
    send_depth,
    entry_block,
    cqe_depth,
    // States
    reset_reuse,
    // Posting and completing
    post_before_rts,
    receives_stay,
    entries_error,
    keys_at_post,
    places_free,
    cq_overrun,
    // Order
    order_told,
    // Paths
    mtu_check,
    pkey_table,
    gid_table,
    gid_twice,
    arp,
    udp_port,
    // Events
    comm_est,
    last_wqe,
    // A device that was removed
    gone_post,
};
inline constexpr std::size_t kRules = static_cast<std::size_t>(Rule::gone_post) + 1;

// Values that stand for something (`meaning` of the row says so, too).
inline constexpr std::int64_t kAny = 0x7fffffff; // of a limit: none
enum class Transport : std::uint8_t { infiniband, iwarp, unspecified };
enum class InlineReturned : std::uint8_t { asked, nothing, mlx5, mlx4, rxe, power_of_two };
enum class Depth : std::uint8_t { asked, power_of_two, one_less, mlx5, mlx4, irdma };
enum class OrderTold : std::uint8_t { never, always, when_ready };
enum class MtuCheck : std::uint8_t { range, port, active, lesser };

using RuleValues = std::array<std::int64_t, kRules>;

struct RuleRow {
    Rule rule;
    const char* name;    // as in topology files
    const char* meaning; // what the values mean
    const char* source;  // file and function of Linux 6.1 below drivers/infiniband, or of rdma-core
                         // 65 (libibverbs, providers); headers as <name>
    const char* test;    // suite and name of the unit test
    std::array<std::int64_t, kDrivers> values;
};
extern const std::array<RuleRow, kRules> kRuleTable;

// The values of a driver.
RuleValues rules_of(Driver driver);
// Finds a rule or a driver by its name; false: there is none.
bool find_rule(const std::string& name, Rule& out);
bool find_driver(const std::string& name, Driver& out);
// The table as Markdown.
std::string rules_page();

} // namespace adaptib::hca
