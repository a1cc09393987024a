// SPDX-License-Identifier: BSD-3-Clause
// A striping policy to begin with: change it, then simulator/studies/run own_policy
#include "schedule/policies.h"

namespace adaptib {

// Gives each transfer as a whole to the path that would end it first, with what is under way.
class FirstToEnd final : public Policy {
public:
    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        const auto seconds = [&](const SubchannelStats& path) {
            const auto direction = static_cast<std::size_t>(transfer.direction);
            const Bytes bytes = path.outstanding[direction] + transfer.length;
            return static_cast<double>(bytes) / nominal_rate(path, up);
        };
        const auto first =
            std::min_element(up.begin(), up.end(), [&](const auto& one, const auto& two) {
                return seconds(one) < seconds(two);
            });
        append_stripes(*first, 0, transfer.length, out);
    }
};

std::unique_ptr<Policy> make_own_policy(const SchedulerOptions&) {
    return std::make_unique<FirstToEnd>();
}

} // namespace adaptib
