// SPDX-License-Identifier: BSD-3-Clause
// Namespaces and rights of this process, and what follows from those of two processes
// (visibility.h).
#include "fabric/shm/visibility.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
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
    return (a.ways & b.ways & kWayServer) != 0 && a.network == b.network;
}

constexpr std::uint32_t kFirstNames = 0xefff'fffe; // UTS namespace of a machine's first process

std::uint32_t own_machine() {
    utsname own{};
    return uname(&own) == 0 ? machine_number(number_of_namespace("/proc/self/ns/uts"), own.nodename)
                            : 0;
}

} // namespace

// The superuser of a namespace may look into processes that are not dumpable, too.
Visibility own_visibility() {
    Visibility out;
    out.user_space = number_of_namespace("/proc/self/ns/user");
    out.network = number_of_namespace("/proc/self/ns/net");
    out.machine = own_machine() & 0xff'ffffu;
    out.ways = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 || geteuid() == 0 ? kWayProc : 0u;
    return out;
}

std::uint32_t machine_number(std::uint32_t names, std::string_view name) {
    if (names != kFirstNames) {
        return 0;
    }
    std::uint32_t hash = 0x811c'9dc5; // FNV-1a
    for (const char c : name) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x0100'0193u;
    }
    return hash;
}

bool can_open_each_other(const Visibility& a, const Visibility& b) {
    return is_same(a.machine, b.machine) && (open_by_proc(a, b) || open_by_server(a, b));
}

std::string why_not_open(const Visibility& own, const Visibility& other) {
    if (!is_same(own.machine, other.machine)) {
        return "the two processes are in machines of different names with one boot id, as copies "
               "of one snapshot are";
    }
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
