// SPDX-License-Identifier: BSD-3-Clause
// Striping in proportion to the rates of the subchannels: nominal rates (weighted; Vishnu, 4.1.2),
// or rates learnt from the times of earlier stripes (adaptive; Vishnu, 7.1.2; over the paths of one
// port: HSAM). A learnt rate is that of an idle path; level() adds what the path has under way.
#include "schedule/policies.h"

namespace adaptib {

namespace {

// Lets a path that was slow once, and has had no part since, be tried again.
constexpr double kAgeing = 1.0 / 32;

class Proportional final : public Policy {
public:
    Proportional(Bytes min_stripe, double alpha)
        : min_stripe_(min_stripe), level_(alpha > 0), weights_(alpha, kAgeing) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        shares_.clear();
        PathWeights& weights = weights_.of(transfer.length);
        weights.grow();
        for (const SubchannelStats& path : up) {
            shares_.push_back({&path, level_ ? weights.of(path, up) : nominal_rate(path, up)});
        }
        if (level_) {
            several_paths_ = share_ports(up);
            level(transfer, shares_);
        }
        const std::size_t from = out.size();
        divide(transfer.length, min_stripe_, shares_, out);
        if (level_ && out[from].subchannel == out.back().subchannel) {
            age(transfer, up, out.back().subchannel);
        }
    }
    bool learn(std::span<const StripeTime> times) override {
        return weights_.learn(times, !several_paths_);
    }
    void on_return(std::uint64_t returned, std::uint64_t stayed) override {
        weights_.come_back(returned, stayed);
    }
    Bytes round(const TransferShape&) const override { return level_ ? kRound : 0; }
    double weight(std::uint32_t subchannel) const override {
        return weights_.last().part(subchannel);
    }
    double learnt(std::uint32_t subchannel) const override {
        return weights_.last().known(subchannel);
    }

private:
    // Ages the other idle paths when one path carries all of a transfer.
    void age(const TransferShape& transfer, std::span<const SubchannelStats> up,
             std::uint32_t carrier) {
        const auto direction = static_cast<std::size_t>(transfer.direction);
        for (const SubchannelStats& path : up) {
            if (path.index != carrier && path.outstanding[direction] == 0) {
                weights_.age(path.index, carrier, transfer.length, least_stripe(path, min_stripe_));
            }
        }
    }

    Bytes min_stripe_;
    bool level_;
    WeightsByLength weights_;
    bool several_paths_ = false; // some port had several in the last plan
    std::vector<Share> shares_;  // scratch of plan
};

} // namespace

std::unique_ptr<Policy> make_weighted(const SchedulerOptions& options) {
    return std::make_unique<Proportional>(options.min_stripe, 0.0);
}

std::unique_ptr<Policy> make_adaptive(const SchedulerOptions& options) {
    return std::make_unique<Proportional>(options.min_stripe, options.alpha);
}

} // namespace adaptib
