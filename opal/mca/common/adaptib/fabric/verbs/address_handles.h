// SPDX-License-Identifier: BSD-3-Clause
// AddressHandles: the address handles of a device, one for each port of it, path and remote port,
// shared by all peers behind the remote port.
//
// Purpose: a device has a limited number of handles for all processes of its host, so peers share
// them. On Ethernet the system makes a handle: it looks up the MAC address, and waits up to a
// second for a neighbor that does not answer. So a thread makes those handles, and their users,
// which must not wait, ask again until there is one. An address that does not answer is looked up
// ever more rarely, after the others. A handle keeps its MAC address, which may change: one
// that is asked for when it is older than kFresh is made anew meanwhile, for the users that ask
// next. Handles that nobody uses are kept, up to kUnused, and as long as the device makes others.
// Shared: everything, under a lock that is not held while the system looks an address up.
// Ownership: the device's. A handle ends with its last user, and before the device.
// Fork: a child must not ask.
// May touch: base/, fabric/, libibverbs, pthreads.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/invariant.h"
#include "base/status.h"
#include "fabric/address_handle.h"
#include "fabric/verbs/quiet_thread.h"
#include "fabric/verbs/verbs_calls.h"

namespace adaptib::verbs {

// An ibv_ah, which ends with its last owner.
class OwnedAh {
public:
    OwnedAh(const Calls& calls, ibv_ah* ah) : calls_(calls), ah_(ah) {
        ADAPTIB_INVARIANT(ah != nullptr, "a handle that is owned is there", ah);
    }
    ~OwnedAh() { calls_.destroy_ah(ah_); }
    OwnedAh(const OwnedAh&) = delete;
    OwnedAh& operator=(const OwnedAh&) = delete;
    ibv_ah* get() const { return ah_; }

private:
    const Calls& calls_;
    ibv_ah* ah_;
};
using SharedAh = std::shared_ptr<const OwnedAh>;

class AddressHandles {
public:
    static constexpr std::chrono::milliseconds kFresh{500};
    static constexpr std::chrono::seconds kLately{5};
    static constexpr std::chrono::milliseconds kFirstPause{100};   // after a failure; doubles ...
    static constexpr std::chrono::milliseconds kMostPause{12'800}; // ... up to that
    static constexpr std::size_t kUnused = 64;

    AddressHandles(const Calls& calls, ibv_pd* pd);
    // Waits for the look-up that is under way.
    ~AddressHandles();
    AddressHandles(const AddressHandles&) = delete;
    AddressHandles& operator=(const AddressHandles&) = delete;

    // `ethernet`: the port's link layer. Errors: kNotYet, kUnanswered, or as the device says.
    Status find(const ibv_ah_attr& to, bool ethernet, SharedAh& out);
    // For the path of a queue pair on Ethernet: returns ok if the address has answered lately, so
    // that the system knows it. Errors: kNotYet, kUnanswered.
    Status prepare(const ibv_ah_attr& to);

private:
    using Clock = std::chrono::steady_clock;

    struct Before {
        bool operator()(const ibv_ah_attr& a, const ibv_ah_attr& b) const;
    };
    struct Entry {
        SharedAh ah; // the latest; null: none yet
        Status why_none = kNotYet;
        bool asked = false;           // the thread makes it, or is going to
        Clock::time_point made{};     // `ah`
        Clock::time_point again_at{}; // when the thread may make it anew
        Clock::duration pause{};      // after the last failure; 0: success
        std::uint64_t used = 0;       // order of use

        bool unused() const { return !asked && ah.use_count() <= 1; }
    };
    using Entries = std::map<ibv_ah_attr, Entry, Before>;

    Entries::iterator enter(const ibv_ah_attr& to);
    void ask(Entry& entry);
    static void* run(void* self);
    void loop();
    Entries::value_type& next();
    SharedAh make(const ibv_ah_attr& to, int& error) const;
    Status make_at_once(Entries::iterator at, SharedAh& out);
    void finish(Entry& entry, SharedAh made, int error);
    bool has_thread();
    bool drop_unused(std::size_t keep);

    const Calls& calls_;
    ibv_pd* const pd_;
    std::mutex lock_; // protects the next two
    Entries entries_;
    std::uint64_t uses_ = 0;
    sem_t asked_; // one for each entry that is asked for
    std::atomic<bool> ends_{false};
    QuietThread thread_; // begins with the first handle that it has to make
};

} // namespace adaptib::verbs
