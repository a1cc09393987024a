// SPDX-License-Identifier: BSD-3-Clause
// HostFacts: what the system grants to a process of this user, and the judgement on it.
//
// Purpose: reading and judging are apart, so that a test can judge hosts that it does not have.
// Threads: any.
// May touch: base/, the system.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "tools/info/finding.h"

namespace adaptib {

constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

struct HostFacts {
    std::string name;
    std::string kernel;              // as uname -r
    std::uint32_t processors = 0;    // that this process may run on
    std::uint64_t locked_memory = 0; // soft limit in bytes; kUnlimited
    std::uint64_t locked_most = 0;   // hard limit
    bool may_lock_any = false;       // CAP_IPC_LOCK
    std::uint64_t descriptors = 0;
    std::uint64_t descriptors_most = 0;
    int ptrace_scope = -1;      // kernel.yama.ptrace_scope; -1: the kernel has no such rule
    int copy_error = 0;         // errno of a copy out of another process's memory; 0: it worked
    bool own_processes = false; // the process is in a namespace of process numbers of its own
    bool own_users = false;     // likewise of users
};

HostFacts read_host_facts();

// Judges the facts. `needed`: bytes that a process registers with a device at least; 0: the host
// has no RDMA device.
Findings judge_host(const HostFacts& facts, Bytes needed);

} // namespace adaptib
