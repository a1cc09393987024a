// SPDX-License-Identifier: BSD-3-Clause
// QpInit, QpMask, QpAttributes: how a queue pair is created, and brought from state to state.
//
// Purpose: types, states and attributes of queue pairs, with the masks that name the attributes.
//   fabric/README.md (States of a queue pair) says which transition requires which.
// Ownership: value types. QpInit refers to queues of the caller, which outlive the queue pair.
// Threads: value types.
// May touch: base/, rail_address.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "fabric/rail_address.h"

namespace adaptib {

class CompletionQueue;
class SharedReceiveQueue;

enum class QpType : std::uint8_t { rc, ud, dc_initiator, dc_target };
enum class QpState : std::uint8_t { reset, init, ready_to_receive, ready_to_send, error };
enum class MigrationState : std::uint8_t { migrated, rearm, armed };

struct QpInit {
    QpType type = QpType::rc;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    // null: the queue pair has its own receive queue, which a DC target cannot have.
    SharedReceiveQueue* srq = nullptr;
    std::uint32_t send_depth = 0;
    std::uint32_t receive_depth = 0; // ignored with an srq
    std::uint32_t max_gather = 1;
    Bytes inline_bytes = 0;
    bool signal_all = false;
};

// Attributes of QueuePair::modify. The table of ibv_modify_qp(3) says which transition requires
// which; a missing required attribute, or a superfluous one, is bad_argument.
enum QpMask : std::uint32_t {
    kQpState = 1u << 0,
    kQpAccess = 1u << 1,
    kQpKey = 1u << 2,
    kQpPath = 1u << 3,
    kQpRemote = 1u << 4,        // remote_qp and receive_psn
    kQpReceiveLimits = 1u << 5, // max_target_reads and rnr_timer
    kQpRetry = 1u << 6,         // timeout, retry_count, rnr_retry
    kQpSendPsn = 1u << 7,
    kQpSendLimits = 1u << 8, // max_reads
    kQpAlternatePath = 1u << 9,
    kQpMigration = 1u << 10,
};

struct QpAttributes {
    QpState state = QpState::reset;
    std::uint32_t access = 0;     // Access
    std::uint64_t access_key = 0; // UD: Q_Key, DC target: access key
    PathSpec path;
    PathSpec alternate_path;
    MigrationState migration = MigrationState::migrated;
    std::uint32_t remote_qp = 0;
    std::uint32_t send_psn = 0;
    std::uint32_t receive_psn = 0;
    std::uint32_t max_reads = 1;        // as initiator
    std::uint32_t max_target_reads = 1; // as target
    std::uint8_t timeout = 14;          // 4.096 us x 2^timeout per try; 0 = forever
    std::uint8_t retry_count = 6;
    std::uint8_t rnr_retry = 7; // 7 = forever
    std::uint8_t rnr_timer = 12;
};

// Attributes that QueuePair::cm_connect requires and those that it may take besides. The connection
// service chooses the packet numbers.
constexpr std::uint32_t kCmConnectRequired =
    kQpPath | kQpRemote | kQpReceiveLimits | kQpRetry | kQpSendLimits;
constexpr std::uint32_t kCmConnectOptional = kQpAlternatePath | kQpMigration;

// Lets the two ends of a connection recognize each other in QueuePair::cm_connect.
struct CmConnectParams {
    bool initiates = false; // this end does; the other one waits for it
    // Same at both ends, different for each connection, known to nobody else.
    std::array<std::byte, 32> token{};
};

} // namespace adaptib
