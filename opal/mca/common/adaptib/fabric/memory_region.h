// SPDX-License-Identifier: BSD-3-Clause
// MemoryRegion: memory that a rail may access, and the rights that a peer has to it.
//
// Ownership: Rail::register_memory, allocate and allocate_sparse make a region, and their caller
//   owns it, longer than the queue pairs that use it. The memory belongs to the region if the rail
//   has allocated it, otherwise to the caller.
// Threads: one thread at a time uses a region.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/units.h"

namespace adaptib {

enum Access : std::uint32_t {
    kLocalWrite = 1u << 0,
    kRemoteWrite = 1u << 1,
    kRemoteRead = 1u << 2,
    kRemoteAtomic = 1u << 3,
    // Writes become visible in their order: memory that is polled, or holds flags. Without it, they
    // are visible once a completion of this rail's device, or a write to memory with it, tells of
    // them.
    kOrdered = 1u << 4,
};

// Range of the target's memory, and the rights that its region must grant.
struct RemoteRange {
    std::uint64_t address = 0;
    Bytes length = 0;
    std::uint32_t access = 0; // bits of Access
};

// Place in a file that stands for memory of another device (a DMA buffer).
struct FileRange {
    int file = -1; // -1: none
    std::uint64_t offset = 0;
};

class MemoryRegion {
public:
    virtual ~MemoryRegion() = default;
    void* address() const { return address_; }
    Bytes length() const { return length_; }
    std::uint32_t local_key() const { return local_key_; }
    std::uint32_t remote_key() const { return remote_key_; }
    // Keeps *copy equal to local_key(), which changes when a device that was lost is back; null
    // ends that. The copy outlives the region.
    void copy_local_key_to(std::uint32_t* copy) {
        copy_ = copy;
        if (copy_ != nullptr) {
            *copy_ = local_key_;
        }
    }
    // Both apply to regions from Rail::allocate_sparse.
    // commit() gives the range memory.
    // discard() zeroes the range and frees its whole pages. It returns false, and changes nothing,
    // if such memory cannot be freed.
    Status commit(Bytes offset, Bytes length) { return commit_impl(offset, length); }
    bool discard(Bytes offset, Bytes length) { return discard_impl(offset, length); }

protected:
    MemoryRegion(void* address, Bytes length) : address_(address), length_(length) {}

    void set_keys(std::uint32_t local, std::uint32_t remote) {
        local_key_ = local;
        remote_key_ = remote;
        copy_local_key_to(copy_);
    }

    void* address_;
    Bytes length_;
    std::uint32_t local_key_ = 0;
    std::uint32_t remote_key_ = 0;

private:
    std::uint32_t* copy_ = nullptr;
    virtual Status commit_impl(Bytes, Bytes) { return kOk; }
    virtual bool discard_impl(Bytes, Bytes) { return false; }
};

} // namespace adaptib
