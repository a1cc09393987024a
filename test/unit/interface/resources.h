// SPDX-License-Identifier: BSD-3-Clause
// Resources of the system that this process holds: bytes of the heap, memory of shared segments,
// descriptors and threads.
//
// Purpose: the difference of two counts is what something costs that was made between them.
// Threads: other threads must not allocate meanwhile.
// May touch: the C library, the system.
#pragma once

#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace adaptib::test {

struct Resources {
    std::int64_t heap = 0;    // bytes in use, as malloc counts them; 0 under a sanitizer
    std::int64_t shared = 0;  // bytes that files of segments have, its touched pages
    std::int64_t files = 0;   // descriptors
    std::int64_t devices = 0; // descriptors of RDMA devices among these
    std::int64_t threads = 0;

    friend Resources operator-(const Resources& a, const Resources& b) {
        return {a.heap - b.heap, a.shared - b.shared, a.files - b.files, a.devices - b.devices,
                a.threads - b.threads};
    }
};

template <class F> void for_each_entry(const char* directory, F&& f) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory), closedir);
    while (const dirent* entry = open == nullptr ? nullptr : readdir(open.get())) {
        if (entry->d_name[0] != '.') {
            f(entry->d_name);
        }
    }
}

inline Resources resources_now() {
    Resources now;
    const struct mallinfo2 heap = mallinfo2();
    now.heap = static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
    for_each_entry("/proc/self/fd", [&](const std::string& name) {
        std::array<char, 256> path{};
        struct stat file {};
        const int number = std::atoi(name.c_str());
        if (readlink(("/proc/self/fd/" + name).c_str(), path.data(), path.size() - 1) <= 0 ||
            fstat(number, &file) != 0) {
            return;
        }
        ++now.files;
        const std::string_view target = path.data();
        if (target.find("adaptib") != std::string_view::npos && S_ISREG(file.st_mode)) {
            now.shared += static_cast<std::int64_t>(file.st_blocks) * 512;
        }
        now.devices += target.find("infiniband") != std::string_view::npos;
    });
    for_each_entry("/proc/self/task", [&](const std::string&) { ++now.threads; });
    return now;
}

} // namespace adaptib::test
