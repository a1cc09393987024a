// SPDX-License-Identifier: BSD-3-Clause
#include "protocol/back_pressure.h"

namespace adaptib {

bool BackPressure::takes_too_much(Peer& peer) const {
    peer.flow.unexpected.look_at = peer.flow.unexpected.bytes + step_;
    return is_over(peer);
}

void BackPressure::restrain(Peer& peer, Allowance least) {
    if (least != peer.flow.unexpected.told) {
        send_allowance(peer, least);
    }
}

// This process has received some of the peer's messages. Now and then checks all restrained peers:
// messages received from others count, too.
void BackPressure::ease(Peer& peer) {
    peer.flow.unexpected.look_at =
        std::min(peer.flow.unexpected.look_at, peer.flow.unexpected.bytes + step_);
    if (peer.flow.unexpected.told != Allowance::all && may_go_on(peer)) {
        send_allowance(peer, Allowance::all);
    }
    if (bytes_ + step_ > eased_at_) {
        eased_at_ = std::max(eased_at_, bytes_);
        return;
    }
    eased_at_ = bytes_;
    for (std::size_t left = restrained_.size(); left > 0 && !restrained_.empty(); --left) {
        Peer& other = *restrained_.pop_front();
        restrained_.push_back(other);
        if (may_go_on(other)) {
            send_allowance(other, Allowance::all);
        }
    }
}

void BackPressure::on_wanted(Peer* from) {
    const auto let_in = [this](Peer& peer) {
        if (peer.flow.unexpected.told == Allowance::nothing) {
            send_allowance(peer, Allowance::announcements);
        }
    };
    if (from != nullptr) {
        let_in(*from);
        return;
    }
    for (std::size_t left = restrained_.size(); left > 0 && !restrained_.empty(); --left) {
        Peer& peer = *restrained_.pop_front();
        restrained_.push_back(peer);
        let_in(peer);
    }
}

void BackPressure::release(Peer& peer) {
    if (peer.flow.unexpected.told != Allowance::all) {
        send_allowance(peer, Allowance::all);
    }
}

void BackPressure::release_all() {
    while (!restrained_.empty()) {
        send_allowance(*restrained_.front(), Allowance::all);
    }
}

void BackPressure::forget(Peer& peer) {
    if (peer.flow.restrained_link.linked()) {
        restrained_.remove(peer);
    }
    peer.flow.unexpected.told = Allowance::all;
}

void BackPressure::send_allowance(Peer& peer, Allowance allowance) {
    if (allowance == Allowance::all) {
        restrained_.remove(peer);
    } else if (peer.flow.unexpected.told == Allowance::all) {
        eased_at_ = std::max(eased_at_, bytes_);
        restrained_.push_back(peer);
    }
    peer.flow.unexpected.told = allowance;
    counters_.peers_restrained += allowance == Allowance::nothing ? 1 : 0;
    flow_.send_control(peer, MessageType::allowance, nullptr, 0,
                       static_cast<std::uint8_t>(allowance));
}

} // namespace adaptib
