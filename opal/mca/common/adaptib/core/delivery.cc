// SPDX-License-Identifier: BSD-3-Clause
#include "core/delivery.h"

namespace adaptib {

void Delivery::hand_over(Peer& peer, const MessageHeader& header, const std::byte* body) {
    if (stopwatch_ == nullptr) [[likely]] {
        protocol_.on_message(peer, header, body);
        return;
    }
    const Nanoseconds start = clock_.now();
    protocol_.on_message(peer, header, body);
    stopwatch_->aside += clock_.now() - start + stopwatch_->clock;
}

} // namespace adaptib
