// SPDX-License-Identifier: BSD-3-Clause
#include "core/startup.h"

#include <algorithm>
#include <bit>

#include "base/process_name.h"

namespace adaptib {

void Startup::begin(std::uint32_t rank, std::uint32_t count, std::uint32_t endpoints) {
    if (begun_ || options_.mode == Mode::on_demand || count < 2) {
        return;
    }
    begun_ = true;
    rank_ = rank;
    count_ = count;
    endpoints_ = endpoints;
    if (rank == 0 && endpoint_of(options_.self) == 0) {
        warn_of_limit();
    }
    steps_ = options_.mode == Mode::all ? count / 2
                                        : static_cast<std::uint32_t>(std::bit_width(count - 1));
}

void Startup::warn_of_limit() const {
    const std::uint64_t most = options_.connections;
    if (options_.mode == Mode::all && most > 0 && most < count_ - 1) {
        options_.message(
            Severity::notice,
            "opal_common_adaptib_connect is static, but opal_common_adaptib_connect_max allows " +
                std::to_string(most) + " connections for the " + std::to_string(count_ - 1) +
                " peers of each " + (endpoints_ > 1 ? "endpoint" : "process") +
                ": the others use the shared queue until there is room.");
    }
}

bool Startup::is_due() const {
    const bool answered = std::any_of(asked_.begin(), asked_.end(),
                                      [](const Peer* peer) { return !peer->session.connecting(); });
    return goes_on() && (asked_.empty() || answered);
}

std::uint32_t Startup::distance(std::uint32_t step) const {
    return options_.mode == Mode::all ? step + 1 : 1u << step;
}

std::uint64_t Startup::process_at(std::uint32_t step) const {
    return process_of(options_.self) - rank_ + (rank_ + distance(step)) % count_;
}

void Startup::connect_some(const Connect& connect, const EndpointsOf& endpoints_of) {
    std::erase_if(asked_, [](const Peer* peer) { return !peer->session.connecting(); });
    while (goes_on() && asked_.size() < kAskedAtOnce) {
        if (!connect_next(connect, endpoints_of)) {
            step_ = steps_; // a message told why; the others would fail the same way
            return;
        }
    }
}

// Requests a connection to one endpoint of the process of this step.
bool Startup::connect_next(const Connect& connect, const EndpointsOf& endpoints_of) {
    const std::uint64_t process = process_at(step_);
    if (theirs_ == 0) {
        theirs_ = std::max(endpoints_of(process), 1u);
        next_ = endpoint_of(options_.self) % theirs_;
    }
    const Peer* peer = nullptr;
    if (!connect(endpoint_name(process, next_), peer)) {
        return false;
    }
    if (peer != nullptr && peer->session.connecting()) {
        asked_.push_back(peer);
    }
    next_ += endpoints_;
    if (next_ >= theirs_) {
        theirs_ = 0;
        ++step_;
    }
    return true;
}

} // namespace adaptib
