// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/quiet_thread.h"

#include <unistd.h>

#include <csignal>

namespace adaptib::verbs {

bool QuietThread::start(void* (*run)(void*), void* self) {
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
    pthread_join(thread_, nullptr);
    running_ = false;
}

} // namespace adaptib::verbs
