// SPDX-License-Identifier: BSD-3-Clause
// Copies of values that were stored in pieces, loaded in the same pieces.
//
// Purpose: a processor forwards a recent store to a load that lies within it. A load that spans
// several recent stores waits until they, and so all earlier stores, have reached the cache. If
// earlier stores went to ring lines that another processor read last, that wait is long. Compilers
// like to copy small structures in larger units than those they were filled in. So structures that
// are filled and copied on the hot path are copied with load_member, member by member.
// May touch: nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adaptib {

// Loads one member by a load of its own.
template <class T> [[gnu::always_inline]] constexpr T load_member(const T& from) {
    T value = from;
    if (!std::is_constant_evaluated()) {
        asm("" : "+r"(value));
    }
    return value;
}

// Copies sizeof(T) to 2 * sizeof(T) bytes as two Ts, the first and the last bytes, which may
// overlap.
template <typename T>
[[gnu::always_inline]] inline void copy_ends(void* to, const void* from, std::size_t bytes) {
    T first;
    T last;
    const std::size_t at = bytes - sizeof last;
    std::memcpy(&first, from, sizeof first);
    std::memcpy(&last, static_cast<const std::byte*>(from) + at, sizeof last);
    std::memcpy(to, &first, sizeof first);
    std::memcpy(static_cast<std::byte*>(to) + at, &last, sizeof last);
}

// Copies the sizes that copy_small does not copy inline. REQUIRES: bytes > 0
void copy_others(void* to, const void* from, std::size_t bytes);

// Like memcpy, for sizes that are mostly 8 to 16 bytes: those are copied without a call.
[[gnu::always_inline]] inline void copy_small(void* to, const void* from, std::size_t bytes) {
    if (bytes - sizeof(std::uint64_t) <= sizeof(std::uint64_t)) [[likely]] { // 8 to 16
        copy_ends<std::uint64_t>(to, from, bytes);
    } else if (bytes > 0) {
        copy_others(to, from, bytes);
    }
}

} // namespace adaptib
