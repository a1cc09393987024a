// SPDX-License-Identifier: BSD-3-Clause
// RegistrationCache: registrations of user memory that are kept after use.
//
// Purpose: a registration costs a system call and pinned pages, and programs reuse their buffers. A
// kept range is found by address. Ranges that overlap are merged, unless that makes a range of more
// than twice the length; no kept range holds another one. The least recently used ones are dropped
// when all exceed `max_bytes`, or when a rail has no room.
// Memory that the program unmaps must be forgotten: the adapter would go on using the old pages. A
// cache that does not learn of unmapping (max_bytes 0) registers for each use. So does one that is
// told, before it keeps a further registration, that it would not learn of unmapping any more.
// A Place remembers a kept registration without using it, and finds it faster than by address.
// Ownership: a Use keeps its registration as long as it lives, forgotten or not; the cache outlives
//   its uses. Memory is registered in whole pages, the unit of unmapping.
// Threads: one at a time, except that any thread may call forget() at any time, even within malloc
// or within the cache's own functions: it takes no lock that is held while anything else is called.
// Source: Rashti and Afsahi, section 2 (the cost of registration).
// May touch: base/, fabric/, stats/.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/intrusive_list.h"
#include "base/invariant.h"
#include "base/status.h"
#include "fabric/rail.h"
#include "memory/registration.h"
#include "stats/counters.h"

namespace adaptib {

// Notices that memory was unmapped.
class ForgottenMemory {
public:
    // Called within settle() and acquire(), not within RegistrationCache::forget().
    virtual void on_forgotten(std::uintptr_t begin, std::uintptr_t end) = 0;

protected:
    ~ForgottenMemory() = default;
};

class RegistrationCache {
    struct Entry {
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        std::uint32_t access = 0;
        std::uint32_t users = 0;
        bool kept = false; // in entries_
        Registration registration;
        ListLink<Entry> idle_link; // kept, without users; the least recently used first
    };

public:
    // Keeps memory registered while it lives. Empty until acquire() fills it.
    class Use {
    public:
        Use() = default;
        ~Use() { reset(); }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

        void reset() {
            if (entry_ != nullptr) {
                cache_->release(*entry_);
                entry_ = nullptr;
            }
        }
        // Takes over the registration of `other`, which is empty afterwards.
        void take(Use& other) {
            reset();
            cache_ = other.cache_;
            entry_ = std::exchange(other.entry_, nullptr);
        }
        bool empty() const { return entry_ == nullptr; }
        // Returns true if the memory is still what was registered: it has not been forgotten, and
        // the cache keeps the registration. REQUIRES: not empty.
        bool is_current() const {
            cache_->settle();
            return entry_->kept;
        }
        // REQUIRES: not empty.
        const Registration& registration() const { return entry_->registration; }

    private:
        friend class RegistrationCache;
        RegistrationCache* cache_ = nullptr;
        Entry* entry_ = nullptr;
    };

    // A kept registration that its owner does not use now. Empty until remember() fills it; of no
    // effect once the cache has dropped any registration.
    class Place {
        friend class RegistrationCache;
        Entry* entry_ = nullptr;
        std::uint64_t drops_ = 0;
    };

    // `still_watched` is asked before each registration that is going to be kept; it may call
    // forget(). False: forget() will not hear of all memory that is unmapped. Empty: it will.
    RegistrationCache(RailList rails, RailRange with, Bytes max_bytes, Counters& counters,
                      std::function<bool()> still_watched = {})
        : rails_(rails), with_(with), max_bytes_(max_bytes), counters_(counters),
          still_watched_(std::move(still_watched)) {}
    // REQUIRES: no Use is left.
    ~RegistrationCache();
    RegistrationCache(const RegistrationCache&) = delete;
    RegistrationCache& operator=(const RegistrationCache&) = delete;

    // Registers the memory with the cache's rails. Errors: a rail's; `out` is empty then.
    Status acquire(void* address, Bytes length, std::uint32_t access, Use& out);

    // Finds a kept registration of the memory; `out` is empty if there is none. Does not settle().
    bool find(const void* address, Bytes length, std::uint32_t access, Use& out);
    // Returns the place of a registration in use, for use_again(); empty if it is not kept.
    static Place remember(const Use& use) {
        Place place;
        if (use.entry_ != nullptr && use.entry_->kept) {
            place.entry_ = use.entry_;
            place.drops_ = use.cache_->drops_;
        }
        return place;
    }
    // Uses a registration that was remembered, if it covers the memory. Returns false if it does
    // not, or may have been dropped since; `out` is as before then. Does not settle().
    bool use_again(const Place& place, const void* address, Bytes length, std::uint32_t access,
                   Use& out) {
        const auto begin = reinterpret_cast<std::uintptr_t>(address);
        if (place.entry_ == nullptr || place.drops_ != drops_ ||
            !covers(*place.entry_, begin, begin + length, access)) {
            return false;
        }
        ADAPTIB_AUDIT(place.entry_->kept, "a place is of a registration that is kept", begin);
        out.reset();
        use(*place.entry_, out);
        return true;
    }

    // Returns true if registrations stay after use.
    bool keeps() const { return max_bytes_ > 0; }
    // Tells `listener` of memory that was unmapped, from now on. Null: nobody.
    void tell(ForgottenMemory* listener) { listener_ = listener; }
    // Tells that the memory is about to be unmapped, or its pages to be replaced.
    void forget(const void* address, Bytes length) noexcept;
    // Drops all registrations without users, to make room for others.
    void make_room() { shrink_to(0); }
    // Drops forgotten registrations; acquire() does so by itself.
    void settle() {
        if (forgotten_any_.load(std::memory_order_acquire)) [[unlikely]] {
            settle_forgotten();
        }
    }

private:
    static constexpr std::size_t kForgotten = 64;

    static constexpr Bytes kMergedMost = 2; // times the range that is asked for

    struct Merged {
        std::uintptr_t begin;
        std::uintptr_t end;
        std::uint32_t access;
    };
    // By begin. As no range holds another one, that is by end, too.
    using Entries = std::map<std::uintptr_t, Entry*>;

    static bool covers(const Entry& entry, std::uintptr_t begin, std::uintptr_t end,
                       std::uint32_t access) {
        return entry.begin <= begin && end <= entry.end && (access & ~entry.access) == 0;
    }
    Entry* covering(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access);
    Entries::iterator first_reaching(std::uintptr_t address);
    Status make(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access, Entry*& out);
    bool may_keep(Bytes bytes);
    Status make_kept(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access, Entry*& out);
    std::optional<Merged> merge(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access);
    void drop_overlapping(std::uintptr_t begin, std::uintptr_t end, bool all);
    Entries::iterator drop(Entries::iterator at);
    void shrink_to(Bytes bytes);
    void release(Entry& entry);
    void use(Entry& entry, Use& out) {
        if (entry.kept && entry.users == 0 && entry.idle_link.linked()) {
            idle_.remove(entry);
        }
        ADAPTIB_AUDIT(!entry.idle_link.linked(), "a registration in use is not idle", entry.users);
        ++entry.users;
        out.cache_ = this;
        out.entry_ = &entry;
    }
    void settle_forgotten();
    void account(Bytes bytes) {
        counters_.registered_bytes += bytes - bytes_; // other caches may count there, too
        bytes_ = bytes;
    }

    RailList rails_;
    const RailRange with_;
    Bytes max_bytes_;
    Counters& counters_;
    const std::function<bool()> still_watched_;
    Bytes bytes_ = 0; // registered now, kept or not
    std::uint64_t drops_ = 0;
    ForgottenMemory* listener_ = nullptr;
    Entries entries_;
    IntrusiveList<Entry, &Entry::idle_link> idle_;

    // Ranges that forget() has noted and that settle_forgotten() has not handled yet.
    std::atomic<bool> forgotten_any_ = false;
    std::atomic_flag forgotten_lock_;
    struct Range {
        std::uintptr_t begin;
        std::uintptr_t end;
    };
    std::array<Range, kForgotten> forgotten_;
    std::size_t forgotten_count_ = 0;
};

} // namespace adaptib
