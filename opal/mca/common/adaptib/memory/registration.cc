// SPDX-License-Identifier: BSD-3-Clause
// Registration of user memory with every rail (memory/registration.h).
#include "memory/registration.h"

#include <algorithm>

namespace adaptib {

Status Registration::make(RailList rails, RailRange with, void* address, Bytes length,
                          std::uint32_t access) {
    reset();
    const std::uint32_t end = std::min(with.end(), kMaxRails);
    for (std::uint32_t i = with.first; i < end; ++i) {
        const Status status =
            rails[i]->register_memory(address, std::max<Bytes>(length, 1), access, regions_[i]);
        if (!status.ok()) {
            reset();
            return status;
        }
        local_keys_[i] = regions_[i]->local_key();
    }
    end_ = end;
    return kOk;
}

void Registration::reset() {
    for (auto& region : regions_) {
        region.reset();
    }
    end_ = 0;
}

void Registration::copy_remote_keys(std::uint32_t (&keys)[kMaxRails]) const {
    for (std::uint32_t i = 0; i < kMaxRails; ++i) {
        keys[i] = regions_[i] != nullptr ? remote_key(i) : 0;
    }
}

} // namespace adaptib
