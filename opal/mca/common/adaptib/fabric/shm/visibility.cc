// SPDX-License-Identifier: BSD-3-Clause
// Namespaces and rights of this process, and what follows from those of two processes
// (visibility.h).
#include "fabric/shm/visibility.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/shm/tracing.h"

namespace adaptib::shm {

namespace {

std::uint32_t number_of_namespace(const char* path) {
    struct stat space {};
    return stat(path, &space) == 0 ? static_cast<std::uint32_t>(space.st_ino) : 0;
}

bool is_same(std::uint32_t a, std::uint32_t b) { return a == b || a == 0 || b == 0; }

bool open_by_proc(const Visibility& a, const Visibility& b) {
    return (a.ways & b.ways & kWayProc) != 0 && is_same(a.user_space, b.user_space);
}

bool open_by_server(const Visibility& a, const Visibility& b) {
    return (a.ways & b.ways & kWayServer) != 0 && is_same(a.network, b.network);
}

} // namespace

// The superuser of a namespace may look into processes that are not dumpable, too.
Visibility own_visibility() {
    Visibility out;
    out.user_space = number_of_namespace("/proc/self/ns/user");
    out.network = number_of_namespace("/proc/self/ns/net");
    out.ways = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 || geteuid() == 0 ? kWayProc : 0u;
    return out;
}

bool can_open_each_other(const Visibility& a, const Visibility& b) {
    return open_by_proc(a, b) || open_by_server(a, b);
}

std::string why_not_open(const Visibility& own, const Visibility& other) {
    std::string text;
    if (!is_same(own.user_space, other.user_space)) {
        text = "the two processes are in different user namespaces, so /proc/<pid>/fd is closed to "
               "them";
    } else {
        text = std::string((own.ways & kWayProc) == 0 ? "this process" : "that process") +
               " is not dumpable (PR_SET_DUMPABLE), so /proc/<pid>/fd is closed";
    }
    if ((own.ways & other.ways & kWayServer) == 0) {
        text += std::string(", and ") +
                ((own.ways & kWayServer) == 0 ? "this process" : "that process") +
                " has no Unix socket to hand its segment over (socket, bind or a thread was "
                "refused: a seccomp profile, or \"ulimit -u\")";
    } else {
        text += ", and they are in different network namespaces, so Unix sockets do not reach "
                "from one to the other (--net=host lets containers share one)";
    }
    return text + ". One container for all ranks of a host has neither problem";
}

std::string why_not_attach(const Visibility& own, const Visibility& other) {
    if (!is_same(own.user_space, other.user_space)) {
        return " (it is in another user namespace; one container for all ranks of a host helps)";
    }
    if (const int scope = yama().scope(); scope > 1) {
        return " (kernel.yama.ptrace_scope is " + std::to_string(scope) + ")";
    }
    return " (another user, or one of the two is not dumpable: setuid, PR_SET_DUMPABLE)";
}

} // namespace adaptib::shm
