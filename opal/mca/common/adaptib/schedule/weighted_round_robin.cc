// SPDX-License-Identifier: BSD-3-Clause
// Weighted round robin: transfers go whole, over each subchannel as often as its nominal rate is of
// the sum of all, and the turns of a slow subchannel are spread among those of the fast ones
// (Vishnu, 4.1.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class WeightedRoundRobin final : public Policy {
public:
    explicit WeightedRoundRobin(std::uint32_t position) : position_(position) {}

    // Each subchannel gains its rate. The one that has saved most carries the transfer, and pays
    // the sum of all gains.
    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        double gained = 0;
        const SubchannelStats* chosen = &up[position_ % up.size()];
        for (std::size_t i = 0; i < up.size(); ++i) {
            const SubchannelStats& path = up[(position_ + i) % up.size()];
            if (path.index >= saved_.size()) {
                saved_.resize(path.index + 1);
            }
            const double rate = nominal_rate(path, up);
            saved_[path.index] += rate;
            gained += rate;
            if (saved_[path.index] > saved_[chosen->index]) {
                chosen = &path;
            }
        }
        saved_[chosen->index] -= gained;
        append_stripes(*chosen, 0, transfer.length, out);
    }

private:
    std::uint32_t position_;
    std::vector<double> saved_; // by subchannel
};

} // namespace

std::unique_ptr<Policy> make_weighted_round_robin(const SchedulerOptions& options) {
    return std::make_unique<WeightedRoundRobin>(options.position);
}

} // namespace adaptib
