// SPDX-License-Identifier: BSD-3-Clause
// Even striping: long transfers in equal parts over all subchannels, shorter ones round robin
// (Vishnu, 4.1.2 and 4.3.2).
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Even final : public Scheduler {
public:
    explicit Even(const SchedulerOptions& options)
        : position_(options.position), threshold_(options.striping_threshold),
          whole_(make_round_robin(options)) {}

private:
    void plan_impl(Bytes length, Marker marker, std::span<const SubchannelView> up,
                   std::vector<Stripe>& out) override {
        if (length < std::max(threshold_, kLeastSpread)) {
            whole_->plan(length, marker, up, out);
            return;
        }
        // Whole cache lines, so that no two parts share one.
        const Bytes part = round_up((length + up.size() - 1) / up.size(), kCacheLine);
        std::size_t turn = position_;
        for (Bytes offset = 0; offset < length; offset += part) {
            append_stripes(up[turn++ % up.size()], offset, std::min(part, length - offset), out);
        }
    }

    std::uint32_t position_;
    Bytes threshold_;
    std::unique_ptr<Scheduler> whole_;
};

} // namespace

std::unique_ptr<Scheduler> make_even(const SchedulerOptions& options) {
    return std::make_unique<Even>(options);
}

} // namespace adaptib
