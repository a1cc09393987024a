// SPDX-License-Identifier: BSD-3-Clause
// memfd_create, fallocate, and their replacements.
#include "fabric/shm/segment_file.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/invariant.h"

namespace adaptib::shm {

namespace {

constexpr const char* kDirectory = "/dev/shm";
#ifndef MFD_NOEXEC_SEAL
constexpr unsigned kNoExec = 0x0008U;
#else
constexpr unsigned kNoExec = MFD_NOEXEC_SEAL;
#endif

// Returns true if the system has no such call, or a filter forbids it to this process: not a lack
// of resources.
bool is_refused(int error) {
    return error == ENOSYS || error == EPERM || error == EACCES || error == EINVAL ||
           error == EOPNOTSUPP;
}

int open_memfd(const char* name) {
    const int fd = memfd_create(name, MFD_CLOEXEC | kNoExec);
    if (fd >= 0 || errno != EINVAL) {
        return fd;
    }
    return memfd_create(name, MFD_CLOEXEC); // kernels before 6.3
}

int open_in_dev_shm(const char* name) {
    const int nameless = open(kDirectory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    // Kernels before 3.11, and file systems without O_TMPFILE, return one of these errors.
    if (nameless >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) {
        return nameless;
    }
    char path[96];
    std::snprintf(path, sizeof path, "%s/%s-XXXXXX", kDirectory, name);
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        unlink(path);
    }
    return fd;
}

int touch_pages(int fd, Bytes begin, Bytes end) {
    void* const at = mmap(nullptr, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          static_cast<off_t>(begin));
    if (at == MAP_FAILED) {
        return errno;
    }
    const int error = commit_mapped(static_cast<std::byte*>(at), end - begin);
    munmap(at, end - begin);
    return error;
}

// MADV_POPULATE_WRITE, of Linux 5.14.
constexpr int kPopulateWrite = 23;

} // namespace

Status open_segment_file(std::uint64_t job_key, std::uint32_t pid, SegmentFile& out,
                         std::string& error_text) {
    char name[64];
    std::snprintf(name, sizeof name, "adaptib-%llx-%u", static_cast<unsigned long long>(job_key),
                  pid);
    out = {open_memfd(name), false};
    if (out.fd >= 0) {
        return kOk;
    }
    const int refusal = errno;
    const std::string what =
        std::string("cannot create a shared segment: memfd_create: ") + std::strerror(refusal);
    if (!is_refused(refusal)) {
        error_text = what;
        return Status::error(Reason::no_memory);
    }
    out = {open_in_dev_shm(name), true};
    if (out.fd >= 0) {
        return kOk;
    }
    const int error = errno;
    error_text = what + "; a file in /dev/shm instead: " + std::strerror(error) +
                 ". Either will do: let the container's seccomp profile permit memfd_create, or "
                 "mount a tmpfs at /dev/shm that this user may write to";
    const bool resources = error == ENOSPC || error == EMFILE || error == ENFILE || error == ENOMEM;
    return Status::error(resources ? Reason::no_memory : Reason::not_supported);
}

// Makes the system touch each page as a store would, without a change. Without memory for the page,
// a store would end the process by SIGBUS; the system returns EFAULT instead. Older kernels do this
// page by page: FUTEX_WAKE asks which page of which file its word is in, and the page exists then.
// Writes by the system would race with writes of peers.
int commit_mapped(std::byte* at, Bytes length) {
    ADAPTIB_INVARIANT((reinterpret_cast<std::uintptr_t>(at) & (page_bytes() - 1)) == 0,
                      "memory is committed from the beginning of a page", at, length);
    const auto told = [](int error) { return error == EFAULT ? ENOSPC : error; };
    int status = 0;
    do {
        status = madvise(at, length, kPopulateWrite);
    } while (status != 0 && (errno == EINTR || errno == EAGAIN));
    if (status == 0 || errno != EINVAL) {
        return status == 0 ? 0 : told(errno);
    }
    for (Bytes page = 0; page < length; page += page_bytes()) {
        if (syscall(SYS_futex, at + page, FUTEX_WAKE, 1, nullptr, nullptr, 0) < 0) {
            return told(errno);
        }
    }
    return 0;
}

bool discard_file(int fd, Bytes offset, Bytes length) {
    ADAPTIB_INVARIANT(((offset | length) & (page_bytes() - 1)) == 0, "a file discards whole pages",
                      offset, length);
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(length)) == 0;
}

Bytes memory_of_file(int fd) {
    struct stat file {};
    return fstat(fd, &file) == 0 ? static_cast<Bytes>(file.st_blocks) * 512 : 0;
}

Bytes page_bytes() {
    static const auto bytes = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
    return bytes;
}

int commit_file(int fd, Bytes offset, Bytes length) {
    const Bytes page = page_bytes();
    const Bytes begin = offset / page * page;
    const Bytes end = round_up(offset + length, page);
    for (int attempt = 0; attempt < 100; ++attempt) { // a signal makes fallocate undo its progress
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                      static_cast<off_t>(end - begin)) == 0) {
            return 0;
        }
        if (is_refused(errno)) {
            return touch_pages(fd, begin, end);
        }
        if (errno != EINTR) {
            return errno;
        }
    }
    return EINTR;
}

std::string no_memory_text(const SegmentFile& file, int error) {
    std::string text = std::string("no memory for the shared segment: ") + std::strerror(error);
    if (file.in_dev_shm) {
        text +=
            ". It is a file in /dev/shm, since memfd_create is not permitted here: \"df /dev/shm\" "
            "says how much room there is, and a container gets more by --shm-size";
    }
    return text;
}

} // namespace adaptib::shm
