// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/faults/kept_work.h"

namespace adaptib::fault {

std::unique_ptr<KeptWork> keep(const SendWork& work) {
    auto kept = std::make_unique<KeptWork>();
    kept->work = work;
    kept->gather.assign(work.gather, work.gather + work.gather_count);
    if ((work.flags & kInline) != 0) {
        for (const Gather& part : kept->gather) {
            const auto* from = static_cast<const std::byte*>(part.address);
            kept->bytes.insert(kept->bytes.end(), from, from + part.length);
        }
        kept->gather = {{kept->bytes.data(), kept->bytes.size(), 0}};
        kept->work.gather_count = 1;
    }
    kept->work.gather = kept->gather.data();
    return kept;
}

std::unique_ptr<KeptWork> keep_copy(const SendWork& work, Rail& rail) {
    auto kept = std::make_unique<KeptWork>();
    for (std::uint32_t i = 0; i < work.gather_count; ++i) {
        const auto* from = static_cast<const std::byte*>(work.gather[i].address);
        kept->bytes.insert(kept->bytes.end(), from, from + work.gather[i].length);
    }
    kept->work = work;
    kept->work.flags &= ~static_cast<std::uint32_t>(kInline);
    kept->work.gather_count = 0;
    if (!kept->bytes.empty()) {
        if (!rail.register_memory(kept->bytes.data(), kept->bytes.size(), 0, kept->region).ok()) {
            return nullptr;
        }
        kept->gather = {{kept->bytes.data(), kept->bytes.size(), kept->region->local_key()}};
        kept->work.gather_count = 1;
    }
    kept->work.gather = kept->gather.data();
    return kept;
}

} // namespace adaptib::fault
