// SPDX-License-Identifier: BSD-3-Clause
// The peer of a connected queue pair, in the peer's segment.
//
// Purpose: from the memory of the segment this class tells whether the connection works (the peer
// queue pair's entry, the words of both rails) and finds the peer's memory (its regions).
// Between attach() and detach() it has a peer, which every other function but attached() needs.
// Threads: one thread at a time uses the whole fabric; the peer writes its segment at any time.
// May touch: base/, layout.h, regions.h, segment.h, atomic_lock.h; in fabric/:
// work.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/invariant.h"
#include "base/units.h"
#include "fabric/shm/atomic_lock.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/regions.h"
#include "fabric/shm/segment.h"
#include "fabric/work.h"

namespace adaptib::shm {

class ConnectedPeer {
public:
    ConnectedPeer(const std::atomic<std::uint64_t>& own_rail_word, std::uint64_t own_cookie)
        : own_rail_word_(own_rail_word), own_cookie_(own_cookie) {}

    void attach(std::shared_ptr<PeerSegment> segment, std::uint32_t rail, std::uint32_t number);
    // Tells how the peer's entry has to look from now on.
    void expect(std::uint32_t own_number, std::uint32_t psn) {
        ADAPTIB_INVARIANT(attached() && own_number >> 24 == 0,
                          "two queue pairs with numbers of 24 bits are connected", own_number,
                          number_);
        expected_word_ = qp_word(number_, own_number, psn, 0, true);
    }
    void detach();

    bool attached() const { return entry_ != nullptr; }
    PeerSegment& segment() const { return *segment_; }
    const std::shared_ptr<PeerSegment>& shared_segment() const { return segment_; }
    const QueuePairEntry& entry() const { return *entry_; }
    std::uint32_t number() const { return number_; }
    std::uint32_t pid() const { return pid_; } // without a look into segment()
    std::uint64_t rail_word() const { return rail_word_->load(std::memory_order_acquire); }
    // Zero while both rails are active and not slowed.
    std::uint64_t rails_word() const {
        return own_rail_word_.load(std::memory_order_acquire) |
               rail_word_->load(std::memory_order_acquire);
    }
    // Returns true if the peer's entry is as this connection expects.
    bool connected() const {
        return is_expected(entry_->word.load(std::memory_order_seq_cst)) &&
               names_this_process(*entry_);
    }
    // The two parts of connected().
    bool is_expected(std::uint64_t word) const { return (word & ~kQpAccessMask) == expected_word_; }
    bool names_this_process(const QueuePairEntry& entry) const {
        return entry.remote_cookie.load(std::memory_order_acquire) == own_cookie_;
    }
    bool reachable() const {
        return (rails_word() & (kRailDown | kRailClosed)) == 0 && connected();
    }
    bool serves_reads() const { return entry_->target_reads.load(std::memory_order_acquire) != 0; }

    // Looks the key up and checks that the region, its rail and the peer's queue pair allow the
    // access; on success region() is the region. REQUIRES: the queue pair's entry says busy (rc.h).
    bool find(std::uint64_t address, Bytes length, std::uint32_t key, std::uint32_t access);
    // Finds the key of a region that allows all of it; 0: there is none.
    std::uint32_t find_key(const RemoteRange& range) const {
        return find_region(segment_->base(), rail_, range);
    }
    // Region that the last find() found.
    const RegionView& region() const { return region_; }
    // REQUIRES: region() lies in the segment and covers the address.
    std::byte* in_segment(std::uint64_t address) const {
        ADAPTIB_INVARIANT(region_.mapped != nullptr,
                          "memory of a peer's segment is mapped before it is used", address,
                          region_.base);
        return region_.mapped + (address - region_.base);
    }
    // Performs the atomic on such a word; returns the old value.
    std::uint64_t atomic_in_segment(const SendWork& work) const {
        std::atomic_ref<std::uint64_t> word(
            *reinterpret_cast<std::uint64_t*>(in_segment(work.remote_address)));
        if (work.opcode == Opcode::fetch_add) {
            return word.fetch_add(work.compare_add, std::memory_order_seq_cst);
        }
        std::uint64_t old = work.compare_add;
        word.compare_exchange_strong(old, work.swap, std::memory_order_seq_cst);
        return old;
    }
    Status commit(std::uint64_t address, Bytes length) {
        ADAPTIB_INVARIANT(region_.covers(address, length),
                          "memory is committed within the region that was found", address, length);
        return segment_->commit(region_.offset + (address - region_.base), length);
    }
    std::uint64_t region_tag(std::uint32_t key) const {
        return regions_[region_index(key)].tag.load(std::memory_order_seq_cst);
    }
    AtomicLock atomic_lock() const {
        return {segment_->base(), segment_->own_pid(), segment_->producer().slot() + 1};
    }

private:
    // Constant while connected; one cache line.
    alignas(kCacheLine) QueuePairEntry* entry_ = nullptr;
    const std::atomic<std::uint64_t>& own_rail_word_;
    std::atomic<std::uint64_t>* rail_word_ = nullptr;
    const RegionEntry* regions_ = nullptr;
    std::uint64_t expected_word_ = 0; // of the entry, from RTS on
    std::uint64_t own_cookie_;
    std::uint32_t pid_ = 0;
    std::uint32_t rail_ = 0;
    std::uint32_t number_ = 0;
    std::shared_ptr<PeerSegment> segment_;
    RegionView region_; // used last
};
static_assert(sizeof(ConnectedPeer) == 2 * kCacheLine);

} // namespace adaptib::shm
