// SPDX-License-Identifier: BSD-3-Clause
// CostMeter: samples and costs (select/cost_meter.h).
#include "select/cost_meter.h"

#include <algorithm>

#include "base/invariant.h"

namespace adaptib {

namespace {

// Least saving of a ring, as a part of the model's. A smaller or negative one tells where the
// senders run (their lines come from afar), not what the channels cost.
constexpr double kLeastSaved = 0.1;

double time_of(Nanoseconds took, Nanoseconds clock) {
    return static_cast<double>(std::max<Nanoseconds::rep>((took - clock).count(), 0));
}

} // namespace

void CostMeter::add(Few& to, double nanoseconds) {
    to.add(std::clamp(nanoseconds, 0.0, kMost));
    ++samples_;
}

// A message's own time is what the pass took beyond polling the other rings in vain.
void CostMeter::add_rings(Nanoseconds took, Nanoseconds clock, std::size_t rings,
                          std::size_t messages) {
    if (rings == 0) {
        return;
    }
    ++looks_;
    ring_looks_ += messages > 0 ? 1 : 0;
    ADAPTIB_INVARIANT(ring_looks_ <= looks_, "a look that found a message is a look", ring_looks_,
                      looks_);
    const double time = time_of(took, clock);
    if (messages == 0) {
        add(poll_, time / static_cast<double>(rings));
    } else if (poll_.known()) {
        const double polls = poll_.median() * static_cast<double>(rings - 1);
        add(ring_, (time - polls) / static_cast<double>(messages));
    }
}

void CostMeter::add_queue(Nanoseconds took, Nanoseconds clock, std::size_t messages) {
    if (messages > 0) {
        ++queue_looks_;
        add(queue_, time_of(took, clock) / static_cast<double>(messages));
    }
}

void CostMeter::add_credit(Nanoseconds took, Nanoseconds clock) {
    ++credits_;
    add(credit_, time_of(took, clock));
}

// Nothing here has shared rings to time, so their saving follows that of connected ones as in the
// model.
ChannelCosts CostMeter::costs(const ChannelCosts& model, double messages_per_credit) const {
    ChannelCosts costs = model;
    if (ring_.known() && queue_.known()) {
        costs.connected_ring =
            std::max(queue_.median() - ring_.median(), kLeastSaved * model.connected_ring);
        costs.shared_ring = model.connected_ring > 0
                                ? costs.connected_ring * model.shared_ring / model.connected_ring
                                : 0;
    }
    if (poll_.known()) {
        costs.poll = poll_.median();
    }
    if (credit_.known()) {
        costs.credit = credit_.median();
    }
    if (messages_per_credit >= 1) {
        costs.ring_messages = messages_per_credit;
    }
    return costs;
}

} // namespace adaptib
