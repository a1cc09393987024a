// SPDX-License-Identifier: BSD-3-Clause
// The table of memory regions.
#include "fabric/shm/regions.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib::shm {

bool read_region(const RegionEntry* table, std::uint32_t key, RegionView& out) {
    const RegionEntry& entry = table[region_index(key)];
    out.tag = entry.tag.load(std::memory_order_seq_cst);
    if (out.tag == 0 || region_key(out.tag) != key) {
        return false;
    }
    out.base = entry.base.load(std::memory_order_acquire);
    out.length = entry.length.load(std::memory_order_acquire);
    out.offset = entry.offset.load(std::memory_order_acquire);
    return entry.tag.load(std::memory_order_acquire) == out.tag;
}

std::uint32_t find_region(std::byte* segment, std::uint32_t rail, const RemoteRange& range) {
    const RegionEntry* const table = regions_of(segment);
    const std::uint32_t end =
        std::min(header_of(segment)->regions_end.load(std::memory_order_acquire), kMaxRegions);
    for (std::uint32_t i = 0; i < end; ++i) {
        const std::uint64_t tag = table[i].tag.load(std::memory_order_acquire);
        const std::uint32_t key = region_key(tag);
        RegionView view;
        if (region_is(tag, key, rail, range.access) && read_region(table, key, view) &&
            view.tag == tag && view.covers(range.address, range.length)) {
            return key;
        }
    }
    return 0;
}

RegionTable::RegionTable(OwnSegment* segment)
    : segment_(segment), table_(regions_of(segment->base())) {}

// Takes the entry that was freed last, whose lines are in the cache; else a new one; else the one
// that has been retired for longest.
Status RegionTable::take_index(std::uint32_t& index) {
    ADAPTIB_INVARIANT(generation_.size() == local_.size(), "each region has a generation",
                      generation_.size(), local_.size());
    const bool full = local_.size() == kMaxRegions;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
        return kOk;
    }
    if (retired_.size() > kMostRetired || (full && !retired_.empty())) {
        index = retired_.front();
        retired_.pop_front();
        generation_[index] = 0;
        return kOk;
    }
    if (full) {
        return Status::error(Reason::no_memory);
    }
    index = static_cast<std::uint32_t>(local_.size());
    const Status status =
        segment_->commit(kRegionsOffset + index * sizeof(RegionEntry), sizeof(RegionEntry));
    if (!status.ok()) {
        return status;
    }
    segment_->header()->regions_end.store(index + 1, std::memory_order_release);
    local_.emplace_back();
    generation_.push_back(0);
    return kOk;
}

Status RegionTable::add(std::uint64_t base, Bytes length, std::uint32_t rail, std::uint32_t access,
                        std::uint64_t offset, std::uint32_t& key) {
    std::uint32_t index = 0;
    if (const Status status = take_index(index); !status.ok()) {
        return status;
    }
    ADAPTIB_INVARIANT(local_[index].tag == 0, "a free entry holds no region", index,
                      local_[index].tag);
    ADAPTIB_INVARIANT(generation_[index] < kGenerations, "a free entry has generations left", index,
                      generation_[index]);
    ADAPTIB_INVARIANT(rail < kMaxRails && access <= 0xff,
                      "a tag has room for the rail and the rights", rail, access);
    key = static_cast<std::uint32_t>(++generation_[index]) << 16 | index;
    const std::uint64_t tag = region_tag(key, rail, access);
    local_[index] = {{tag, base, length}, offset};
    RegionEntry& entry = table_[index];
    // Each of these is a release store, because the zero that remove() stored in the tag does not
    // by itself keep later stores behind it. So a reader that finds one of the new values under the
    // old tag sees a different tag when it reads the tag again.
    entry.base.store(base, std::memory_order_release);
    entry.length.store(length, std::memory_order_release);
    entry.offset.store(offset, std::memory_order_release);
    entry.tag.store(tag, std::memory_order_release);
    return kOk;
}

void RegionTable::remove(std::uint32_t key) {
    if (find(key) == nullptr) {
        return;
    }
    const std::uint32_t index = region_index(key);
    table_[index].tag.store(0, std::memory_order_seq_cst);
    local_[index] = {};
    ADAPTIB_INVARIANT(generation_[index] == key >> 16, "a region has the generation of its key",
                      generation_[index], key);
    ADAPTIB_INVARIANT(free_.size() + retired_.size() < local_.size(),
                      "free entries are entries of the table", free_.size(), retired_.size());
    ADAPTIB_AUDIT(std::count(free_.begin(), free_.end(), index) == 0, "an entry in use is not free",
                  index);
    if (generation_[index] == kGenerations) {
        retired_.push_back(index);
    } else {
        free_.push_back(index);
    }
}

bool RegionTable::allows(std::span<const Gather> gather, std::uint32_t rail,
                         std::uint32_t access) const {
    for (const Gather& entry : gather) {
        if (entry.length > 0 && !allows(entry, rail, access)) {
            return false;
        }
    }
    return true;
}

} // namespace adaptib::shm
