// SPDX-License-Identifier: BSD-3-Clause
// QuietThread: a thread of the fabric's own that leaves the program's signals to the program.
//
// Signals: all are blocked in the thread. Fork: a child has no such thread, and its copy of this
// object ends without one.
// Ownership: the owner tells the thread to end before it calls join(), at the latest in its
// destructor.
// May touch: base/, pthreads.
#pragma once

#include <pthread.h>
#include <sys/types.h>

namespace adaptib::verbs {

class QuietThread {
public:
    // Runs `run(self)` in the thread. Returns false if the system gives none.
    bool start(void* (*run)(void*), void* self);
    // False in a forked child.
    bool running() const;
    // REQUIRES: running().
    void join();

private:
    bool running_ = false;
    pid_t owner_ = 0; // process that the thread belongs to
    pthread_t thread_{};
};

} // namespace adaptib::verbs
