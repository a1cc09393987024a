// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/quiet_thread.h"

#include <unistd.h>

#include <csignal>

#include "base/invariant.h"

namespace adaptib::verbs {

bool QuietThread::start(void* (*run)(void*), void* self) {
    ADAPTIB_INVARIANT(!running(), "an object has one thread at a time", owner_);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    owner_ = getpid();
    if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
        running_ = pthread_create(&thread_, nullptr, run, self) == 0;
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    return running_;
}

bool QuietThread::running() const { return running_ && getpid() == owner_; }

void QuietThread::join() {
    ADAPTIB_INVARIANT(running(), "a thread that is waited for runs in this process", running_,
                      owner_);
    pthread_join(thread_, nullptr);
    running_ = false;
}

} // namespace adaptib::verbs
