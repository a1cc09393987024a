// SPDX-License-Identifier: BSD-3-Clause
// Weighted round robin: whole transfers, as many over each subchannel as its nominal rate is of all, and the
// turns of a slow one spread among those of the fast ones (Vishnu, 4.1.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class WeightedRoundRobin final : public Policy {
public:
    explicit WeightedRoundRobin(std::uint32_t position) : position_(position) {}

    // Each gains its rate; who has most pays all that was gained.
    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) override {
        double gained = 0;
        const SubchannelView* chosen = nullptr;
        for (std::size_t i = 0; i < up.size(); ++i) {
            const SubchannelView& path = up[(position_ + i) % up.size()];
            if (path.index >= saved_.size()) {
                saved_.resize(path.index + 1);
            }
            const double rate = nominal_rate(path, up);
            saved_[path.index] += rate;
            gained += rate;
            if (chosen == nullptr || saved_[path.index] > saved_[chosen->index]) {
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
