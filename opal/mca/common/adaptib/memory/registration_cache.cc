// SPDX-License-Identifier: BSD-3-Clause
// Kept registrations: finding, merging, forgetting (memory/registration_cache.h).
#include "memory/registration_cache.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/invariant.h"

namespace adaptib {

namespace {

const std::uintptr_t kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));

std::uintptr_t page_of(std::uintptr_t address) { return address & ~(kPage - 1); }

} // namespace

RegistrationCache::~RegistrationCache() { shrink_to(0); }

Status RegistrationCache::acquire(void* address, Bytes length, std::uint32_t access, Use& out) {
    settle();
    out.reset();
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = begin + std::max<Bytes>(length, 1);
    Entry* entry = covering(begin, end, access);
    Status status = kOk;
    if (entry != nullptr) {
        ++counters_.registrations_found;
    } else {
        const std::uintptr_t first = page_of(begin);
        const std::uintptr_t last = page_of(end - 1) + kPage;
        status = may_keep(last - first) ? make_kept(first, last, access, entry)
                                        : make(begin, end, access, entry);
    }
    if (status.ok()) {
        ADAPTIB_AUDIT(covers(*entry, begin, end, access), "a registration covers what it is for",
                      begin, end, access);
        use(*entry, out);
    }
    return status;
}

// Keeps nothing from now on if unmapping is not seen any more.
bool RegistrationCache::may_keep(Bytes bytes) {
    if (max_bytes_ > 0 && still_watched_ && !still_watched_()) {
        max_bytes_ = 0;
        forget(nullptr, UINTPTR_MAX);
    }
    settle();
    return bytes <= max_bytes_;
}

RegistrationCache::Entries::iterator RegistrationCache::first_reaching(std::uintptr_t address) {
    auto at = entries_.upper_bound(address);
    while (at != entries_.begin() && std::prev(at)->second->end > address) {
        --at;
    }
    return at;
}

// Of the ranges that begin in front of this one, the last one reaches farthest.
RegistrationCache::Entry* RegistrationCache::covering(std::uintptr_t begin, std::uintptr_t end,
                                                      std::uint32_t access) {
    const auto at = entries_.upper_bound(begin);
    if (at == entries_.begin()) {
        return nullptr;
    }
    Entry& entry = *std::prev(at)->second;
    return covers(entry, begin, end, access) ? &entry : nullptr;
}

bool RegistrationCache::find(const void* address, Bytes length, std::uint32_t access, Use& out) {
    out.reset();
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    Entry* const entry = covering(begin, begin + std::max<Bytes>(length, 1), access);
    if (entry != nullptr) {
        use(*entry, out);
    }
    return entry != nullptr;
}

// Registers the range. If a rail has no room, drops the registrations without users, and retries.
Status RegistrationCache::make(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access,
                               Entry*& out) {
    auto entry = std::make_unique<Entry>();
    entry->begin = begin;
    entry->end = end;
    entry->access = access;
    auto* address = reinterpret_cast<void*>(begin);
    Status status = entry->registration.make(rails_, with_, address, end - begin, access);
    if (status.wants_room() && !idle_.empty()) {
        shrink_to(0);
        status = entry->registration.make(rails_, with_, address, end - begin, access);
    }
    if (!status.ok()) {
        return status;
    }
    ++counters_.registrations_made;
    account(bytes_ + (end - begin));
    out = entry.release();
    return kOk;
}

// Returns the range over this one and all kept ones that it overlaps, if they are to become one:
// if the result is not much longer, or if a kept one holds all of this one, but lacks a right.
// Otherwise buffers that lie back to back and share pages would grow into one range, which each
// further buffer would register anew.
std::optional<RegistrationCache::Merged>
RegistrationCache::merge(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access) {
    Merged merged{begin, end, access};
    bool alone = true;
    bool nested = false;
    for (auto at = first_reaching(begin); at != entries_.end() && at->second->begin < end; ++at) {
        const Entry& entry = *at->second;
        alone = false;
        nested = nested || (entry.begin <= begin && end <= entry.end);
        merged.begin = std::min(merged.begin, entry.begin);
        merged.end = std::max(merged.end, entry.end);
        merged.access |= entry.access;
    }
    const Bytes length = merged.end - merged.begin;
    const bool fits = length <= max_bytes_ && (nested || length <= kMergedMost * (end - begin));
    return !alone && fits ? std::optional(merged) : std::nullopt;
}

// Drops the kept ranges that overlap this one; of those that reach beyond it on one side only if
// `all`.
void RegistrationCache::drop_overlapping(std::uintptr_t begin, std::uintptr_t end, bool all) {
    auto at = first_reaching(begin);
    while (at != entries_.end() && at->second->begin < end) {
        const Entry& entry = *at->second;
        const bool left = entry.begin < begin && entry.end < end;
        const bool right = entry.begin > begin && entry.end > end;
        at = all || !(left || right) ? drop(at) : std::next(at);
    }
}

// Registers a range, merged with kept ones if that is worth it. That fails if the memory does not
// allow the rights of all of them, or if one was unmapped unnoticed: then registers this range
// alone in their place.
Status RegistrationCache::make_kept(std::uintptr_t begin, std::uintptr_t end, std::uint32_t access,
                                    Entry*& out) {
    const std::optional<Merged> merged = merge(begin, end, access);
    drop_overlapping(begin, end, merged.has_value());
    Status status = Status::error(Reason::no_memory);
    if (merged) {
        shrink_to(max_bytes_ - (merged->end - merged->begin));
        status = make(merged->begin, merged->end, merged->access, out);
    }
    if (!status.ok()) {
        shrink_to(max_bytes_ - (end - begin));
        status = make(begin, end, access, out);
    }
    if (status.ok()) {
        out->kept = true;
        const auto [at, added] = entries_.emplace(out->begin, out);
        ADAPTIB_INVARIANT(added, "no two kept ranges begin at one address", out->begin, out->end);
        ADAPTIB_AUDIT(
            (at == entries_.begin() || std::prev(at)->second->end < out->end) &&
                (std::next(at) == entries_.end() || std::next(at)->second->end > out->end),
            "no kept range holds another one", out->begin, out->end);
    }
    return status;
}

void RegistrationCache::release(Entry& entry) {
    ADAPTIB_INVARIANT(entry.users > 0, "a registration that is released is in use", entry.begin);
    if (--entry.users > 0) {
        return;
    }
    if (entry.kept) {
        idle_.push_back(entry);
    } else {
        ADAPTIB_INVARIANT(bytes_ >= entry.end - entry.begin, "what is registered is counted",
                          bytes_, entry.begin, entry.end);
        account(bytes_ - (entry.end - entry.begin));
        delete &entry;
    }
}

// Removes the entry from the index; its registration ends with its last user.
RegistrationCache::Entries::iterator RegistrationCache::drop(Entries::iterator at) {
    Entry& entry = *at->second;
    ADAPTIB_INVARIANT(entry.kept && entry.idle_link.linked() == (entry.users == 0),
                      "a kept registration is idle exactly if nobody uses it", entry.users);
    ++drops_;
    entry.kept = false;
    if (entry.idle_link.linked()) {
        idle_.remove(entry);
        ++entry.users;
        release(entry);
    }
    return entries_.erase(at);
}

// Drops idle entries until all registrations, used or not, are `bytes` at most, or all are in use.
void RegistrationCache::shrink_to(Bytes bytes) {
    while (bytes_ > bytes && !idle_.empty()) {
        const auto at = entries_.find(idle_.front()->begin);
        ADAPTIB_INVARIANT(at != entries_.end() && at->second == idle_.front(),
                          "an idle registration is found by its address", idle_.front()->begin);
        drop(at);
    }
}

void RegistrationCache::forget(const void* address, Bytes length) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    while (forgotten_lock_.test_and_set(std::memory_order_acquire)) {
    }
    if (forgotten_count_ < kForgotten) {
        forgotten_[forgotten_count_++] = {begin, begin + length};
    } else {
        forgotten_[0] = {0, UINTPTR_MAX}; // the list is full: forget everything
    }
    forgotten_any_.store(true, std::memory_order_release);
    forgotten_lock_.clear(std::memory_order_release);
}

// Copies the ranges and handles them without the lock: the functions called may unmap memory, and
// so call forget().
void RegistrationCache::settle_forgotten() {
    std::array<Range, kForgotten> ranges;
    while (forgotten_lock_.test_and_set(std::memory_order_acquire)) {
    }
    const std::size_t count = forgotten_count_;
    ADAPTIB_INVARIANT(count <= kForgotten, "the list of forgotten ranges has a bound", count);
    std::copy_n(forgotten_.begin(), count, ranges.begin());
    forgotten_count_ = 0;
    forgotten_any_.store(false, std::memory_order_relaxed);
    forgotten_lock_.clear(std::memory_order_release);
    for (std::size_t i = 0; i < count; ++i) {
        auto at = first_reaching(ranges[i].begin);
        while (at != entries_.end() && at->second->begin < ranges[i].end) {
            at = drop(at);
            ++counters_.registrations_forgotten;
        }
        if (listener_ != nullptr) {
            listener_->on_forgotten(ranges[i].begin, ranges[i].end);
        }
    }
}

} // namespace adaptib
