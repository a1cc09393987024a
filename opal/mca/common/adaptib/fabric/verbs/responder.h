// SPDX-License-Identifier: BSD-3-Clause
// Responder: the thread that replies for a process while the process computes (fabric/fabric.h,
// Fabric::respond).
//
// Purpose: one thread for all rails of a fabric. It sleeps in poll() on the rails' completion
// channels and on a descriptor that wakes it to end; the rail's ResponderPort answers each
// question. The thread takes about kMostAtOnce questions of all rails in each kInterval and rests
// for the remainder of that time: a peer that asks more often gets no reply to some questions, and
// the program keeps the processor. Only the core reads the devices' asynchronous events, because it
// has to keep their order.
// Shared: the answerer; each rail's port, under a lock that either side takes when it changes
// something.
// Ownership: the fabric's; ends before the rails.
// May touch: base/, fabric/, libibverbs, pthreads, poll, eventfd.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "fabric/verbs/quiet_thread.h"
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

    // Rails that cannot have another queue pair go without a responder. Errors: no rail has one, or
    // there is no thread.
    Status start(std::span<const std::unique_ptr<Rail>> rails, const Answerer& answerer,
                 std::uint64_t access_key);
    // Number of the rail's responder; 0: none.
    std::uint32_t number(std::uint32_t rail) const {
        return rail < ports_.size() && ports_[rail] != nullptr ? ports_[rail]->number() : 0;
    }
    // The thread rests until resume(): rails may be made anew.
    void pause();
    // Gives the rails whose device was opened again another queue pair, as far as they can have
    // one.
    void resume(std::span<const std::unique_ptr<Rail>> rails);
    // Takes over the rail's port after the rail has read it again.
    void set_port(std::uint32_t rail, const Port& port);

private:
    static void* run(void* self);
    Status open(Rail& rail, std::unique_ptr<ResponderPort>& out) const;
    bool begin();
    void wake() const;
    void watch();
    void loop();
    int timeout(bool rests) const;

    const Answerer* answerer_ = nullptr; // set by start()
    std::uint64_t access_key_ = 0;
    std::vector<std::unique_ptr<ResponderPort>> ports_; // by rail; null: none
    // The thread's: what poll() watches, first wakes_, then a channel for each of `served_`.
    std::vector<pollfd> watched_;
    std::vector<ResponderPort*> served_;
    int wakes_ = -1; // eventfd
    std::atomic<bool> ends_{false};
    QuietThread thread_;
};

} // namespace adaptib::verbs
