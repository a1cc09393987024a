// SPDX-License-Identifier: BSD-3-Clause
// Units of the core: time, sizes and rates.
//
// Purpose: the type of a quantity says what it counts. Times are std::chrono durations from an
// arbitrary start that the Clock chose. Sizes are plain byte counts: every size in the core is a
// Bytes, wide enough for MPI's large counts. Rates are a type of their own, so that no rate is
// taken for a size.
// May touch: nothing (standard library only).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace adaptib {

using Nanoseconds = std::chrono::duration<std::int64_t, std::nano>;
using Bytes = std::uint64_t;

struct BytesPerSecond {
    std::uint64_t value = 0;

    friend constexpr auto operator<=>(BytesPerSecond, BytesPerSecond) = default;
};

constexpr Bytes kKiB = 1024;
constexpr Bytes kMiB = 1024 * kKiB;
constexpr Bytes kGiB = 1024 * kMiB;

constexpr Bytes kCacheLine = 64;

// Time that `size` needs at `rate`; zero for a rate of zero, which means "not limited".
constexpr Nanoseconds time_for(Bytes size, BytesPerSecond rate) {
    if (rate.value == 0) {
        return Nanoseconds{0};
    }
    return Nanoseconds{static_cast<std::int64_t>(static_cast<double>(size) * 1e9 /
                                                 static_cast<double>(rate.value))};
}

inline std::string whole_seconds_text(Nanoseconds time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

constexpr Bytes round_up(Bytes value, Bytes multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Returns true if `length` bytes from `address` on lie within `size` bytes from `begin` on. Forms
// no sum, so no value that a peer sends overflows.
constexpr bool is_within(std::uint64_t address, Bytes length, std::uint64_t begin, Bytes size) {
    return address >= begin && length <= size && address - begin <= size - length;
}

} // namespace adaptib
