// SPDX-License-Identifier: BSD-3-Clause
// Responder: the thread that answers for a process while the process computes (fabric/fabric.h,
// Fabric::respond).
//
// Purpose: one thread for all rails of a fabric. It sleeps in poll() on the rails' completion
// channels and on a descriptor that wakes it to end; what comes is answered by the rail's
// ResponderPort. It answers kMostAtOnce questions in kInterval at most, of all rails, and rests for
// what is left of that time: whoever asks more gets no answer to some, and the processor stays with
// the program. Asynchronous events of the devices are read by the core alone, which has their order
// to keep.
// Shares with others: the answerer, and each rail's port under a lock that is taken when either
// changes something.
// Signals: all are blocked in it. Fork: a child has no such thread, and its copy of this object
// ends without one.
// Ownership: the fabric's; before the rails.
// May touch: base/, fabric/, libibverbs, pthreads, poll, eventfd.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "fabric/verbs/responder_port.h"

namespace adaptib::verbs {

class Responder {
public:
    static constexpr std::size_t kMostAtOnce = 100; // 10,000 a second
    static constexpr std::chrono::milliseconds kInterval{10};

    Responder() = default;
    ~Responder();
    Responder(const Responder&) = delete;
    Responder& operator=(const Responder&) = delete;

    // Rails that cannot have a queue pair more go without. Errors: none has one, or there is no
    // thread.
    Status start(std::span<const std::unique_ptr<Rail>> rails, const Answerer& answerer,
                 std::uint64_t access_key);
    // 0: none.
    std::uint32_t number(std::uint32_t rail) const {
        return rail < ports_.size() && ports_[rail] != nullptr ? ports_[rail]->number() : 0;
    }
    // The rail's port has been read again.
    void set_port(std::uint32_t rail, const Port& port);

private:
    static void* run(void* self);
    void wake() const;
    void loop();
    int timeout(bool rests) const;
    void stop();

    std::vector<std::unique_ptr<ResponderPort>> ports_; // by rail; null: none
    int wakes_ = -1;                                    // eventfd
    bool running_ = false;
    std::atomic<bool> ends_{false};
    pid_t owner_ = 0; // the process whose thread it is
    pthread_t thread_{};
};

} // namespace adaptib::verbs
