// SPDX-License-Identifier: BSD-3-Clause
// Copies of sizes other than 8 to 16 bytes (base/copy.h).
#include "base/copy.h"

#include <cstdint>

namespace adaptib {
namespace {

// The C library copies more than 2 KiB by `rep movsb`. On Zen 3 and 4 that takes 27 times as long
// if the destination begins up to 15 bytes behind the source (addresses modulo the page size), and
// twice as long up to 31. Up to a few KiB vector loads are faster anyhow (figures:
// benchmarks/TUNING.md).
bool has_slow_strings() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amdfam19h") != 0;
#else
    return false;
#endif
}

constexpr std::size_t kByVectors = 2048; // the longest copy that the library does by vectors
constexpr std::size_t kVectorsFasterUpTo = 6144;

bool is_close_behind(const std::byte* to, const std::byte* from) {
    constexpr std::uintptr_t kPage = 4096;
    constexpr std::uintptr_t kClose = 31;
    const auto behind =
        reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
    return (behind - 1) % kPage < kClose;
}

void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) {
    static const bool slow_strings = has_slow_strings();
    if (slow_strings && (bytes <= kVectorsFasterUpTo || is_close_behind(to, from))) {
        for (; bytes > kByVectors; bytes -= kByVectors) {
            std::memcpy(to, from, kByVectors);
            to += kByVectors;
            from += kByVectors;
        }
    }
    std::memcpy(to, from, bytes);
}

} // namespace

void copy_others(void* to, const void* from, std::size_t bytes) {
    if (bytes > kByVectors) {
        copy_long(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
    } else if (bytes >= sizeof(std::uint64_t)) {
        std::memcpy(to, from, bytes);
    } else if (bytes >= sizeof(std::uint32_t)) {
        copy_ends<std::uint32_t>(to, from, bytes);
    } else if (bytes >= sizeof(std::uint16_t)) {
        copy_ends<std::uint16_t>(to, from, bytes);
    } else {
        *static_cast<std::byte*>(to) = *static_cast<const std::byte*>(from);
    }
}

} // namespace adaptib
