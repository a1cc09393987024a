// SPDX-License-Identifier: BSD-3-Clause
// Error numbers, and the limit of locked memory.
#include "fabric/verbs/errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "base/invariant.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib {

namespace verbs {

namespace {

struct Pinned {
    Bytes bytes = 0;
    bool unlimited = false; // CAP_IPC_LOCK
};

Pinned pinned_memory() {
    constexpr std::uint64_t kIpcLock = 1u << 14;
    Pinned out;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        std::uint64_t value = 0;
        if (std::sscanf(line.c_str(), "VmPin: %" SCNu64 " kB", &value) == 1) {
            out.bytes = value * kKiB;
        } else if (std::sscanf(line.c_str(), "CapEff: %" SCNx64, &value) == 1) {
            out.unlimited = (value & kIpcLock) != 0;
        }
    }
    return out;
}

} // namespace

int error_number(int result) {
    const int error = result == -1 ? errno : result < 0 ? -result : result;
    return error == 0 ? EIO : error;
}

Status status_of(int error) {
    ADAPTIB_INVARIANT(error > 0, "a failure has an error number", error);
    switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN: // the limit of a control group, or of firmware
    case EBUSY:
    case EMFILE:
    case ENFILE: return Status::error(Reason::no_memory);
    case EPERM:
    case EACCES: return Status::error(Reason::no_permission);
    case EINVAL:
    case EFAULT:
    case ERANGE: return Status::error(Reason::bad_argument);
    case ENOSYS:
    case EOPNOTSUPP:
    case EPROTONOSUPPORT: return Status::error(Reason::not_supported);
    case ENODEV:
    case ENXIO:
    case ENOENT:
    case EIO: return Status::error(Reason::no_device);
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case ETIMEDOUT: return Status::error(Reason::unreachable);
    default: return Status::error(Reason::internal);
    }
}

Status path_status(int error) {
    return error == ETIMEDOUT || error == ENODATA ? kUnanswered : status_of(error);
}

bool beyond_memlock(Bytes needed) {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return false;
    }
    const Pinned pinned = pinned_memory();
    return !pinned.unlimited && (needed > limit.rlim_cur || pinned.bytes > limit.rlim_cur - needed);
}

Status memory_status(int error, Bytes needed, std::string& error_text) {
    error_text.clear();
    if ((error == ENOMEM || error == EPERM || error == EAGAIN) && beyond_memlock(needed)) {
        error_text = verbs_memlock_text(pinned_memory().bytes + needed);
        return Status::error(Reason::locked_memory);
    }
    return status_of(error);
}

} // namespace verbs

std::string verbs_memlock_text(Bytes needed) {
    const std::string kib = std::to_string(round_up(needed, kKiB) / kKiB);
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return "RDMA needs at least " + kib + " KiB of locked memory; the limit (RLIMIT_MEMLOCK) is " +
           (known ? std::to_string(limit.rlim_cur / kKiB) + " KiB" : "unlimited") +
           ". Raise it with \"ulimit -l " + kib +
           "\" or more (best: unlimited); for all logins, put \"* - memlock unlimited\" into "
           "/etc/security/limits.conf; for jobs of a batch system, put LimitMEMLOCK=infinity into "
           "the unit of its service";
}

} // namespace adaptib
