// SPDX-License-Identifier: BSD-3-Clause
// Text of each reason of base/status.h.
#include "base/status.h"

namespace adaptib {

const char* reason_text(Reason reason) {
    switch (reason) {
    case Reason::none: return "success";
    case Reason::no_credit: return "the receiver has no room";
    case Reason::queue_full: return "a local queue is full";
    case Reason::not_connected: return "not connected yet";
    case Reason::bad_argument: return "bad argument";
    case Reason::no_memory: return "out of memory";
    case Reason::no_device: return "no such device";
    case Reason::locked_memory: return "the limit of locked memory is reached";
    case Reason::no_permission: return "permission denied";
    case Reason::not_supported: return "not supported";
    case Reason::bad_state: return "wrong state";
    case Reason::bad_key: return "memory key, range or access right does not allow it";
    case Reason::bad_wire: return "malformed packet";
    case Reason::version: return "wire version differs";
    case Reason::unreachable: return "no path to the peer";
    case Reason::peer_gone: return "the peer's process has ended or has finalized MPI";
    case Reason::truncated: return "message longer than the receive buffer";
    case Reason::cancelled: return "cancelled";
    case Reason::internal: return "internal error";
    }
    return "unknown reason";
}

} // namespace adaptib
