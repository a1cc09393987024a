// SPDX-License-Identifier: BSD-3-Clause
// Values that are stored in pieces and loaded in pieces.
//
// Purpose: a processor hands a recent store on to a load that lies within it; a load that spans several
// recent stores waits until these, and so all that were stored before them, have reached the cache. The
// lines of a ring that another processor has read last make that a long wait. Compilers like to copy
// small structures in larger units than they were filled in: what is filled and copied on the hot path is
// copied with load_piece, member by member.
// May touch: nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adaptib {

// A member, by a load of its own.
template <class T> [[gnu::always_inline]] constexpr T load_piece(const T& from) {
    T value = from;
    if (!std::is_constant_evaluated()) {
        asm("" : "+r"(value));
    }
    return value;
}

// One to two Ts: the first and the last bytes.
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

// What copy_few does not copy itself. REQUIRES: bytes > 0
void copy_others(void* to, const void* from, std::size_t bytes);

// Like memcpy, for what is a few bytes most of the time: these without a call.
[[gnu::always_inline]] inline void copy_few(void* to, const void* from, std::size_t bytes) {
    if (bytes - sizeof(std::uint64_t) <= sizeof(std::uint64_t)) [[likely]] { // 8 to 16
        copy_ends<std::uint64_t>(to, from, bytes);
    } else if (bytes > 0) {
        copy_others(to, from, bytes);
    }
}

} // namespace adaptib
