// SPDX-License-Identifier: BSD-3-Clause
// Copies of more than 2 KiB (base/pieces.h).
#include "base/pieces.h"

#include <cstdint>

namespace adaptib {
namespace {

// The C library copies more than 2 KiB by `rep movsb`. On Zen 3 and 4 that takes 27 times as long if, within their
// pages, the target begins up to 15 bytes behind the source, and twice as long up to 31; and up to some KiB vectors are
// faster anyhow (TUNING.md of test/bench has the figures).
bool has_slow_strings() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amdfam19h") != 0;
#else
    return false;
#endif
}

constexpr std::size_t kVectorsFasterUpTo = 6144;

bool is_close_behind(const void* to, const void* from) {
    constexpr std::uintptr_t kPage = 4096;
    constexpr std::uintptr_t kClose = 31;
    const auto behind =
        reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
    return (behind - 1) % kPage < kClose;
}

} // namespace

void copy_long(void* to, const void* from, std::size_t bytes) {
    static const bool slow_strings = has_slow_strings();
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    if (slow_strings && (bytes <= kVectorsFasterUpTo || is_close_behind(to, from))) {
        for (; bytes > kCopiedAtOnce; bytes -= kCopiedAtOnce) {
            std::memcpy(target, source, kCopiedAtOnce);
            target += kCopiedAtOnce;
            source += kCopiedAtOnce;
        }
    }
    std::memcpy(target, source, bytes);
}

} // namespace adaptib
