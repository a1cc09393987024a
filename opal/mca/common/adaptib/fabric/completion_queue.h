// SPDX-License-Identifier: BSD-3-Clause
// CompletionQueue and the completions that it gives.
//
// Ownership: Rail::create_cq makes a queue, and its caller owns it, longer than the queue pairs
//   that use it. Completions are value types.
// Threads: one thread at a time uses a queue.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/invariant.h"
#include "base/units.h"

namespace adaptib {

// Completion statuses of verbs (ibv_wc_status), with the names of verbs, and memory_fault.
enum class WorkStatus : std::uint8_t {
    success,
    local_length_error,
    local_qp_error,
    local_protection_error,
    flushed,
    bad_response,
    local_access_error,
    remote_invalid_request,
    remote_access_error,
    remote_operation_error,
    retry_exceeded,
    rnr_retry_exceeded,
    remote_aborted,
    fatal,
    response_timeout,
    general_error,
    memory_fault, // the only error after which the queue pair goes on (kMayFault)
};

enum class WorkKind : std::uint8_t {
    send,
    write,
    read,
    compare_swap,
    fetch_add,
    receive,
    receive_imm
};

// After an error only wr_id, status, qp_number and vendor_error are valid.
struct WorkCompletion {
    std::uint64_t wr_id = 0;
    WorkStatus status = WorkStatus::success;
    WorkKind kind = WorkKind::send;
    std::uint32_t qp_number = 0;
    std::uint32_t vendor_error = 0;
    Bytes length = 0;            // receives
    std::uint32_t immediate = 0; // receives with immediate
    std::uint32_t source_qp = 0; // UD
};

const char* work_status_text(WorkStatus status);

// Returns true if the path to the target failed: another path, or a new queue pair, may carry the
// same request. Otherwise the request itself is wrong.
constexpr bool is_path_failure(WorkStatus status) {
    switch (status) {
    case WorkStatus::local_qp_error:
    case WorkStatus::flushed:
    case WorkStatus::bad_response:
    case WorkStatus::retry_exceeded:
    case WorkStatus::rnr_retry_exceeded:
    case WorkStatus::remote_aborted:
    case WorkStatus::fatal:
    case WorkStatus::response_timeout:
    case WorkStatus::general_error: return true;
    default: return false;
    }
}

// Returns true if the queue pair is in the error state.
constexpr bool breaks_queue_pair(WorkStatus status) {
    return status != WorkStatus::success && status != WorkStatus::memory_fault;
}

class CompletionQueue {
public:
    virtual ~CompletionQueue() = default;
    // Takes up to out.size() completions, oldest first; returns their number.
    std::size_t poll(std::span<WorkCompletion> out) {
        const std::size_t count = poll_impl(out);
        ADAPTIB_AUDIT(count <= out.size(), "a poll takes no more than it was asked for", count,
                      out.size());
        return count;
    }

private:
    virtual std::size_t poll_impl(std::span<WorkCompletion> out) = 0;
};

} // namespace adaptib
