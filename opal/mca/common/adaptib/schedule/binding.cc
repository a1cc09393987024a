// SPDX-License-Identifier: BSD-3-Clause
// Binding: one subchannel for everything; the processes of one host are spread over the rails
// (Vishnu, 4.2.1). And the table of policies.
#include <algorithm>

#include "schedule/scheduler.h"

namespace adaptib {

namespace {

class Binding final : public Scheduler {
public:
    explicit Binding(std::uint32_t position) : position_(position) {}

private:
    void plan_impl(Bytes length, Marker, std::span<const SubchannelView> up,
                   std::vector<Stripe>& out) override {
        const SubchannelView& chosen = up[position_ % up.size()];
        for (Bytes offset = 0; offset < length;) {
            const Bytes part = std::min(length - offset, chosen.max_stripe);
            out.push_back({chosen.index, offset, part});
            offset += part;
        }
    }

    std::uint32_t position_;
};

} // namespace

std::unique_ptr<Scheduler> make_scheduler(std::string_view policy, std::uint32_t position) {
    if (policy == "binding") {
        return std::make_unique<Binding>(position);
    }
    return nullptr;
}

} // namespace adaptib
