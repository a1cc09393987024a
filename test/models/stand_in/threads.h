// SPDX-License-Identifier: BSD-3-Clause
// In place of the system's threads: what the set-up of a model lets a source begin is a thread of
// the model. A model includes this once, and begins each execution with begin_threads().
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "explorer.h"

namespace adaptib::model {

struct Threads {
    std::atomic<std::uint32_t> ended[kMostThreads + 1];
};
inline Threads* g_threads = nullptr;
inline Execution* g_execution = nullptr;
inline pthread_t g_begun = 0;

inline void begin_threads(Execution& execution) {
    g_threads = &execution.make<Threads>("ends of threads");
    g_execution = &execution;
    g_begun = 0;
}

} // namespace adaptib::model

extern "C" {

int pthread_create(pthread_t* out, const pthread_attr_t*, void* (*run)(void*), void* of) {
    using namespace adaptib::model;
    *out = ++g_begun;
    g_execution->thread([run, of, ended = &g_threads->ended[*out]] {
        run(of);
        ended->store(1, std::memory_order_release);
    });
    return 0;
}

int pthread_join(pthread_t thread, void**) {
    using namespace adaptib::model;
    wait_until([&] { return g_threads->ended[thread].load(std::memory_order_acquire) != 0; });
    return 0;
}

int pthread_detach(pthread_t) { return 0; }
}
