// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/address_handles.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "fabric/verbs/errors.h"

namespace adaptib::verbs {

bool AddressHandles::Before::operator()(const ibv_ah_attr& a, const ibv_ah_attr& b) const {
    const auto members = [](const ibv_ah_attr& of) {
        return std::tie(of.grh.flow_label, of.grh.sgid_index, of.grh.hop_limit,
                        of.grh.traffic_class, of.dlid, of.sl, of.src_path_bits, of.static_rate,
                        of.is_global, of.port_num);
    };
    const int order = std::memcmp(&a.grh.dgid, &b.grh.dgid, sizeof a.grh.dgid);
    return order != 0 ? order < 0 : members(a) < members(b);
}

AddressHandles::AddressHandles(const Calls& calls, ibv_pd* pd) : calls_(calls), pd_(pd) {
    sem_init(&asked_, 0, 0);
}

AddressHandles::~AddressHandles() {
    ends_ = true;
    if (thread_.running()) {
        sem_post(&asked_);
        thread_.join();
    }
    sem_destroy(&asked_);
}

Status AddressHandles::find(const ibv_ah_attr& to, bool ethernet, SharedAh& out) {
    const std::lock_guard lock(lock_);
    const auto at = enter(to);
    Entry& entry = at->second;
    if (!ethernet || !has_thread()) {
        return make_at_once(at, out);
    }
    ask(entry);
    if (entry.ah == nullptr) {
        return entry.why_none;
    }
    out = entry.ah;
    return kOk;
}

Status AddressHandles::prepare(const ibv_ah_attr& to) {
    const std::lock_guard lock(lock_);
    Entry& entry = enter(to)->second;
    const bool lately = entry.ah != nullptr && Clock::now() - entry.made < kLately;
    if (lately || !has_thread()) {
        return kOk;
    }
    ask(entry);
    const bool failed = entry.pause > Clock::duration{}; // maybe for lack of handles
    return !failed ? kNotYet : entry.why_none == kUnanswered ? kUnanswered : kOk;
}

AddressHandles::Entries::iterator AddressHandles::enter(const ibv_ah_attr& to) {
    auto at = entries_.find(to);
    if (at == entries_.end()) {
        drop_unused(kUnused - 1);
        at = entries_.emplace(to, Entry{}).first;
    }
    at->second.used = ++uses_;
    return at;
}

void AddressHandles::ask(Entry& entry) {
    if (!entry.asked && Clock::now() >= entry.again_at) {
        entry.asked = true;
        sem_post(&asked_);
    }
}

// An entry that fails is not kept: what the device refuses now it may give to the next.
Status AddressHandles::make_at_once(Entries::iterator at, SharedAh& out) {
    Entry& entry = at->second;
    int error = 0;
    if (entry.ah == nullptr) {
        entry.asked = true;
        entry.ah = make(at->first, error);
        if (entry.ah == nullptr && status_of(error).wants_room() && drop_unused(0)) {
            entry.ah = make(at->first, error);
        }
        entry.asked = false;
    }
    if (entry.ah == nullptr) {
        entries_.erase(at);
        return status_of(error);
    }
    out = entry.ah;
    return kOk;
}

SharedAh AddressHandles::make(const ibv_ah_attr& to, int& error) const {
    ibv_ah_attr attributes = to;
    errno = 0;
    ibv_ah* const ah = calls_.create_ah(pd_, &attributes);
    if (ah == nullptr) {
        error = error_number(-1);
        return nullptr;
    }
    return std::make_shared<OwnedAh>(calls_, ah);
}

// Drops the least recently used of the entries without a user, until there are `keep`. Returns
// false if there were no more.
bool AddressHandles::drop_unused(std::size_t keep) {
    std::vector<Entries::iterator> unused;
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
        if (at->second.unused()) {
            unused.push_back(at);
        }
    }
    if (unused.size() <= keep) {
        return false;
    }
    const auto end = unused.end() - static_cast<std::ptrdiff_t>(keep);
    std::nth_element(unused.begin(), end, unused.end(),
                     [](auto a, auto b) { return a->second.used < b->second.used; });
    std::for_each(unused.begin(), end, [this](auto at) { entries_.erase(at); });
    return true;
}

// -------------------------------------------------------------------------------------------------
// The thread

bool AddressHandles::has_thread() {
    return thread_.running() || thread_.start(&AddressHandles::run, this);
}

void* AddressHandles::run(void* self) {
    static_cast<AddressHandles*>(self)->loop();
    return nullptr;
}

void AddressHandles::loop() {
    while (true) {
        if (sem_wait(&asked_) != 0) {
            continue; // interrupted
        }
        if (ends_) {
            return;
        }
        Entries::value_type& at = next();
        int error = 0;
        SharedAh made = make(at.first, error);
        finish(at.second, std::move(made), error);
    }
}

// Returns the entry to make, which stays as it is asked for: the one that has failed least.
AddressHandles::Entries::value_type& AddressHandles::next() {
    const std::lock_guard lock(lock_);
    return *std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return std::make_pair(!a.second.asked, a.second.pause) <
               std::make_pair(!b.second.asked, b.second.pause);
    });
}

// A handle outlives a failure to make it anew: its MAC address may be the right one.
void AddressHandles::finish(Entry& entry, SharedAh made, int error) {
    const std::lock_guard lock(lock_);
    ADAPTIB_INVARIANT(entry.asked, "a handle is made where one was asked for", entry.used);
    ADAPTIB_INVARIANT(made != nullptr || error > 0, "a failure has an error number", error);
    if (made == nullptr && status_of(error).wants_room()) {
        drop_unused(0);
    }
    entry.asked = false;
    if (made != nullptr) {
        entry.ah = std::move(made);
        entry.pause = {};
        entry.made = Clock::now();
        entry.again_at = entry.made + kFresh;
        return;
    }
    entry.why_none = path_status(error);
    entry.pause = std::clamp<Clock::duration>(2 * entry.pause, kFirstPause, kMostPause);
    entry.again_at = Clock::now() + entry.pause;
}

} // namespace adaptib::verbs
