// SPDX-License-Identifier: BSD-3-Clause
// Registration of user memory with every rail (memory/registration.h).
#include "memory/registration.h"

#include <algorithm>

namespace adaptib {

Status Registration::make(std::span<const std::unique_ptr<Rail>> rails, void* address, Bytes length,
                          std::uint32_t access) {
    reset();
    const std::size_t count = std::min<std::size_t>(rails.size(), kMaxRails);
    for (std::size_t i = 0; i < count; ++i) {
        const Status status =
            rails[i]->register_memory(address, std::max<Bytes>(length, 1), access, regions_[i]);
        if (!status.ok()) {
            reset();
            return status;
        }
        ++count_;
    }
    return kOk;
}

void Registration::reset() {
    for (auto& region : regions_) {
        region.reset();
    }
    count_ = 0;
}

void Registration::copy_remote_keys(std::uint32_t (&keys)[kMaxRails]) const {
    for (std::uint32_t i = 0; i < kMaxRails; ++i) {
        keys[i] = i < count_ ? remote_key(i) : 0;
    }
}

} // namespace adaptib
