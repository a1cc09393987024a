// SPDX-License-Identifier: BSD-3-Clause
// Memory that its process uses like any other, and that the kernel does not pin, as with device
// mappings.
// May touch: the system, gtest.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace adaptib::test {

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

// Memory of memfd_secret, with nothing behind its last page. It counts as locked memory.
class SecretMemory {
public:
    explicit SecretMemory(std::size_t bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        length_ = (bytes + page - 1) / page * page;
        const int fd = static_cast<int>(syscall(SYS_memfd_secret, 0));
        if (fd < 0) {
            return;
        }
        if (ftruncate(fd, static_cast<off_t>(length_)) == 0) {
            void* at = mmap(nullptr, length_ + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (at != MAP_FAILED && mmap(at, length_, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
                data_ = static_cast<std::byte*>(at);
            }
        }
        close(fd);
        end_ = page;
    }
    ~SecretMemory() {
        if (data_ != nullptr) {
            munmap(data_, length_ + end_);
        }
    }
    SecretMemory(const SecretMemory&) = delete;
    SecretMemory& operator=(const SecretMemory&) = delete;

    bool there() const { return data_ != nullptr; }
    std::byte* data() const { return data_; }
    std::size_t size() const { return length_; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }

private:
    std::byte* data_ = nullptr;
    std::size_t length_ = 0;
    std::size_t end_ = 0;
};

} // namespace adaptib::test
