// SPDX-License-Identifier: BSD-3-Clause
// Binding: one subchannel for everything; the processes of one host are spread over the rails that are nearest
// to them (Vishnu, 4.1.2; nearest: hwloc's distance).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Binding final : public Policy {
public:
    explicit Binding(std::uint32_t position) : position_(position) {}

    void plan(const TransferView& transfer, std::span<const SubchannelView> up,
              std::vector<Stripe>& out) override {
        const auto nearest = std::min_element(up.begin(), up.end(),
                                              [](const SubchannelView& a, const SubchannelView& b) {
                                                  return a.distance < b.distance;
                                              });
        const auto as_near = [&](const SubchannelView& path) {
            return path.distance == nearest->distance;
        };
        auto turn = position_ % std::count_if(up.begin(), up.end(), as_near);
        const SubchannelView* chosen = &*nearest;
        while (turn-- > 0) {
            chosen = std::find_if(chosen + 1, up.data() + up.size(), as_near);
        }
        append_stripes(*chosen, 0, transfer.length, out);
    }

private:
    std::uint32_t position_;
};

} // namespace

std::unique_ptr<Policy> make_binding(const SchedulerOptions& options) {
    return std::make_unique<Binding>(options.position);
}

} // namespace adaptib
