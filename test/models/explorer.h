// SPDX-License-Identifier: BSD-3-Clause
// Explorer: runs a small program of several threads in every order that matters.
//
// Purpose: finds the interleaving in which code that shares memory without a mutex goes wrong. The
// production source is compiled as it is, by a compiler that calls a function for each access to
// memory (-fsanitize=thread); here these functions are the explorer's (runtime.cc) in place of
// ThreadSanitizer's. The threads of a model are coroutines. Before each atomic access that another
// thread could notice, and each use of a mutex, the explorer decides which thread goes on, and
// which of the values that a load may return by the rules of C++ it returns. It runs the program
// again and again until it has tried all decisions with at most `preemptions` switches away from a
// thread that could go on, and at most `stale_loads` loads that do not return the newest value.
//
// Memory: a load may return a store that is not the newest one, unless the thread knows of a later
// one: by release and acquire, by a fence, by membarrier(2), or since it has seen it. This covers
// what the store buffers of an x86 delay, and the reordering of stores with stores and of loads
// with loads on ARM. Not covered: a store that overtakes an earlier load of its thread; stores of
// two threads to one place that different threads see in different orders.
// An access that is not atomic, and that is not ordered against another one of the same bytes, is
// a failure (a data race); so nothing depends on when the others happen. A use of memory that was
// freed is a failure, too (stand_in/heap.h).
//
// Time: a wait on a condition variable, and pause(), may find their time over at each moment. The
// clock stands still but for `leaps`, any of which may come before each look at it.
//
// What is watched: memory of Execution only. Everything else belongs to one thread.
// Source: Musuvathi, Qadeer: Iterative context bounding, PLDI 2007; Norris, Demsky: CDSChecker,
// OOPSLA 2013; Serebryany, Iskhodzhanov: ThreadSanitizer, WBIA 2009.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace adaptib::model {

struct Bounds {
    int preemptions = 3;
    int stale_loads = 2;
    int leaps = 0; // of the clock, so far that what waits gives up; it stands still otherwise
    double seconds = 600; // of a processor; the exploration is not whole if it takes longer
};

struct Explored {
    std::uint64_t executions = 0;
    std::uint64_t decisions = 0; // of the longest execution
    bool whole = false;          // all decisions within the bounds were tried
    std::string failure;         // empty: none; else what failed and the steps that led there
};

constexpr int kMostThreads = 4;

// One execution of the program, to be set up. All of it is made anew for each.
class Execution {
public:
    // A zeroed object in watched memory, with a name for the steps of a failure. Destroyed after
    // the execution.
    template <typename T, typename... Arguments>
    T& make(const std::string& name, Arguments&&... arguments) {
        T* const made =
            new (memory(name, sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
        at_end([made] { made->~T(); });
        return *made;
    }
    // Zeroed bytes in watched memory.
    std::byte* memory(const std::string& name, std::size_t bytes, std::size_t alignment);
    // Adds a thread; the first is number 1.
    void thread(std::function<void()> body);
    // Calls `f` at once, as thread `number` before all threads start: no decisions are tried.
    void before(int number, const std::function<void()>& f);
    // Called when all threads have ended; knows what they have done.
    void after(std::function<void()> check);
    // Called after after(), whatever the outcome but a failure.
    void at_end(std::function<void()> destroy);
};

// Runs `program`, which sets up an execution, until all decisions are tried or one of them fails.
Explored explore(const Bounds& bounds, const std::function<void(Execution&)>& program);

// For threads of a model:

// Fails the execution.
void fail(const std::string& text);
inline void check(bool good, const char* text) {
    if (!good) {
        fail(text);
    }
}
// Another thread has to do something first. A loop that waits without this is endless.
void yield();
// Others may do something first: for a wait that ends when its time is over.
void pause();
// Returns each number below `count` in turn.
int choose(int count);
// The clock goes on.
void pass(std::uint64_t nanoseconds);
// Waits until `ready` returns true.
template <typename F> void wait_until(F&& ready) {
    while (!ready()) {
        yield();
    }
}

} // namespace adaptib::model
