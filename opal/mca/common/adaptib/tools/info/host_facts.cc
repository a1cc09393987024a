// SPDX-License-Identifier: BSD-3-Clause
#include "tools/info/host_facts.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace adaptib {

namespace {

std::uint64_t limit_of(rlim_t limit) {
    return limit == RLIM_INFINITY ? kUnlimited : static_cast<std::uint64_t>(limit);
}

bool has_ipc_lock() {
    constexpr std::uint64_t kIpcLock = 1u << 14;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        std::uint64_t value = 0;
        if (std::sscanf(line.c_str(), "CapEff: %" SCNx64, &value) == 1) {
            return (value & kIpcLock) != 0;
        }
    }
    return false;
}

int ptrace_scope() {
    int scope = -1;
    std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
    return file >> scope ? scope : -1;
}

// Copies a word out of this process's memory from a child, which is no ancestor, as another rank
// would do it. Returns the errno; 0: it worked.
int try_copy() {
    std::uint64_t word = 0x61646170;
    const pid_t self = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); // fails where no such rule exists
    const pid_t child = fork();
    if (child == 0) {
        std::uint64_t seen = 0;
        const iovec to{&seen, sizeof seen};
        const iovec from{&word, sizeof word};
        const bool done = process_vm_readv(self, &to, 1, &from, 1, 0) == sizeof seen;
        _exit(done ? 0 : errno);
    }
    int status = 0;
    const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    prctl(PR_SET_PTRACER, 0, 0, 0, 0);
    return ended ? WEXITSTATUS(status) : EAGAIN;
}

// True if the namespace is not the first one of the system.
bool in_own_namespace(const char* kind, const char* first) {
    std::array<char, 64> link{};
    const std::string path = std::string("/proc/self/ns/") + kind;
    const ssize_t length = readlink(path.c_str(), link.data(), link.size() - 1);
    return length > 0 && std::string(kind) + ":[" + first + "]" != link.data();
}

std::string bytes_text(std::uint64_t bytes) {
    if (bytes == kUnlimited) {
        return "unlimited";
    }
    const bool large = bytes >= kMiB;
    return std::to_string(bytes / (large ? kMiB : kKiB)) + (large ? " MiB" : " KiB");
}

std::string number_text(std::uint64_t number) {
    return number == kUnlimited ? "unlimited" : std::to_string(number);
}

Finding judge_locked_memory(const HostFacts& facts, Bytes needed) {
    Finding out{"locked memory", Verdict::good, "", ""};
    out.text = facts.may_lock_any ? "no limit for this user (CAP_IPC_LOCK)"
                                  : bytes_text(facts.locked_memory) + ", can be raised to " +
                                        bytes_text(facts.locked_most);
    if (facts.may_lock_any || needed == 0 || facts.locked_memory == kUnlimited) {
        return out;
    }
    const bool enough = facts.locked_memory >= needed;
    out.verdict = enough ? Verdict::note : Verdict::problem;
    out.text += "; RDMA devices need " + bytes_text(needed) +
                " to begin with, and as much as the " + "buffers of long messages take";
    out.advice = "set \"* soft memlock unlimited\" and \"* hard memlock unlimited\" in "
                 "/etc/security/limits.conf, and LimitMEMLOCK=infinity for the daemon that "
                 "starts jobs";
    return out;
}

Finding judge_descriptors(const HostFacts& facts) {
    constexpr std::uint64_t kFew = 1024;
    Finding out{"descriptors", Verdict::good,
                number_text(facts.descriptors) + ", can be raised to " +
                    number_text(facts.descriptors_most),
                ""};
    if (facts.descriptors < kFew) {
        out.verdict = Verdict::note;
        out.advice = "a process that has none left reaches new peers of its host late, after a "
                     "notice; ulimit -n 4096 before mpirun";
    }
    return out;
}

Finding judge_copies(const HostFacts& facts) {
    Finding out{"copies between processes", Verdict::good,
                "one copy, by the kernel (cross-memory attach)", ""};
    if (facts.copy_error == 0) {
        return out;
    }
    out.verdict = Verdict::note;
    out.text = std::string("the kernel refuses to copy between processes (") +
               std::strerror(facts.copy_error) +
               "), so long messages within the host are copied twice";
    out.advice =
        facts.ptrace_scope > 1
            ? "sysctl kernel.yama.ptrace_scope=1 (it is " + std::to_string(facts.ptrace_scope) + ")"
            : "a container needs a seccomp profile that allows process_vm_readv and "
              "process_vm_writev, or CAP_SYS_PTRACE";
    return out;
}

// True if a child may touch what its parent has registered: pages are copied at the fork then.
bool copies_pages_at_fork(const std::string& kernel) {
    int major = 0;
    int minor = 0;
    std::sscanf(kernel.c_str(), "%d.%d", &major, &minor);
    return major > 5 || (major == 5 && minor >= 12);
}

Finding judge_kernel(const HostFacts& facts, Bytes needed) {
    Finding out{"kernel", Verdict::good, facts.kernel, ""};
    if (needed > 0 && !copies_pages_at_fork(facts.kernel)) {
        out.verdict = Verdict::note;
        out.text += ": a child that a program forks does not have the pages that are registered "
                    "with RDMA devices";
        out.advice = "programs that fork and go on in the child without exec need Linux 5.12";
    }
    return out;
}

Finding judge_container(const HostFacts& facts) {
    const bool apart = facts.own_processes || facts.own_users;
    Finding out{"container", Verdict::good, apart ? "" : "none", ""};
    if (apart) {
        out.verdict = Verdict::note;
        out.text = std::string("this process has a namespace of its own for ") +
                   (facts.own_processes ? "process numbers" : "users") +
                   (facts.own_processes && facts.own_users ? " and for users" : "");
        out.advice = "start all processes of a host in one container: those of another one can "
                     "be reached over RDMA devices only";
    }
    return out;
}

} // namespace

HostFacts read_host_facts() {
    HostFacts facts;
    utsname system{};
    uname(&system);
    facts.name = system.nodename;
    facts.kernel = system.release;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        facts.processors = static_cast<std::uint32_t>(CPU_COUNT(&set));
    }
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    facts.locked_memory = limit_of(limit.rlim_cur);
    facts.locked_most = limit_of(limit.rlim_max);
    getrlimit(RLIMIT_NOFILE, &limit);
    facts.descriptors = limit_of(limit.rlim_cur);
    facts.descriptors_most = limit_of(limit.rlim_max);
    facts.may_lock_any = has_ipc_lock();
    facts.ptrace_scope = ptrace_scope();
    facts.copy_error = try_copy();
    facts.own_processes = in_own_namespace("pid", "4026531836");
    facts.own_users = in_own_namespace("user", "4026531837");
    return facts;
}

Findings judge_host(const HostFacts& facts, Bytes needed) {
    return {judge_kernel(facts, needed), judge_locked_memory(facts, needed),
            judge_descriptors(facts), judge_copies(facts), judge_container(facts)};
}

} // namespace adaptib
