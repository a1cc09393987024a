// SPDX-License-Identifier: BSD-3-Clause
// Load balancing: the least loaded subchannels are filled up first, until all would end at the same time;
// reads and writes are counted apart, since they load opposite directions (Vishnu, 5.2.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class LoadBalanced final : public Policy {
public:
    explicit LoadBalanced(const SchedulerOptions& options)
        : position_(options.position), min_stripe_(options.min_stripe) {}

    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) override {
        const auto direction = static_cast<std::size_t>(transfer.direction);
        loads_.clear();
        for (std::size_t i = 0; i < up.size(); ++i) {
            const SubchannelView& path = up[(position_ + i) % up.size()];
            const double rate = std::max(1.0, static_cast<double>(path.rate.value));
            const auto load = static_cast<double>(path.outstanding[direction]);
            loads_.push_back({&path, load, rate});
        }
        std::stable_sort(loads_.begin(), loads_.end(),
                         [](const Load& a, const Load& b) { return a.end() < b.end(); });
        // Until the next one is busy for longer than the filled ones would be with the transfer.
        double bytes = static_cast<double>(transfer.length);
        double rates = 0;
        std::size_t filled = 0;
        for (const Load& load : loads_) {
            if (filled > 0 && bytes <= load.end() * rates) {
                break;
            }
            bytes += load.bytes;
            rates += load.rate;
            ++filled;
        }
        const double end = bytes / rates;
        shares_.clear();
        for (std::size_t i = 0; i < filled; ++i) {
            const Load& load = loads_[i];
            shares_.push_back({load.path, std::max(end * load.rate - load.bytes, 1.0)});
        }
        divide(transfer.length, min_stripe_, shares_, out);
    }

private:
    struct Load {
        const SubchannelView* path;
        double bytes;
        double rate;
        double end() const { return bytes / rate; }
    };

    std::uint32_t position_;
    Bytes min_stripe_;
    std::vector<Load> loads_; // scratch of plan
    std::vector<Share> shares_;
};

} // namespace

std::unique_ptr<Policy> make_load_balanced(const SchedulerOptions& options) {
    return std::make_unique<LoadBalanced>(options);
}

} // namespace adaptib
