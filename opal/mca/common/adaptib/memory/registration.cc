// SPDX-License-Identifier: BSD-3-Clause
// Registration of user memory with every rail (memory/registration.h).
#include "memory/registration.h"

#include <algorithm>

namespace adaptib {

Status Registration::make(RailList rails, RailRange with, void* address, Bytes length,
                          std::uint32_t access) {
    reset();
    const std::uint32_t end = std::min(with.end(), kMaxRails);
    Status failed = kOk;
    bool any = false;
    for (std::uint32_t i = with.first; i < end; ++i) {
        const bool atomics = rails[i]->info().has(Capability::atomic64);
        const Status status =
            rails[i]->register_memory(address, std::max<Bytes>(length, 1),
                                      atomics ? access : access & ~kRemoteAtomic, regions_[i]);
        if (!status.ok()) {
            failed = status;
            if (status.reason() != Reason::no_device) {
                reset();
                return status;
            }
            continue;
        }
        local_keys_[i] = regions_[i]->local_key();
        any = true;
    }
    end_ = any ? end : 0;
    return any ? kOk : failed;
}

void Registration::reset() {
    for (auto& region : regions_) {
        region.reset();
    }
    local_keys_.fill(0);
    end_ = 0;
}

void Registration::copy_remote_keys(std::uint32_t (&keys)[kMaxRails]) const {
    for (std::uint32_t i = 0; i < kMaxRails; ++i) {
        keys[i] = remote_key(i);
    }
}

namespace {

template <typename Allocate>
Status of_first_rail(RailList rails, RailRange with, Allocate&& allocate) {
    Status status = Status::error(Reason::no_device);
    for (std::uint32_t i = with.first; i < with.end() && status == Status::error(Reason::no_device);
         ++i) {
        status = allocate(*rails[i]);
    }
    return status;
}

} // namespace

Status allocate_from(RailList rails, RailRange with, Bytes length, std::uint32_t access,
                     std::unique_ptr<MemoryRegion>& out) {
    return of_first_rail(rails, with,
                         [&](Rail& rail) { return rail.allocate(length, access, out); });
}

Status allocate_sparse_from(RailList rails, RailRange with, Bytes length, Bytes first,
                            std::uint32_t access, std::unique_ptr<MemoryRegion>& out) {
    return of_first_rail(
        rails, with, [&](Rail& rail) { return rail.allocate_sparse(length, first, access, out); });
}

} // namespace adaptib
