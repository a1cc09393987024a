// SPDX-License-Identifier: BSD-3-Clause
// Enhanced point-to-point and collective: decides by kind of operation (Vishnu, 6.2). A caller that
// blocks, or takes part in a collective operation, waits for its transfer, so the transfer is
// striped. Many non-blocking transfers are under way at a time, so each takes one subchannel, in
// turn.
#include "schedule/policies.h"

namespace adaptib {

namespace {

class Epc final : public Policy {
public:
    explicit Epc(const SchedulerOptions& options)
        : striped_(make_adaptive(options)), whole_(make_round_robin(options)) {}

    void plan(const TransferShape& transfer, std::span<const SubchannelStats> up,
              StripePlan& out) override {
        const bool whole = transfer.op_kind == OpKind::non_blocking;
        (whole ? whole_ : striped_)->plan(transfer, up, out);
    }
    bool learn(std::span<const StripeTime> times) override { return striped_->learn(times); }
    void on_return(std::uint64_t returned, std::uint64_t stayed) override {
        striped_->on_return(returned, stayed);
    }
    Bytes round(const TransferShape& transfer) const override {
        return transfer.op_kind == OpKind::non_blocking ? 0 : striped_->round(transfer);
    }
    double weight(std::uint32_t subchannel) const override { return striped_->weight(subchannel); }
    double learnt(std::uint32_t subchannel) const override { return striped_->learnt(subchannel); }

private:
    std::unique_ptr<Policy> striped_;
    std::unique_ptr<Policy> whole_;
};

} // namespace

std::unique_ptr<Policy> make_epc(const SchedulerOptions& options) {
    return std::make_unique<Epc>(options);
}

} // namespace adaptib
