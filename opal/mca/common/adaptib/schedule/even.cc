// SPDX-License-Identifier: BSD-3-Clause
// Even striping: equal parts over all subchannels, however fast they are (Vishnu, 4.1.2 and 4.3.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Even final : public Policy {
public:
    explicit Even(std::uint32_t position) : position_(position) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        const Bytes length = transfer.length;
        // Whole cache lines, so that no two parts share one.
        const Bytes part = round_up((length + up.size() - 1) / up.size(), kCacheLine);
        paths_ = up.size();
        std::size_t turn = position_;
        for (Bytes offset = 0; offset < length; offset += part) {
            append_stripes(up[turn++ % up.size()], offset, std::min(part, length - offset), out);
        }
    }
    double weight(std::uint32_t) const override {
        return paths_ == 0 ? 0 : 1.0 / static_cast<double>(paths_);
    }

private:
    std::uint32_t position_;
    std::size_t paths_ = 0; // of the last transfer
};

} // namespace

std::unique_ptr<Policy> make_even(const SchedulerOptions& options) {
    return std::make_unique<Even>(options.position);
}

} // namespace adaptib
