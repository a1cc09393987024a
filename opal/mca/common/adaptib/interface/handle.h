// SPDX-License-Identifier: BSD-3-Clause
// Shared parts of the C interface (common_adaptib.h): the handle of an endpoint, its lock, and the
// conversion of handles, envelopes and statuses.
//
// Threads: Guard and guarded() take the lock if several threads may call.
// May touch: every folder of the core; no header of Open MPI.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/biased_lock.h"
#include "common_adaptib.h"
#include "common_adaptib_active.h"
#include "common_adaptib_two_sided.h"
#include "core/core.h"
#include "interface/incident_delivery.h"
#include "interface/process.h"
#include "stats/trace.h"

// An endpoint of the process: what the C interface calls a core.
struct opal_common_adaptib_core {
    opal_common_adaptib_core(adaptib::Process& of, std::uint32_t number, const bool* several)
        : threads(several), process(of), index(number) {}

    // Members that every call reads: one cache line.
    // The core's; null: it is being opened.
    alignas(adaptib::kCacheLine) adaptib::Protocol* protocol = nullptr;
    adaptib::Trace* trace = nullptr; // of its counters; null: none
    const bool* threads; // several may call at the same time, or there are several endpoints
    // A thread is inside opal_common_adaptib_progress or quiesce_messages.
    bool inside = false;
    // progress() may have something to do here: a request is under way, a call was made since it
    // looked last, or it has just found something that was no end of a request. Written with the
    // lock; only if there are several endpoints.
    std::atomic<bool> wants_progress{false};
    std::unique_ptr<adaptib::IncidentDelivery> incidents; // null: nobody hears of them
    std::unique_ptr<adaptib::Core> core;                  // null: it is being opened

    adaptib::Process& process;
    std::uint32_t index;
    opal_common_adaptib_active_t active = nullptr;
    void* active_context = nullptr;
    opal_common_adaptib_broken_t broken = nullptr;
    void* broken_context = nullptr;
    adaptib::BiasedLock lock;
    // Passes of progress, for threads that wonder whether anybody polls; only if there are several
    // endpoints.
    std::atomic<std::uint32_t> passes{0};
    std::uint32_t local_cores = 1;  // endpoints of all processes of this host
    adaptib::Parameters parameters; // its part of the process's limits
    adaptib::Random random{0};
    std::unique_ptr<adaptib::Bootstrap> bootstrap;
};

namespace adaptib {

// An endpoint that a thread polls: the only one of the process, one that the thread was the last to
// use, or another thread's.
enum class Polled : std::uint8_t { only, own, other };
// Makes progress of one endpoint, as far as no other thread is at it, and calls the completion
// functions without the lock; returns the number of events. REQUIRES: several threads may call.
int progress_with_lock(opal_common_adaptib_core* core, Polled which);
// Runs the completion functions, without the lock.
int report_completed(CompletedList& list);
// Returns the open endpoint whose receives these are.
opal_common_adaptib_core& endpoint_of(const TaggedReceives& receives);

// Takes the lock if several threads may call.
class Guard {
public:
    // The call may leave something to progress; if not `may_leave`, its caller says so afterwards.
    explicit Guard(opal_common_adaptib_core* core, bool may_leave = true)
        : core_(*core->threads ? core : nullptr) {
        if (core_ != nullptr) {
            core_->lock.lock();
            if (may_leave) {
                core_->wants_progress.store(true, std::memory_order_relaxed);
            }
        }
    }
    ~Guard() {
        if (core_ != nullptr) {
            core_->lock.unlock();
            core_->process.say_pending();
        }
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

private:
    opal_common_adaptib_core* core_;
};

// Gives the lock up for as long as it exists, if several threads may call. REQUIRES: this thread
// has the lock.
class Unlocked {
public:
    explicit Unlocked(opal_common_adaptib_core* core) : core_(*core->threads ? core : nullptr) {
        if (core_ != nullptr) {
            core_->lock.unlock();
        }
    }
    ~Unlocked() {
        if (core_ != nullptr) {
            core_->lock.lock();
        }
    }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

private:
    opal_common_adaptib_core* core_;
};

// Makes the core call the handler of the handle, if it has one. REQUIRES: the endpoint is open.
void listen_to_active(opal_common_adaptib_core* core);
void listen_to_broken(opal_common_adaptib_core* core);

// Returns true if a call with this result has left nothing for progress to do.
inline bool leaves_nothing(int code) { return code == OPAL_COMMON_ADAPTIB_COMPLETE; }

// Calls kCall(core, arguments...). It is inlined twice: without the lock, and in a function of its
// own with the lock, so that a process with one thread does nothing for it.
template <auto kCall, typename... Arguments>
[[gnu::noinline]] int locked(opal_common_adaptib_core* core, Arguments... arguments) {
    const Guard guard(core, false);
    const int result = kCall(core, arguments...);
    if (!leaves_nothing(result)) {
        core->wants_progress.store(true, std::memory_order_relaxed);
    }
    return result;
}
template <auto kCall, typename... Arguments>
[[gnu::always_inline]] inline int guarded(opal_common_adaptib_core* core, Arguments... arguments) {
    if (*core->threads) [[unlikely]] {
        return locked<kCall>(core, arguments...);
    }
    return kCall(core, arguments...);
}

inline int code_of(Status status) {
    if (status.ok()) {
        return OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    if (status.is_again()) {
        return OPAL_COMMON_ADAPTIB_AGAIN;
    }
    switch (status.reason()) {
    case Reason::locked_memory:
    case Reason::no_memory: return OPAL_COMMON_ADAPTIB_NO_MEMORY;
    case Reason::bad_key:
    case Reason::bad_argument: return OPAL_COMMON_ADAPTIB_BAD_PARAM;
    case Reason::unreachable:
    case Reason::version:
    case Reason::no_device:
    case Reason::no_permission:
    case Reason::peer_gone: return OPAL_COMMON_ADAPTIB_UNREACHABLE;
    default: return OPAL_COMMON_ADAPTIB_ERROR;
    }
}

inline int code_of(Status status, bool complete) {
    return status.ok() && complete ? OPAL_COMMON_ADAPTIB_COMPLETE : code_of(status);
}

inline Envelope envelope_of(const opal_common_adaptib_envelope_t& from) {
    return {load_member(from.context), load_member(from.source), load_member(from.tag)};
}

// The core's own handle stands for the process itself as a peer; its Peer is null. In receive and
// probe, null also means any source; there peer_of() is asked only for a handle that is not null.
inline Peer* peer_of(opal_common_adaptib_core* core, opal_common_adaptib_peer_t* peer) {
    const bool self = static_cast<void*>(peer) == static_cast<void*>(core);
    return self ? nullptr : reinterpret_cast<Peer*>(peer);
}

inline opal_common_adaptib_peer_t* handle_of(opal_common_adaptib_core* core, Peer* peer) {
    return peer == nullptr ? reinterpret_cast<opal_common_adaptib_peer_t*>(core)
                           : reinterpret_cast<opal_common_adaptib_peer_t*>(peer);
}

} // namespace adaptib
