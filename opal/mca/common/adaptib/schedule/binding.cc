// SPDX-License-Identifier: BSD-3-Clause
// Binding: one subchannel for everything; the processes of one host are spread over the rails
// (Vishnu, 4.1.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Binding final : public Scheduler {
public:
    explicit Binding(std::uint32_t position) : position_(position) {}

private:
    void plan_impl(Bytes length, Marker, std::span<const SubchannelView> up,
                   std::vector<Stripe>& out) override {
        append_stripes(up[position_ % up.size()], 0, length, out);
    }

    std::uint32_t position_;
};

} // namespace

std::unique_ptr<Scheduler> make_binding(const SchedulerOptions& options) {
    return std::make_unique<Binding>(options.position);
}

} // namespace adaptib
