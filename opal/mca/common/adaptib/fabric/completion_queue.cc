// SPDX-License-Identifier: BSD-3-Clause
// Texts of work statuses.
#include "fabric/completion_queue.h"

namespace adaptib {

const char* work_status_text(WorkStatus status) {
    switch (status) {
    case WorkStatus::success: return "success";
    case WorkStatus::local_length_error: return "local length error";
    case WorkStatus::local_qp_error: return "local QP operation error";
    case WorkStatus::local_protection_error: return "local protection error";
    case WorkStatus::flushed: return "work request flushed";
    case WorkStatus::bad_response: return "bad response";
    case WorkStatus::local_access_error: return "local access error";
    case WorkStatus::remote_invalid_request: return "remote invalid request";
    case WorkStatus::remote_access_error: return "remote access error";
    case WorkStatus::remote_operation_error: return "remote operation error";
    case WorkStatus::retry_exceeded: return "transport retry counter exceeded";
    case WorkStatus::rnr_retry_exceeded: return "RNR retry counter exceeded";
    case WorkStatus::remote_aborted: return "remote aborted";
    case WorkStatus::fatal: return "fatal error";
    case WorkStatus::response_timeout: return "response timeout";
    case WorkStatus::general_error: return "general error";
    case WorkStatus::memory_fault: return "memory fault";
    }
    return "unknown status";
}

} // namespace adaptib
