// SPDX-License-Identifier: BSD-3-Clause
// To look again and again at a word that another processor stores into.
//
// Purpose: a processor runs ahead of a loop that only loads and compares: dozens of its loads are under way when the
// word's line is taken away to be stored into, and all of them, and what depends on them, have to be undone when the loop
// ends. With one load at a time 8 bytes take 5 to 8 % less (test/bench/TUNING.md).
// May touch: nothing.
#pragma once

#include <cstdint>

namespace adaptib {

// Between two looks. A pause, as spinning processors are told to take, is 25 ns and more; this is 5.
inline void look_once_more() {
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    asm volatile("isb" : : : "memory");
#endif
}

// A counter that runs with time, two to four times a ns as a rule, and takes less to read than a clock; 0: there is none.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t count = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return 0;
#endif
}

} // namespace adaptib
