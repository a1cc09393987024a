// SPDX-License-Identifier: BSD-3-Clause
// Binding: one subchannel for everything; the processes of one host are spread over the rails
// (Vishnu, 4.1.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Binding final : public Policy {
public:
    explicit Binding(std::uint32_t position) : position_(position) {}

    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) override {
        append_stripes(up[position_ % up.size()], 0, transfer.length, out);
    }

private:
    std::uint32_t position_;
};

} // namespace

std::unique_ptr<Policy> make_binding(const SchedulerOptions& options) {
    return std::make_unique<Binding>(options.position);
}

} // namespace adaptib
