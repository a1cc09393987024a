// SPDX-License-Identifier: BSD-3-Clause
// Identity of processes from /proc, and cross-memory attach.
#include "fabric/shm/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/invariant.h"

namespace adaptib::shm {

namespace {

// Reads a small file of /proc; the text ends with a zero byte. False if it cannot be read.
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

// Converts the part [offset, offset + length) of the gather list, as far as it fits; returns its
// length.
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

namespace {

struct StatLine {
    bool ended = false;  // the thread of this line has ended: a zombie counts
    bool memory = false; // a thread that is about to end gives up its memory first
    std::uint64_t start_time = 0;
};

// False, and errno: the line cannot be read.
bool read_stat(const char* path, StatLine& out) {
    std::array<char, 1024> text;
    errno = 0;
    if (!read_text(path, text)) {
        return false;
    }
    // "pid (name) state ppid ... starttime": the name may contain anything; it ends at the last
    // ')'.
    const char* at = std::strrchr(text.data(), ')');
    if (at == nullptr || at[1] != ' ') {
        return false;
    }
    at += 2;
    out.ended = *at == 'Z' || *at == 'X';
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
        if (at == nullptr) {
            return false;
        }
    }
    char* end = nullptr;
    out.start_time = std::strtoull(at, &end, 10);
    out.memory = std::strtoull(end, nullptr, 10) != 0;
    return true;
}

bool read_stat(std::uint32_t pid, StatLine& out) {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/%u/stat", pid);
    return read_stat(path, out);
}

enum class Threads : std::uint8_t { some_live, none_live, unknown };

// Looks for a thread of the process that has memory, and sets `thread` to its number.
Threads find_living_thread(std::uint32_t pid, std::uint32_t& thread) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR* directory = opendir(path);
    if (directory == nullptr) {
        return Threads::unknown;
    }
    Threads found = Threads::none_live;
    while (const dirent* entry = readdir(directory)) {
        const unsigned long number = std::strtoul(entry->d_name, nullptr, 10);
        if (number == 0) {
            continue; // "." and ".."
        }
        std::snprintf(path, sizeof path, "/proc/%u/task/%lu/stat", pid, number);
        StatLine line;
        if (!read_stat(path, line)) {
            found = errno == ENOENT || errno == ESRCH ? found : Threads::unknown;
        } else if (!line.ended && line.memory) {
            thread = static_cast<std::uint32_t>(number);
            found = Threads::some_live;
            break;
        }
    }
    closedir(directory);
    return found;
}

// State of the process with this number, according to a pidfd. Each question opens a new pidfd: a
// program with many peers could not spare the descriptors.
enum class PidfdSays : std::uint8_t {
    lives,
    ended,   // ended and not waited for
    none,    // no process has that number
    nothing, // no pidfds in this kernel, a filter forbids them, or no descriptor is left
};

PidfdSays ask_pidfd(std::uint32_t pid) {
#ifdef SYS_pidfd_open
    const long fd = syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u);
    if (fd < 0) {
        return errno == ESRCH ? PidfdSays::none : PidfdSays::nothing;
    }
    pollfd wait{static_cast<int>(fd), POLLIN, 0};
    const int ready = poll(&wait, 1, 0);
    close(static_cast<int>(fd));
    return ready < 0 ? PidfdSays::nothing : ready == 0 ? PidfdSays::lives : PidfdSays::ended;
#else
    static_cast<void>(pid);
    return PidfdSays::nothing;
#endif
}

bool may_exist(std::uint32_t pid) {
    return kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

// REQUIRES: the first thread of the process has ended. The kernel (5.3 and later) wakes a pidfd
// when the last thread has ended. A kernel may wake it earlier; then the list of threads decides.
bool other_threads_live(std::uint32_t pid, PidfdSays pidfd) {
    std::uint32_t thread = 0;
    switch (pidfd == PidfdSays::lives ? Threads::some_live : find_living_thread(pid, thread)) {
    case Threads::some_live: return true;
    case Threads::none_live: return false;
    case Threads::unknown: break;
    }
    return pidfd == PidfdSays::nothing && may_exist(pid);
}

// Decides about a process of which /proc shows nothing.
bool lives_unseen(std::uint32_t pid, PidfdSays pidfd, int error) {
    if (pidfd != PidfdSays::nothing) {
        return pidfd == PidfdSays::lives;
    }
    const bool absent = error == ENOENT || error == ESRCH;
    return !(absent && access("/proc/self/stat", F_OK) == 0) && may_exist(pid);
}

} // namespace

std::uint64_t process_start_time(std::uint32_t pid) {
    StatLine line;
    return read_stat(pid, line) ? line.start_time : 0;
}

bool process_alive(std::uint32_t pid, std::uint64_t start_time) {
    if (pid == 0) {
        return false;
    }
    const PidfdSays pidfd = ask_pidfd(pid);
    if (pidfd == PidfdSays::none) {
        return false;
    }
    StatLine line;
    if (!read_stat(pid, line)) {
        return lives_unseen(pid, pidfd, errno);
    }
    if (line.start_time != start_time) {
        return false; // another process has the number now
    }
    return !line.ended || other_threads_live(pid, pidfd);
}

int open_descriptor_of(std::uint32_t pid, std::uint32_t fd) {
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NONBLOCK;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd);
    const int found = open(path, kFlags);
    if (found >= 0 || errno != ENOENT) {
        return found;
    }
    std::uint32_t thread = 0;
    if (find_living_thread(pid, thread) != Threads::some_live || thread == pid) {
        errno = ENOENT;
        return found;
    }
    std::snprintf(path, sizeof path, "/proc/%u/task/%u/fd/%u", pid, thread, fd);
    return open(path, kFlags);
}

std::uint64_t read_host_identity() {
    std::uint64_t hash = 0xcbf29ce484222325u;
    std::array<char, 64> boot{};
    if (read_text("/proc/sys/kernel/random/boot_id", boot)) {
        hash = hash_bytes(hash, boot.data(), std::strlen(boot.data()));
    }
    for (const char* path : {"/proc/self/ns/pid", "/proc/self/ns/time"}) {
        struct stat space {};
        if (stat(path, &space) == 0) {
            hash = hash_bytes(hash, &space.st_ino, sizeof space.st_ino);
        }
    }
    return hash;
}

int only_processor(std::uint32_t pid) {
    cpu_set_t set;
    if (sched_getaffinity(static_cast<pid_t>(pid), sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) {
        return -1; // more processors than the set holds: unknown
    }
    int processor = 0;
    while (!CPU_ISSET(processor, &set)) {
        ++processor;
    }
    return processor;
}

// Reads the identity only once: later there may be no file descriptor left for it.
std::uint64_t host_identity() {
    static const std::uint64_t identity = read_host_identity();
    return identity;
}

CopyResult copy_memory(Direction direction, std::uint32_t process, std::uint64_t remote,
                       std::span<const Gather> gather, Bytes offset, Bytes length) {
    std::uint32_t pid = process; // or one of its threads
    while (length > 0) {
        std::array<iovec, kVectors> local;
        std::size_t count = 0;
        const Bytes part = slice(gather, offset, std::min(length, kMaxCall), local, count);
        ADAPTIB_INVARIANT(part > 0 && count > 0, "a gather list reaches as far as the copy", offset,
                          length);
        iovec far{reinterpret_cast<void*>(remote), part};
        const ssize_t n =
            direction == Direction::from_peer
                ? process_vm_readv(static_cast<pid_t>(pid), local.data(), count, &far, 1, 0)
                : process_vm_writev(static_cast<pid_t>(pid), local.data(), count, &far, 1, 0);
        if (n < 0 && errno == ESRCH) {
            const std::uint32_t asked = pid;
            const Threads threads = find_living_thread(process, pid);
            if (threads == Threads::some_live && pid != asked) {
                continue;
            }
            return threads == Threads::unknown && may_exist(process) ? CopyResult::fault
                                                                     : CopyResult::gone;
        }
        if (n < 0) {
            return copy_error(errno);
        }
        if (n == 0) {
            return CopyResult::fault;
        }
        const Bytes done = static_cast<Bytes>(n); // a shorter copy: the next call says why
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
    ADAPTIB_INVARIANT(length == 0, "a gather list holds what is taken from it", length,
                      gather.size());
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
    ADAPTIB_INVARIANT(length == 0, "a scatter list has room for what is put into it", length,
                      scatter.size());
}

} // namespace adaptib::shm
