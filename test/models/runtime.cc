// SPDX-License-Identifier: BSD-3-Clause
// The functions that -fsanitize=thread makes a compiler call, for the explorer; and the functions
// of the system that the models' sources call while they wait, lock, or fence.
//
// This source is compiled without -fsanitize=thread. The linker's --wrap (test/models/run) leads
// calls of memcpy and so on here.
// Source: the calls are those of compiler-rt's tsan_interface.h and of gcc's sanitizer.def.
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "explorer.h"
#include "machine.h"

using namespace adaptib::model;

// Of base/spin.h.
extern "C" {
void adaptib_model_wait();
std::uint64_t adaptib_model_ticks();
const void* adaptib_model_thread();
void adaptib_model_fence_all();
}

void adaptib_model_wait() {
    if (machine_active()) {
        machine_wait();
    }
}
std::uint64_t adaptib_model_ticks() { return machine_active() ? machine_ticks() : 0; }
const void* adaptib_model_thread() {
    return machine_active() ? machine_identity() : __builtin_thread_pointer();
}

// -------------------------------------------------------------------------------------------------
// Accesses that are not atomic

namespace {

void touch(const void* at, std::size_t size, bool write) {
    if (machine_watches(at)) {
        machine_plain(at, size, write);
    }
}

} // namespace

#define ADAPTIB_PLAIN(name, size)                                                                  \
    void __tsan_read##name(void* at) { touch(at, size, false); }                                   \
    void __tsan_write##name(void* at) { touch(at, size, true); }                                   \
    void __tsan_unaligned_read##name(void* at) { touch(at, size, false); }                         \
    void __tsan_unaligned_write##name(void* at) { touch(at, size, true); }                         \
    void __tsan_volatile_read##name(void* at) { touch(at, size, false); }                          \
    void __tsan_volatile_write##name(void* at) { touch(at, size, true); }                          \
    void __tsan_unaligned_volatile_read##name(void* at) { touch(at, size, false); }                \
    void __tsan_unaligned_volatile_write##name(void* at) { touch(at, size, true); }

extern "C" {
ADAPTIB_PLAIN(1, 1)
ADAPTIB_PLAIN(2, 2)
ADAPTIB_PLAIN(4, 4)
ADAPTIB_PLAIN(8, 8)
ADAPTIB_PLAIN(16, 16)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** at, void*) { touch(at, sizeof(void*), true); }
void __tsan_vptr_read(void** at) { touch(at, sizeof(void*), false); }
void __tsan_read_range(void* at, std::size_t size) { touch(at, size, false); }
void __tsan_write_range(void* at, std::size_t size) { touch(at, size, true); }

void* __real_memcpy(void* to, const void* from, std::size_t size);
void* __real_memmove(void* to, const void* from, std::size_t size);
void* __real_memset(void* to, int value, std::size_t size);
void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
    touch(from, size, false);
    touch(to, size, true);
    return __real_memcpy(to, from, size);
}
void* __wrap_memmove(void* to, const void* from, std::size_t size) {
    touch(from, size, false);
    touch(to, size, true);
    return __real_memmove(to, from, size);
}
void* __wrap_memset(void* to, int value, std::size_t size) {
    touch(to, size, true);
    return __real_memset(to, value, size);
}
}

// -------------------------------------------------------------------------------------------------
// Atomic accesses: in watched memory the explorer's, elsewhere as they are

namespace {

// Changes the memory by f(value).
template <typename T, typename F> T change(volatile T* at, int order, F&& f) {
    void* const place = const_cast<T*>(at);
    if (machine_watches(place)) {
        return static_cast<T>(
            machine_change(place, sizeof(T), order, order, [&](std::uint64_t before) {
                return Changed{static_cast<std::uint64_t>(f(static_cast<T>(before))), true, true};
            }));
    }
    T before = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n(at, &before, f(before), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
    return before;
}

template <typename T>
int compare_exchange(volatile T* at, T* expected, T value, int order, int failed_order) {
    void* const place = const_cast<T*>(at);
    if (machine_watches(place)) {
        const T wanted = *expected;
        const auto before = static_cast<T>(
            machine_change(place, sizeof(T), order, failed_order, [&](std::uint64_t now) {
                return Changed{value, static_cast<T>(now) == wanted, true};
            }));
        *expected = before;
        return before == wanted ? 1 : 0;
    }
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST)
               ? 1
               : 0;
}

} // namespace

#define ADAPTIB_ATOMIC(bits, T)                                                                    \
    T __tsan_atomic##bits##_load(const volatile T* at, int order) {                                \
        const void* const place = const_cast<const T*>(at);                                        \
        return machine_watches(place) ? static_cast<T>(machine_load(place, sizeof(T), order))      \
                                      : __atomic_load_n(at, __ATOMIC_SEQ_CST);                     \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile T* at, T value, int order) {                         \
        void* const place = const_cast<T*>(at);                                                    \
        if (machine_watches(place)) {                                                              \
            machine_store(place, sizeof(T), value, order);                                         \
        } else {                                                                                   \
            __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                         \
        }                                                                                          \
    }                                                                                              \
    T __tsan_atomic##bits##_exchange(volatile T* at, T value, int order) {                         \
        return change(at, order, [&](T) { return value; });                                        \
    }                                                                                              \
    T __tsan_atomic##bits##_fetch_add(volatile T* at, T value, int order) {                        \
        return change(at, order, [&](T before) { return static_cast<T>(before + value); });        \
    }                                                                                              \
    T __tsan_atomic##bits##_fetch_sub(volatile T* at, T value, int order) {                        \
        return change(at, order, [&](T before) { return static_cast<T>(before - value); });        \
    }                                                                                              \
    T __tsan_atomic##bits##_fetch_and(volatile T* at, T value, int order) {                        \
        return change(at, order, [&](T before) { return static_cast<T>(before & value); });        \
    }                                                                                              \
    T __tsan_atomic##bits##_fetch_or(volatile T* at, T value, int order) {                         \
        return change(at, order, [&](T before) { return static_cast<T>(before | value); });        \
    }                                                                                              \
    T __tsan_atomic##bits##_fetch_xor(volatile T* at, T value, int order) {                        \
        return change(at, order, [&](T before) { return static_cast<T>(before ^ value); });        \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value,        \
                                                      int order, int failed_order) {               \
        return compare_exchange(at, expected, value, order, failed_order);                         \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value,          \
                                                    int order, int failed_order) {                 \
        return compare_exchange(at, expected, value, order, failed_order);                         \
    }                                                                                              \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int order,   \
                                                 int failed_order) {                               \
        compare_exchange(at, &expected, value, order, failed_order);                               \
        return expected;                                                                           \
    }

extern "C" {
ADAPTIB_ATOMIC(8, std::uint8_t)
ADAPTIB_ATOMIC(16, std::uint16_t)
ADAPTIB_ATOMIC(32, std::uint32_t)
ADAPTIB_ATOMIC(64, std::uint64_t)

void __tsan_atomic_thread_fence(int order) {
    if (machine_active()) {
        machine_fence(order);
    } else {
        __atomic_thread_fence(order);
    }
}
void __tsan_atomic_signal_fence(int) {}
}

// -------------------------------------------------------------------------------------------------
// The system

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

std::uint64_t nanoseconds_of(const timespec& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * kSecond +
           static_cast<std::uint64_t>(time.tv_nsec);
}

} // namespace

extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
    if (!machine_active()) {
        return __real_pthread_mutex_lock(mutex);
    }
    machine_lock(mutex);
    return 0;
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
    if (!machine_active()) {
        return __real_pthread_mutex_trylock(mutex);
    }
    return machine_try_lock(mutex) ? 0 : EBUSY;
}
int __wrap_pthread_mutex_unlock(pthread_mutex_t* mutex) {
    if (!machine_active()) {
        return __real_pthread_mutex_unlock(mutex);
    }
    machine_unlock(mutex);
    return 0;
}

int __wrap_sched_yield() {
    adaptib_model_wait();
    return 0;
}
int __wrap_usleep(useconds_t) {
    adaptib_model_wait();
    return 0;
}
int __wrap_nanosleep(const timespec*, timespec*) {
    adaptib_model_wait();
    return 0;
}

int __real_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t id,
                                  const timespec* until);
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t id,
                                  const timespec* until) {
    if (!machine_active()) {
        return __real_pthread_cond_clockwait(condition, mutex, id, until);
    }
    if (machine_wait_notified(condition, mutex)) {
        return 0;
    }
    const std::uint64_t now = machine_clock();
    const std::uint64_t then = nanoseconds_of(*until);
    pass(then > now ? then - now : 0);
    return ETIMEDOUT;
}
// std::condition_variable::notify_one
void __real__ZNSt18condition_variable10notify_oneEv(void* condition);
void __wrap__ZNSt18condition_variable10notify_oneEv(void* condition) {
    if (machine_active()) {
        machine_notify(condition);
    } else {
        __real__ZNSt18condition_variable10notify_oneEv(condition);
    }
}

int __real_clock_gettime(clockid_t id, timespec* out);
int __wrap_clock_gettime(clockid_t id, timespec* out) {
    if (!machine_active()) {
        return __real_clock_gettime(id, out);
    }
    const std::uint64_t now = machine_clock();
    *out = {static_cast<time_t>(now / kSecond), static_cast<long>(now % kSecond)};
    return 0;
}
// std::chrono::steady_clock::now
std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
    return machine_active() ? static_cast<std::int64_t>(machine_clock())
                            : __real__ZNSt6chrono3_V212steady_clock3nowEv();
}

long __wrap_syscall(long number, ...) {
    if (number != SYS_membarrier) {
        errno = ENOSYS;
        return -1;
    }
    va_list arguments;
    va_start(arguments, number);
    const int command = va_arg(arguments, int);
    va_end(arguments);
    if (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED && machine_active()) {
        machine_fence_all();
    }
    return 0;
}
}
