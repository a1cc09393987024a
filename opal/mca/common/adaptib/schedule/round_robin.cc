// SPDX-License-Identifier: BSD-3-Clause
// Round robin: whole transfers, each over the subchannel after that of the one before (Vishnu,
// 4.1.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class RoundRobin final : public Scheduler {
public:
    explicit RoundRobin(std::uint32_t position) : position_(position), next_(position) {}

private:
    void plan_impl(Bytes length, Marker, std::span<const SubchannelView> up,
                   std::vector<Stripe>& out) override {
        const std::uint32_t turn = length < kLeastSpread ? position_ : next_++;
        append_stripes(up[turn % up.size()], 0, length, out);
    }

    std::uint32_t position_;
    std::uint32_t next_;
};

} // namespace

std::unique_ptr<Scheduler> make_round_robin(const SchedulerOptions& options) {
    return std::make_unique<RoundRobin>(options.position);
}

} // namespace adaptib
