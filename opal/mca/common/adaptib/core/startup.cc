// SPDX-License-Identifier: BSD-3-Clause
#include "core/startup.h"

#include <algorithm>
#include <bit>

namespace adaptib {

void Startup::begin(std::uint32_t rank, std::uint32_t count) {
    if (begun_ || options_.mode == Mode::on_demand || count < 2) {
        return;
    }
    begun_ = true;
    rank_ = rank;
    count_ = count;
    const std::uint64_t most = options_.connections;
    if (rank == 0 && options_.mode == Mode::all && most > 0 && most < count - 1) {
        listener_.on_notice(
            "opal_common_adaptib_connect is static, but opal_common_adaptib_connect_max allows " +
            std::to_string(most) + " connections for the " + std::to_string(count - 1) +
            " peers of each process: the others use the shared queue until there is room.");
    }
    steps_ = options_.mode == Mode::all ? count / 2
                                        : static_cast<std::uint32_t>(std::bit_width(count - 1));
}

bool Startup::is_due() const {
    const bool answered = std::any_of(asked_.begin(), asked_.end(),
                                      [](const Peer* peer) { return !peer->session.connecting(); });
    return goes_on() && (asked_.empty() || answered);
}

std::uint32_t Startup::distance(std::uint32_t step) const {
    return options_.mode == Mode::all ? step + 1 : 1u << step;
}

void Startup::connect_some() {
    std::erase_if(asked_, [](const Peer* peer) { return !peer->session.connecting(); });
    while (goes_on() && asked_.size() < kAskedAtOnce) {
        const std::uint32_t other = (rank_ + distance(step_++)) % count_;
        const Peer* peer = nullptr;
        if (!listener_.connect_at_start(options_.self - rank_ + other, peer)) {
            step_ = steps_; // a message told why; the others would fail the same way
            return;
        }
        if (peer != nullptr && peer->session.connecting()) {
            asked_.push_back(peer);
        }
    }
}

} // namespace adaptib
