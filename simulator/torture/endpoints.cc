// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/torture/endpoints.h"

namespace adaptib::sim {

Endpoints::Endpoints(std::size_t ranks, const std::vector<std::uint32_t>& counts) {
    for (std::uint32_t process = 0; of_rank_.size() < ranks; ++process) {
        first_.push_back(static_cast<std::uint32_t>(of_rank_.size()));
        const std::uint32_t count = counts.empty() ? 1 : counts[process];
        for (std::uint32_t index = 0; index < count; ++index) {
            of_rank_.push_back({process, index});
        }
    }
}

} // namespace adaptib::sim
