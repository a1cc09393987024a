// SPDX-License-Identifier: BSD-3-Clause
// Registration of user memory with every rail (memory/registration.h).
#include "memory/registration.h"

#include <algorithm>
#include <string>

#include "base/invariant.h"

namespace adaptib {

// Calls make(rail, its region) for each rail.
template <typename Register>
Status Registration::make_each(RailList rails, RailRange with, Register&& make) {
    reset();
    const std::uint32_t end = std::min(with.end(), kMaxRails);
    ADAPTIB_INVARIANT(with.first <= end && end <= rails.size(), "a range is of existing rails",
                      with.first, end, rails.size());
    Status failed = kOk;
    bool any = false;
    for (std::uint32_t i = with.first; i < end; ++i) {
        const Status status = make(*rails[i], regions_[i]);
        if (!status.ok()) {
            failed = status;
            if (status.reason() != Reason::no_device) {
                reset();
                return status;
            }
            continue;
        }
        regions_[i]->copy_local_key_to(&local_keys_[i]);
        any = true;
    }
    end_ = any ? end : 0;
    return any ? kOk : failed;
}

namespace {

bool several_adapters(RailList rails, RailRange with) {
    const std::string& first = rails[with.first]->info().adapter;
    return std::any_of(rails.begin() + with.first, rails.begin() + with.end(),
                       [&](const Rail* rail) { return rail->info().adapter != first; });
}

} // namespace

// A message that tells of a peer's writes may come over another adapter than these, which puts no
// order to them.
Status Registration::make(RailList rails, RailRange with, void* address, Bytes length,
                          std::uint32_t access) {
    if ((access & kRemoteWrite) != 0 && with.count > 0 && several_adapters(rails, with)) {
        access |= kOrdered;
    }
    return make_each(rails, with, [=](Rail& rail, std::unique_ptr<MemoryRegion>& out) {
        const bool atomics = rail.info().has(Capability::atomic64);
        return rail.register_memory(address, std::max<Bytes>(length, 1),
                                    atomics ? access : access & ~kRemoteAtomic, out);
    });
}

Status Registration::make_of_file(RailList rails, RailRange with, const FileRange& file,
                                  void* address, Bytes length, std::uint32_t access) {
    return make_each(rails, with, [&](Rail& rail, std::unique_ptr<MemoryRegion>& out) {
        return rail.register_file(file, address, length, access, out);
    });
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
