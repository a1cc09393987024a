// SPDX-License-Identifier: BSD-3-Clause
// AddressTable: addresses that the processes of a test have published, by name, in place of PMIx.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/bootstrap.h"
#include "base/process_name.h"

namespace adaptib::test {

struct AddressTable final : Bootstrap {
    std::map<std::uint64_t, std::vector<std::byte>> blobs;

    Status lookup(std::uint64_t name, std::vector<std::byte>& blob) override {
        const auto found = blobs.find(name);
        if (found == blobs.end()) {
            return Status::error(Reason::unreachable);
        }
        blob = found->second;
        return kOk;
    }
    std::uint32_t endpoints_of(std::uint64_t process) override {
        std::uint32_t count = 1;
        while (count < kMaxEndpoints && blobs.count(endpoint_name(process, count)) > 0) {
            ++count;
        }
        return count;
    }
};

} // namespace adaptib::test
