// SPDX-License-Identifier: BSD-3-Clause
// Text and packed form of an obstacle (obstacle.h).
#include "fabric/shm/obstacle.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "fabric/shm/layout.h"

namespace adaptib::shm {

namespace {

constexpr std::uint64_t kRefused = 1ull << 63;

std::string limit_text(int which, std::uint64_t unit, const char* name) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY) {
        return std::string("; ") + name + " is not limited, the system as a whole is";
    }
    return std::string("; ") + name + " is " + std::to_string(limit.rlim_cur / unit);
}

std::string request_text(int error) {
    switch (error) {
    case ENOTSUP: return "it has none in this network namespace";
    case ECONNREFUSED: return "no process answers there (it has ended)";
    case EAGAIN: return "no answer yet";
    default: return std::strerror(error);
    }
}

} // namespace

std::uint64_t Obstacle::pack() const {
    return kRefused | static_cast<std::uint64_t>(static_cast<std::uint16_t>(request_error)) << 32 |
           static_cast<std::uint64_t>(static_cast<std::uint16_t>(error)) << 16 |
           static_cast<std::uint64_t>(reason) << 8 | static_cast<std::uint64_t>(step);
}

Obstacle Obstacle::unpack(std::uint64_t word) {
    Obstacle out;
    if ((word & kRefused) != 0) {
        out.step = static_cast<Step>(word & 0xff);
        out.reason = static_cast<Reason>(word >> 8 & 0xff);
        out.error = static_cast<int>(word >> 16 & 0xffff);
        out.request_error = static_cast<int>(word >> 32 & 0xffff);
    }
    return out;
}

std::string Obstacle::text(std::uint32_t pid, bool here) const {
    const std::string of = " of the shared segment of process " + std::to_string(pid);
    const std::string why = std::string(": ") + std::strerror(error);
    switch (step) {
    case Step::none: return {};
    case Step::open:
        return "open" + of + why +
               (here && error == EMFILE ? limit_text(RLIMIT_NOFILE, 1, "ulimit -n") : "");
    case Step::request:
        return "open" + of + " in /proc/" + std::to_string(pid) + "/fd" + why +
               "; and asking the process for it over its Unix socket: " +
               request_text(request_error) +
               (here && request_error == EMFILE ? limit_text(RLIMIT_NOFILE, 1, "ulimit -n") : "");
    case Step::map:
        return "mmap" + of + why +
               (here && error == ENOMEM ? limit_text(RLIMIT_AS, 1024, "ulimit -v") : "");
    case Step::commit: return "fallocate" + of + why;
    case Step::identity: return std::string("open of /proc/self/stat") + why;
    case Step::places:
        return "all " + std::to_string(kMaxProducers) + " places for senders" + of + " are taken";
    case Step::contents: return "the file found in place" + of + " is another one";
    }
    return {};
}

} // namespace adaptib::shm
