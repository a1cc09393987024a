// SPDX-License-Identifier: BSD-3-Clause
// Load balancing: the least loaded subchannels are filled up first, until all would finish at the
// same time. Reads and writes are counted separately, since they load opposite directions (Vishnu,
// 5.2.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class LoadBalanced final : public Policy {
public:
    explicit LoadBalanced(const SchedulerOptions& options)
        : position_(options.position), min_stripe_(options.min_stripe) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        shares_.clear();
        for (std::size_t i = 0; i < up.size(); ++i) {
            const SubchannelStats& path = up[(position_ + i) % up.size()];
            shares_.push_back({&path, nominal_rate(path, up)});
        }
        level(transfer, shares_);
        divide(transfer.length, min_stripe_, shares_, out);
    }

private:
    std::uint32_t position_;
    Bytes min_stripe_;
    std::vector<Share> shares_; // scratch of plan
};

} // namespace

std::unique_ptr<Policy> make_load_balanced(const SchedulerOptions& options) {
    return std::make_unique<LoadBalanced>(options);
}

} // namespace adaptib
