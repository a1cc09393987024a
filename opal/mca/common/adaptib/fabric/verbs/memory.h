// SPDX-License-Identifier: BSD-3-Clause
// Memory regions and address handles of a verbs rail.
// Ownership: the caller's.  Threads: one.
// May touch: base/, fabric/, libibverbs, the system (mmap).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/invariant.h"
#include "fabric/fabric.h"
#include "fabric/verbs/address_handles.h"
#include "fabric/verbs/rail.h"

namespace adaptib::verbs {

// Implement Rail::register_memory, Rail::register_file and Rail::allocate.
Status register_memory_of(VerbsRail& rail, void* address, Bytes length, std::uint32_t access,
                          std::unique_ptr<MemoryRegion>& out);
Status register_file_of(VerbsRail& rail, const FileRange& file, void* address, Bytes length,
                        std::uint32_t access, std::unique_ptr<MemoryRegion>& out);
Status allocate_memory(VerbsRail& rail, Bytes length, std::uint32_t access,
                       std::unique_ptr<MemoryRegion>& out);

// Translates Access to ibv_access_flags, without rights that the rail cannot give: some adapters
// refuse those.
int verbs_access(const VerbsRail& rail, std::uint32_t access);

class VerbsAddressHandle final : public AddressHandle {
public:
    explicit VerbsAddressHandle(SharedAh ah) : ah_(std::move(ah)) {
        ADAPTIB_INVARIANT(ah_ != nullptr, "a handle that is given out was made", ah_.get());
    }
    ibv_ah* ah() const { return ah_->get(); }

private:
    SharedAh ah_;
};

} // namespace adaptib::verbs
