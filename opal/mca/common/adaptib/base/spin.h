// SPDX-License-Identifier: BSD-3-Clause
// Polling a word that another processor stores into.
//
// Purpose: in a loop that only loads and compares, a processor runs ahead. When another processor
// takes the word's line in order to store into it, dozens of loads are in flight; all of them, and
// what depends on them, are undone when the loop ends. With one load at a time an 8-byte message
// takes 5 to 8 % less time (benchmarks/TUNING.md).
// In the models of test/models, which try all orders of the threads' steps, the explorer says what
// these functions do.
// May touch: nothing.
#pragma once

#include <cstdint>

#if defined(ADAPTIB_MODEL)
extern "C" {
void adaptib_model_wait();
std::uint64_t adaptib_model_ticks();
const void* adaptib_model_thread();
}
#endif

namespace adaptib {

// Identifies the calling thread among those that run.
inline std::uintptr_t this_thread() {
#if defined(ADAPTIB_MODEL)
    return reinterpret_cast<std::uintptr_t>(adaptib_model_thread());
#else
    return reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
#endif
}

// Waits between two loads: about 5 ns. The pause that is usual for spinning takes 25 ns and more.
inline void look_once_more() {
#if defined(ADAPTIB_MODEL)
    adaptib_model_wait();
#elif defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    asm volatile("isb" : : : "memory");
#endif
}

// A counter that runs with time, usually 2 to 4 ticks a ns, cheaper to read than a clock. 0: none.
inline std::uint64_t ticks() {
#if defined(ADAPTIB_MODEL)
    return adaptib_model_ticks();
#elif defined(__x86_64__)
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
