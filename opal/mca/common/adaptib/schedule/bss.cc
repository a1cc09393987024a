// SPDX-License-Identifier: BSD-3-Clause
// Batch-based striping and sorting: the few of many paths that have proved fastest (the batch)
// carry a transfer, in proportion to their weights (Vishnu, 8.2).
//
// Beyond the source: now and then the path that was left out longest takes the place of the
// lightest one of the batch, so that the policy notices when a hot spot has moved.
#include "base/invariant.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

constexpr std::uint64_t kProbeEvery = 8; // transfers
constexpr double kProbePart = 1.0 / 16;  // of the others' weight: what a probed path has at least

class Bss final : public Policy {
public:
    explicit Bss(const SchedulerOptions& options)
        : min_stripe_(options.min_stripe), paths_(options.bss_paths), batch_(options.bss_batch),
          weights_(options.alpha, 0.0) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        const std::size_t paths =
            paths_ == 0 ? up.size() : std::min<std::size_t>(paths_, up.size());
        const std::size_t batch =
            batch_ == 0 ? (paths + 1) / 2 : std::min<std::size_t>(batch_, paths);
        ADAPTIB_INVARIANT(batch > 0 && batch <= paths, "a batch is some of the paths", batch,
                          paths);
        ++transfers_;
        shares_.clear();
        weights_.grow();
        for (const SubchannelStats& path : up.first(paths)) {
            if (path.index >= used_.size()) {
                used_.resize(path.index + 1);
            }
            shares_.push_back({&path, weights_.of(path, up)});
        }
        heaviest_first(shares_);
        if (batch < paths && transfers_ % kProbeEvery == 0) {
            const auto longest =
                std::min_element(shares_.begin() + static_cast<std::ptrdiff_t>(batch),
                                 shares_.end(), [this](const Share& a, const Share& b) {
                                     return used_[a.path->index] < used_[b.path->index];
                                 });
            std::swap(shares_[batch - 1], *longest);
            double others = 0;
            for (const Share& share : std::span(shares_).first(batch - 1)) {
                others += share.weight;
            }
            Share& probe = shares_[batch - 1];
            probe.weight = std::max(probe.weight, others * kProbePart);
        }
        const std::size_t from = out.size();
        divide(transfer.length, min_stripe_, std::span(shares_).first(batch), out);
        for (std::size_t i = from; i < out.size(); ++i) {
            used_[out[i].subchannel] = transfers_;
        }
    }
    bool learn(std::span<const StripeTime> times) override { return weights_.learn(times, false); }
    void on_return(std::uint64_t returned, std::uint64_t stayed) override {
        weights_.come_back(returned, stayed);
    }
    double weight(std::uint32_t subchannel) const override {
        return weights_.known(subchannel) / std::max(1e-9, weights_.sum());
    }

private:
    Bytes min_stripe_;
    std::size_t paths_;
    std::size_t batch_;
    PathWeights weights_;
    std::uint64_t transfers_ = 0;
    std::vector<std::uint64_t> used_; // by subchannel: the last transfer that it had a part in
    std::vector<Share> shares_;       // scratch of plan
};

} // namespace

std::unique_ptr<Policy> make_bss(const SchedulerOptions& options) {
    return std::make_unique<Bss>(options);
}

} // namespace adaptib
