// SPDX-License-Identifier: BSD-3-Clause
#include "core/peer_text.h"

#include "base/process_name.h"

namespace adaptib {

std::string peer_text(std::uint64_t name, const std::string& host) {
    return "Process " + rank_text(name) + " of job " + std::to_string(job_of(name)) +
           (host.empty() ? "" : " on host " + host);
}

const char* advice(Reason reason) {
    switch (reason) {
    case Reason::no_memory:
        return "Raise the limits of address space (ulimit -v) and of open files (ulimit -n), or "
               "lower opal_common_adaptib_shm_segment_max.";
    case Reason::locked_memory: return "Raise the limit of locked memory (ulimit -l).";
    case Reason::no_permission:
        return "The system hides the process's shared memory from this one: another user, a "
               "container with a network namespace of its own (use --net=host), or a security "
               "profile that forbids both /proc/<pid>/fd and Unix sockets.";
    default:
        return "Processes of other hosts or containers need another transport, for example "
               "--mca pml ob1 --mca btl adaptib,tcp,self.";
    }
}

} // namespace adaptib
