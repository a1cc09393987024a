// SPDX-License-Identifier: BSD-3-Clause
// Memory regions: the table that peers read, keys, and the checks of local and remote ranges.
//
// Purpose: register_memory and allocate put an entry into the segment's table. An initiator reads
// the target's entry and decides by itself whether the access is allowed. Keys carry a generation,
// so that a later region does not get a revoked key. An entry whose generations are used up retires
// until kMostRetired others have, so a key comes back after 134 million registrations at the
// earliest (or once the table is full).
// Invariant: while an entry's tag is set, its other fields do not change. A reader takes them
// between two reads of the tag.
// Threads: the owner's thread changes the table; any process may read it (RegionView).
// May touch: base/, fabric/memory_region.h, layout.h, segment.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "fabric/memory_region.h"
#include "fabric/shm/layout.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

struct RegionRange {
    std::uint64_t tag = 0;
    std::uint64_t base = 0;
    Bytes length = 0;

    bool covers(std::uint64_t address, Bytes bytes) const {
        return is_within(address, bytes, base, length);
    }
    bool allows(std::uint32_t access) const { return (region_access(tag) & access) == access; }
};

struct RegionView : RegionRange {
    std::uint64_t offset = kPrivate;
    std::byte* mapped = nullptr; // address of a peer's region in this process, once mapped
};

constexpr std::uint32_t region_index(std::uint32_t key) { return key & (kMaxRegions - 1); }

// Reads the region that `key` names in a peer's table; false if there is none.
bool read_region(const RegionEntry* table, std::uint32_t key, RegionView& out);

// Key of a region of the peer's rail that covers the range and grants the rights; 0: there is none.
// Searches the whole table: for a range that the given key does not cover. `segment`: the peer's.
std::uint32_t find_region(std::byte* segment, std::uint32_t rail, const RemoteRange& range);

class RegionTable {
public:
    static constexpr std::uint16_t kGenerations = 0x7ffe; // from 1: ~0 and 0 are no region's key
    static constexpr std::size_t kMostRetired = 4096;     // 128 KiB of the table

    RegionTable() = default;
    explicit RegionTable(OwnSegment* segment);

    Status add(std::uint64_t base, Bytes length, std::uint32_t rail, std::uint32_t access,
               std::uint64_t offset, std::uint32_t& key);
    // Afterwards no peer that looks finds the key. InitiatorFence waits for those
    // that are using it already.
    void remove(std::uint32_t key);

    // Null: no such region.
    const RegionView* find(std::uint32_t key) const {
        const std::uint32_t index = region_index(key);
        if (index >= local_.size() || local_[index].tag == 0 ||
            region_key(local_[index].tag) != key) {
            return nullptr;
        }
        return &local_[index];
    }
    bool allows(const Gather& entry, std::uint32_t rail, std::uint32_t access) const {
        const std::uint32_t index = region_index(entry.local_key);
        return index < local_.size() &&
               region_is(local_[index].tag, entry.local_key, rail, access) &&
               local_[index].covers(reinterpret_cast<std::uintptr_t>(entry.address), entry.length);
    }
    // REQUIRES: a region with that key was registered once.
    std::uint64_t tag(std::uint32_t key) const { return local_[region_index(key)].tag; }
    // Returns true if each entry lies in its region and that region has the rail and grants the
    // rights.
    bool allows(std::span<const Gather> gather, std::uint32_t rail, std::uint32_t access) const;

private:
    Status take_index(std::uint32_t& index);

    OwnSegment* segment_ = nullptr;
    RegionEntry* table_ = nullptr;
    std::vector<RegionView> local_;
    std::vector<std::uint16_t> generation_;
    std::vector<std::uint32_t> free_;
    std::deque<std::uint32_t> retired_; // all generations used; the longest retired first
};

} // namespace adaptib::shm
