// SPDX-License-Identifier: BSD-3-Clause
// Memory regions of a simulated rail: keys, ranges, rights.
// Ownership: the rail's table; regions remove themselves from it.  Threads: one.
// May touch: base/, fabric/work.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "fabric/work.h"

namespace adaptib::sim {

struct Region {
    std::uint64_t base = 0;
    Bytes length = 0; // 0: the entry is free
    std::uint32_t access = 0;
    std::uint32_t generation = 0;
    bool allocated = false; // by the rail: memory that messages are copied into and out of

    bool covers(std::uint64_t address, Bytes bytes) const {
        return is_within(address, bytes, base, length);
    }
};

class RegionTable {
public:
    // Errors: no_memory beyond 2^20 regions.
    Status add(std::uint64_t base, Bytes length, std::uint32_t access, bool allocated,
               std::uint32_t& key) {
        if (free_.empty()) {
            if (entries_.size() == kEntries) {
                return Status::error(Reason::no_memory);
            }
            free_.push_back(static_cast<std::uint32_t>(entries_.size()));
            entries_.emplace_back();
        }
        const std::uint32_t index = free_.back();
        free_.pop_back();
        Region& region = entries_[index];
        const std::uint32_t generation = region.generation % (kGenerations - 2) + 1;
        region = {base, length, access, generation, allocated};
        key = generation << kIndexBits | index;
        return kOk;
    }
    void remove(std::uint32_t key) {
        entries_[key & (kEntries - 1)].length = 0;
        free_.push_back(key & (kEntries - 1));
    }
    // Null: no region has that key now.
    const Region* find(std::uint32_t key) const {
        const std::uint32_t index = key & (kEntries - 1);
        return index < entries_.size() && entries_[index].length != 0 &&
                       entries_[index].generation == key >> kIndexBits
                   ? &entries_[index]
                   : nullptr;
    }
    const Region* find(std::uint32_t key, std::uint64_t address, Bytes bytes,
                       std::uint32_t access) const {
        const Region* region = find(key);
        return region != nullptr && (region->access & access) == access &&
                       region->covers(address, bytes)
                   ? region
                   : nullptr;
    }
    // True if each entry lies in a region that grants `access`. `allocated`: the number of bytes in
    // memory that the rail allocated.
    bool allows(std::span<const Gather> gather, std::uint32_t access, Bytes& allocated) const {
        allocated = 0;
        for (const Gather& entry : gather) {
            if (entry.length == 0) {
                continue;
            }
            const Region* region =
                find(entry.local_key, reinterpret_cast<std::uintptr_t>(entry.address), entry.length,
                     access);
            if (region == nullptr) {
                return false;
            }
            allocated += region->allocated ? entry.length : 0;
        }
        return true;
    }

    // Returns true if the rail has allocated the memory, whatever region a request names it by.
    bool is_allocated(const void* memory, Bytes bytes) const {
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        return std::any_of(entries_.begin(), entries_.end(), [&](const Region& region) {
            return region.length != 0 && region.allocated && region.covers(address, bytes);
        });
    }

private:
    static constexpr std::uint32_t kIndexBits = 20;
    static constexpr std::uint32_t kEntries = 1u << kIndexBits;
    // The last one is never used.
    static constexpr std::uint32_t kGenerations = 1u << (32 - kIndexBits);

    std::vector<Region> entries_;
    std::vector<std::uint32_t> free_;
};

} // namespace adaptib::sim
