// SPDX-License-Identifier: BSD-3-Clause
// Round robin: each transfer goes whole over the next subchannel. In the windowed kind, `window`
// transfers in a row take one subchannel, so fewer of them overtake each other (Vishnu, 4.1.2).
#include "base/invariant.h"
#include "schedule/policies.h"

namespace adaptib {

namespace {

class RoundRobin final : public Policy {
public:
    RoundRobin(std::uint32_t position, std::uint32_t window)
        : next_(position), left_(window), window_(window) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        ADAPTIB_INVARIANT(left_ > 0 && left_ <= window_, "a turn has transfers left", left_,
                          window_);
        append_stripes(up[next_ % up.size()], 0, transfer.length, out);
        if (--left_ == 0) {
            left_ = window_;
            next_ = static_cast<std::uint32_t>((next_ + std::size_t{1}) % up.size());
        }
    }

private:
    std::uint32_t next_;
    std::uint32_t left_;
    std::uint32_t window_;
};

} // namespace

std::unique_ptr<Policy> make_round_robin(const SchedulerOptions& options) {
    return std::make_unique<RoundRobin>(options.position, 1);
}

std::unique_ptr<Policy> make_window_round_robin(const SchedulerOptions& options) {
    return std::make_unique<RoundRobin>(options.position, std::max(options.window, 1u));
}

} // namespace adaptib
