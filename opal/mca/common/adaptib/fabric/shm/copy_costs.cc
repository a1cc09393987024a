// SPDX-License-Identifier: BSD-3-Clause
// Times copies of this process's own memory (fabric/shm/copy_costs.h).
#include "fabric/shm/copy_costs.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fabric/shm/process.h"

namespace adaptib::shm {

namespace {

constexpr int kTimes = 5; // copies of each size
constexpr Nanoseconds kLimit = std::chrono::milliseconds{1};

template <typename F> void keep_least(const Clock& clock, Nanoseconds& least, F&& copy) {
    const Nanoseconds start = clock.now();
    copy();
    least = std::min(least, clock.now() - start);
}

} // namespace

std::optional<CopyCosts> measure_copies(const Clock& clock, const CopyTrial& trial) {
    constexpr Bytes kLargest = CopyCosts::kSizes.back();
    std::vector<std::byte> from(kLargest, std::byte{1});
    std::vector<std::byte> to(kLargest);
    CopyCosts costs;
    const Nanoseconds start = clock.now();
    for (std::size_t i = 0; i < CopyCosts::kSizes.size(); ++i) {
        const Bytes bytes = CopyCosts::kSizes[i];
        costs.single[i] = costs.plain[i] = Nanoseconds::max();
        for (int time = 0; time < kTimes; ++time) {
            bool copied = false;
            keep_least(clock, costs.single[i],
                       [&] { copied = trial.single(to.data(), from.data(), bytes); });
            keep_least(clock, costs.plain[i], [&] { trial.plain(to.data(), from.data(), bytes); });
            if (!copied || clock.now() - start > kLimit) {
                return std::nullopt;
            }
        }
    }
    return costs;
}

std::optional<CopyCosts> measure_copies(const Clock& clock) {
    const auto self = static_cast<std::uint32_t>(getpid());
    CopyTrial trial;
    trial.single = [self](std::byte* to, const std::byte* from, Bytes length) {
        const Gather gather{to, length, 0};
        return copy_memory(Direction::from_peer, self, reinterpret_cast<std::uintptr_t>(from),
                           {&gather, 1}, 0, length) == CopyResult::ok;
    };
    trial.plain = [](std::byte* to, const std::byte* from, Bytes length) {
        std::memcpy(to, from, length);
        asm volatile("" : : "r"(to) : "memory"); // keeps the copy: the memory may be read
    };
    return measure_copies(clock, trial);
}

} // namespace adaptib::shm
