// SPDX-License-Identifier: BSD-3-Clause
// Memory of the node, and limits of control groups (fabric/shm/node_memory.h).
#include "fabric/shm/node_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace adaptib::shm {

namespace {

constexpr Bytes kUnlimited = ~Bytes{0};
constexpr Bytes kShare = 16;       // fraction of the node's memory: 1/16
constexpr Bytes kLeast = 4 * kMiB; // the fixed part, the queue and some rings

// Returns kUnlimited for "max" or a missing file.
Bytes limit_in(const std::string& file) {
    std::ifstream in(file);
    Bytes bytes = 0;
    return in >> bytes ? bytes : kUnlimited;
}

// Lowest limit of the group and of all groups around it.
Bytes limit_of_group(const std::string& root, std::string group, const char* file) {
    Bytes least = kUnlimited;
    while (true) {
        least = std::min(least, limit_in(root + group + '/' + file));
        const std::size_t slash = group.rfind('/');
        if (slash == std::string::npos) {
            return least;
        }
        group.erase(slash);
    }
}

bool names_memory(const std::string& controllers) {
    return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

// Reads lines "hierarchy:controllers:group"; version 2 of control groups has no controllers there.
Bytes limit_of_groups(const std::string& proc, const std::string& sys) {
    Bytes least = kUnlimited;
    std::ifstream groups(proc + "/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::string group = line.substr(second + 1);
        if (group == "/") {
            group.clear();
        }
        if (controllers.empty()) {
            least = std::min(least, limit_of_group(sys + "/fs/cgroup", group, "memory.max"));
        } else if (names_memory(controllers)) {
            least = std::min(
                least, limit_of_group(sys + "/fs/cgroup/memory", group, "memory.limit_in_bytes"));
        }
    }
    return least;
}

Bytes memory_of_machine() {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<Bytes>(pages) * static_cast<Bytes>(page)
                                 : kUnlimited;
}

} // namespace

Bytes node_memory(const std::string& proc, const std::string& sys) {
    return std::min(memory_of_machine(), limit_of_groups(proc, sys));
}

Bytes default_memory(Bytes node, std::uint32_t processes) {
    return std::max(kLeast, node / kShare / std::max(processes, 1u));
}

Bytes default_memory(std::uint32_t processes) {
    static const Bytes node = node_memory();
    return default_memory(node, processes);
}

} // namespace adaptib::shm
