// SPDX-License-Identifier: BSD-3-Clause
// The habits of this host's processor.
#include "channel/ring_habits.h"

namespace adaptib {

namespace {

// Intel processors perform stores into another processor's lines one after the other; several
// proceed at once only if the lines were prefetched, and laps are cheap. AMD processors do better
// without prefetching: lines requested early get in the way of what the reader reads. Of these, Zen
// 3 and 4 take back a line that the reader has stored into in half of the time that it takes to
// take back one that it has only read, if both rings are in the cache next to the processor.
RingHabits habits_of_processor() {
    constexpr std::uint32_t kOneLine = 1;
    RingHabits habits{.most_claimed = kOneLine,
                      .lap_messages = 16,
                      .lap_longest = kShortLap / 2,
                      .dirties = false};
#if defined(__x86_64__)
    constexpr std::uint32_t kPageAndHeaders = (4096 + 256) / kRingUnit;
    constexpr std::uint32_t kTwoPagesAndHeaders = (8192 + 256) / kRingUnit;
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel") != 0) {
        habits.most_claimed = kPageAndHeaders;
    } else if (__builtin_cpu_is("amdfam19h") != 0) {
        habits.most_claimed = 0;
        habits.lap_messages = 4;
        habits.lap_longest = kTwoPagesAndHeaders;
        habits.dirties = true;
    }
#endif
    return habits;
}

const RingHabits* g_assumed = nullptr;

} // namespace

const RingHabits& ring_habits() {
    static const RingHabits habits = habits_of_processor();
    return g_assumed != nullptr ? *g_assumed : habits;
}

void assume_ring_habits(const RingHabits* habits) { g_assumed = habits; }

} // namespace adaptib
