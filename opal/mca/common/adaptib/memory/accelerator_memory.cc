// SPDX-License-Identifier: BSD-3-Clause
// Registrations of accelerators' memory (memory/accelerator_memory.h).
#include "memory/accelerator_memory.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

// Returns true for the same allocation, not another one at its address.
bool same(const AcceleratorMemory::Place& a, const AcceleratorMemory::Place& b) {
    return a.base == b.base && a.bytes == b.bytes && a.id == b.id;
}

// Returns true if the data lies within its allocation.
bool holds(const AcceleratorMemory::Place& place, Bytes bytes) {
    const auto base = reinterpret_cast<std::uintptr_t>(place.base);
    const auto address = reinterpret_cast<std::uintptr_t>(place.address);
    return address >= base && address - base <= place.bytes &&
           bytes <= place.bytes - (address - base);
}

} // namespace

AcceleratorMemory::Use AcceleratorMemory::use(const Data& data) {
    Place place{};
    if (accelerators_ == nullptr || data.base != nullptr ||
        !accelerators_->locate(data.context, &place) || !holds(place, data.bytes)) {
        return {};
    }
    Use out{registered(place), static_cast<std::byte*>(place.address)};
    counters_.accelerator_direct += out.registration != nullptr ? 1 : 0;
    return out;
}

std::shared_ptr<const Registration> AcceleratorMemory::registered(const Place& place) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Allocation& each) {
        return same(each.place, place);
    });
    if (found != known_.end()) {
        known_.splice(known_.begin(), known_, found);
        return found->registration;
    }
    known_.remove_if(
        [this](const Allocation& each) { return !accelerators_->exists(&each.place); });
    if (known_.size() == kMost) {
        known_.pop_back();
    }
    ADAPTIB_INVARIANT(known_.size() < kMost, "allocations are registered up to a bound",
                      known_.size());
    known_.push_front({place, make(place)});
    return known_.front().registration;
}

std::shared_ptr<const Registration> AcceleratorMemory::make(const Place& place) {
    constexpr std::uint32_t kAccess = kLocalWrite | kRemoteRead | kRemoteWrite | kOrdered;
    ExportedMemory exported;
    auto made = std::make_shared<Registration>();
    if (!export_(place.base, place.bytes, exported) ||
        !made->make_of_file(rails_, with_, exported.range(), place.base, place.bytes, kAccess)
             .ok()) {
        ++counters_.accelerator_refused;
        return nullptr;
    }
    return made;
}

} // namespace adaptib
