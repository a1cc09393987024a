// SPDX-License-Identifier: BSD-3-Clause
// Registration: user memory registered with every rail that may carry it.
//
// Purpose: one object per buffer under transfer, with a key for each rail of the fabrics that may
// carry it; the keys are sent to the peer. A rail whose device has failed has no key, as long as
// another rail has one. For a rail without atomics the memory is registered with all other rights.
// Ownership: RAII; the memory must stay until the object is gone.
// Errors: no_memory or locked_memory from any rail, no_device from all: then nothing stays
// registered.
// May touch: base/, fabric/.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/wire.h"
#include "fabric/rail.h"

namespace adaptib {

class Registration {
public:
    Registration() = default;
    Registration(const Registration&) = delete; // its regions refer to it
    Registration& operator=(const Registration&) = delete;

    // Replaces what was registered before. Length 0 registers one byte, so that there is a key.
    Status make(RailList rails, RailRange with, void* address, Bytes length, std::uint32_t access);
    Status make(RailList rails, void* address, Bytes length, std::uint32_t access) {
        return make(rails, {0, static_cast<std::uint32_t>(rails.size())}, address, length, access);
    }
    // Registers an accelerator's memory (Rail::register_file). REQUIRES: length > 0.
    Status make_of_file(RailList rails, RailRange with, const FileRange& file, void* address,
                        Bytes length, std::uint32_t access);
    void reset();

    // Keys are indexed by rail; those before the range, and those of failed devices, are 0.
    // REQUIRES: make() succeeded; for local_key and remote_key: the rail is in the range.
    std::uint16_t key_count() const { return static_cast<std::uint16_t>(end_); }
    std::uint32_t local_key(std::uint32_t rail) const { return local_keys_[rail]; }
    std::uint32_t remote_key(std::uint32_t rail) const {
        return regions_[rail] != nullptr ? regions_[rail]->remote_key() : 0;
    }
    // False for a rail whose device has failed.
    bool has(std::uint32_t rail) const { return regions_[rail] != nullptr; }
    void copy_remote_keys(std::uint32_t (&keys)[kMaxRails]) const;

private:
    template <typename Register> Status make_each(RailList rails, RailRange with, Register&& make);

    std::array<std::uint32_t, kMaxRails> local_keys_{}; // of regions_, which keep them
    std::array<std::unique_ptr<MemoryRegion>, kMaxRails> regions_;
    std::uint32_t end_ = 0; // of the range of rails
};

// Allocates memory of the first rail of the range whose device has not failed.
Status allocate_from(RailList rails, RailRange with, Bytes length, std::uint32_t access,
                     std::unique_ptr<MemoryRegion>& out);
// Likewise, but at first only the `first` bytes are backed by memory (Rail::allocate_sparse).
Status allocate_sparse_from(RailList rails, RailRange with, Bytes length, Bytes first,
                            std::uint32_t access, std::unique_ptr<MemoryRegion>& out);

} // namespace adaptib
