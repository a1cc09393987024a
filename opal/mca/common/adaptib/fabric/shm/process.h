// SPDX-License-Identifier: BSD-3-Clause
// Processes of this host: identity, liveness, and copies to and from their memory.
//
// Purpose: the shm fabric's system calls that concern another process.
// Threads: free functions without state.
// May touch: base/, fabric/work.h (Gather), the system.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/units.h"
#include "fabric/work.h"

namespace adaptib::shm {

// Start time of a process in clock ticks since boot, as the caller's time namespace counts; also of
// a process that has ended and has not been waited for. 0: there is no such process, or /proc
// cannot be read.
std::uint64_t process_start_time(std::uint32_t pid);

// Returns false once the process that started at `start_time` has ended, all of its threads. If the
// system gives no information (no file descriptor left, /proc not mounted), the process counts as
// alive. Takes some microseconds.
bool process_alive(std::uint32_t pid, std::uint64_t start_time);

// Opens descriptor `fd` of the process in /proc; if its first thread has ended, through a living
// thread. Returns a descriptor of this process, or -1 and errno.
int open_descriptor_of(std::uint32_t pid, std::uint32_t fd);

// Number of the only processor that the process (0: this one) is bound to; -1: several, or unknown.
int only_processor(std::uint32_t pid);

// Same value in all processes that see each other's /proc, and the same times there: from boot id,
// PID namespace and time namespace, as they were at the first call.
std::uint64_t host_identity();
// As they are now.
std::uint64_t read_host_identity();

enum class CopyResult : std::uint8_t {
    ok,
    // An address is not mapped, or the kernel cannot pin the peer's memory there; or the first
    // thread has ended, and the system does not say which others live (no file descriptor left).
    fault,
    gone,      // no such process, or none of its threads has memory any more
    forbidden, // ptrace rules, a seccomp filter or the kernel's configuration
    failed,    // out of memory
};

enum class Direction : std::uint8_t { from_peer, to_peer };

// Copies [offset, offset + length) of the gather list from or to `remote` of process pid, by
// process_vm_readv or process_vm_writev. The system looks at the memory of one thread: if the first
// thread has ended, each call searches for another (some 50 us).
CopyResult copy_memory(Direction direction, std::uint32_t pid, std::uint64_t remote,
                       std::span<const Gather> gather, Bytes offset, Bytes length);

// Copies [offset, offset + length) of a gather list from or to `plain`, both memory of process
// own_pid, the caller. `plain` is mapped and can be pinned. The gather list may name memory that is
// not mapped (fault) or that the kernel cannot pin: device mappings, memfd_secret, [vvar]. The
// system pins the side that it calls remote and reaches the other side through the caller's page
// tables, as the processor does; therefore `plain` is the remote side.
inline CopyResult copy_checked(Direction direction, std::uint32_t own_pid, void* plain,
                               std::span<const Gather> gather, Bytes offset, Bytes length) {
    return copy_memory(direction, own_pid, reinterpret_cast<std::uintptr_t>(plain), gather, offset,
                       length);
}

// Copies one contiguous piece with a bare system call. Returns the number of bytes copied.
[[gnu::always_inline]] inline Bytes copy_piece(Direction direction, std::uint32_t pid,
                                               std::uint64_t remote, void* local, Bytes length) {
    const iovec here{local, length};
    const iovec far{reinterpret_cast<void*>(remote), length};
    const ssize_t n = direction == Direction::from_peer
                          ? process_vm_readv(static_cast<pid_t>(pid), &here, 1, &far, 1, 0)
                          : process_vm_writev(static_cast<pid_t>(pid), &here, 1, &far, 1, 0);
    return n < 0 ? 0 : static_cast<Bytes>(n);
}

// Copies [offset, offset + length) of a gather list to or from plain memory.
void gather_out(std::span<const Gather> gather, Bytes offset, std::byte* to, Bytes length);
void scatter_in(std::span<const Gather> scatter, Bytes offset, const std::byte* from, Bytes length);

} // namespace adaptib::shm
