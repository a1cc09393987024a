// SPDX-License-Identifier: BSD-3-Clause
// Process identity from /proc and cross-memory attach.
#include "fabric/shm/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace adaptib::shm {

namespace {

// Reads a small file of /proc; the text ends with a zero. False when it cannot be read.
bool read_text(const char* path, std::span<char> out) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t n = read(fd, out.data(), out.size() - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    out[static_cast<std::size_t>(n)] = '\0';
    return true;
}

std::uint64_t hash_bytes(std::uint64_t hash, const void* data, std::size_t length) { // FNV-1a
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < length; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

constexpr std::size_t kVectors = 16;
constexpr Bytes kMaxCall = kGiB; // below the kernel's MAX_RW_COUNT

// The part [offset, offset + length) of the gather list, as far as it fits; returns its length.
Bytes slice(std::span<const Gather> gather, Bytes offset, Bytes length,
            std::array<iovec, kVectors>& vectors, std::size_t& count) {
    if (gather.size() == 1) [[likely]] {
        vectors[0] = {static_cast<std::byte*>(gather[0].address) + offset, length};
        count = 1;
        return length;
    }
    Bytes total = 0;
    count = 0;
    for (const Gather& entry : gather) {
        if (offset >= entry.length) {
            offset -= entry.length;
            continue;
        }
        const Bytes part = std::min(entry.length - offset, length - total);
        vectors[count++] = {static_cast<std::byte*>(entry.address) + offset, part};
        total += part;
        offset = 0;
        if (total == length || count == kVectors) {
            break;
        }
    }
    return total;
}

CopyResult copy_error(int error) {
    switch (error) {
    case EFAULT: return CopyResult::fault;
    case ESRCH: return CopyResult::gone;
    case EPERM:
    case EACCES:
    case ENOSYS: return CopyResult::forbidden;
    default: return CopyResult::failed;
    }
}

} // namespace

std::uint64_t process_start_time(std::uint32_t pid) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    std::array<char, 1024> text;
    if (!read_text(path, text)) {
        return 0;
    }
    // "pid (name) state ppid ... starttime": the name may hold anything, its end is the last ')'.
    const char* at = std::strrchr(text.data(), ')');
    if (at == nullptr || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') {
        return 0;
    }
    at += 2;
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
        if (at == nullptr) {
            return 0;
        }
    }
    return std::strtoull(at, nullptr, 10);
}

bool process_alive(std::uint32_t pid, std::uint64_t start_time) {
    if (pid == 0) {
        return false;
    }
    errno = 0;
    const std::uint64_t found = process_start_time(pid);
    const int error = errno;
    if (found == 0 && (error == EMFILE || error == ENFILE || error == ENOMEM)) {
        // We cannot look; that says nothing about the process.
        return kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
    }
    return found != 0 && found == start_time;
}

namespace {

std::uint64_t read_host_identity() {
    std::uint64_t hash = 0xcbf29ce484222325u;
    std::array<char, 64> boot{};
    if (read_text("/proc/sys/kernel/random/boot_id", boot)) {
        hash = hash_bytes(hash, boot.data(), std::strlen(boot.data()));
    }
    struct stat space {};
    if (stat("/proc/self/ns/pid", &space) == 0) {
        hash = hash_bytes(hash, &space.st_ino, sizeof space.st_ino);
    }
    return hash;
}

} // namespace

int only_processor(std::uint32_t pid) {
    cpu_set_t set;
    if (sched_getaffinity(static_cast<pid_t>(pid), sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) {
        return -1; // more processors than a set has: not known
    }
    int processor = 0;
    while (!CPU_ISSET(processor, &set)) {
        ++processor;
    }
    return processor;
}

// Read once: later there may be no file descriptor left to read it with.
std::uint64_t host_identity() {
    static const std::uint64_t identity = read_host_identity();
    return identity;
}

CopyResult copy_memory(Direction direction, std::uint32_t pid, std::uint64_t remote,
                       std::span<const Gather> gather, Bytes offset, Bytes length) {
    while (length > 0) {
        std::array<iovec, kVectors> local;
        std::size_t count = 0;
        const Bytes part = slice(gather, offset, std::min(length, kMaxCall), local, count);
        iovec far{reinterpret_cast<void*>(remote), part};
        const ssize_t n =
            direction == Direction::from_peer
                ? process_vm_readv(static_cast<pid_t>(pid), local.data(), count, &far, 1, 0)
                : process_vm_writev(static_cast<pid_t>(pid), local.data(), count, &far, 1, 0);
        if (n < 0) {
            return copy_error(errno);
        }
        if (n == 0) {
            return CopyResult::fault;
        }
        const Bytes done = static_cast<Bytes>(n); // less than asked for: the next call says why
        remote += done;
        offset += done;
        length -= done;
    }
    return CopyResult::ok;
}

void gather_out(std::span<const Gather> gather, Bytes offset, std::byte* to, Bytes length) {
    for (const Gather& entry : gather) {
        if (length == 0) {
            return;
        }
        if (offset >= entry.length) {
            offset -= entry.length;
            continue;
        }
        const Bytes part = std::min(entry.length - offset, length);
        std::memcpy(to, static_cast<const std::byte*>(entry.address) + offset, part);
        to += part;
        length -= part;
        offset = 0;
    }
}

void scatter_in(std::span<const Gather> scatter, Bytes offset, const std::byte* from,
                Bytes length) {
    for (const Gather& entry : scatter) {
        if (length == 0) {
            return;
        }
        if (offset >= entry.length) {
            offset -= entry.length;
            continue;
        }
        const Bytes part = std::min(entry.length - offset, length);
        std::memcpy(static_cast<std::byte*>(entry.address) + offset, from, part);
        from += part;
        length -= part;
        offset = 0;
    }
}

} // namespace adaptib::shm
