// SPDX-License-Identifier: BSD-3-Clause
// One end of the connection of a dynamically connected queue pair.
//
// Purpose: an initiator is connected to one target at a time, and may or may not be served by it
// now. A target serves a limited number of initiators at the same time.
// Ownership: the queue pair's.  Threads: one.
// Source: Takagi et al., 2.1.
// May touch: base/ only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace adaptib::sim {

class DcLink {
public:
    // An initiator: number of the target that it is connected to; 0: none.
    std::uint32_t remote() const { return remote_; }
    bool served() const { return served_; }
    bool connecting() const { return connecting_; }
    void connect(std::uint32_t remote) {
        remote_ = remote;
        connecting_ = true;
    }
    // Returns true if the target has served this initiator before, and no other one since.
    bool is_remembered(const DcLink* target) const {
        return target != nullptr && turn_ != 0 && target->turn_ == turn_;
    }
    // Returns false if the target serves as many initiators as it can.
    bool get_served(DcLink& target, std::uint32_t most);
    // Lets the target (null: it is not there any more) serve others.
    void let_others_be_served(DcLink* target) {
        if (target != nullptr && target->life_ == life_ && target->initiators_ > 0) {
            --target->initiators_;
        }
        served_ = false;
    }
    // An initiator forgets its target.
    void forget_target() {
        remote_ = 0;
        turn_ = 0;
        connecting_ = false;
    }
    // A target forgets the initiators that it served.
    void forget_initiators() {
        initiators_ = 0;
        ++life_;
    }

private:
    std::uint32_t remote_ = 0;
    bool served_ = false;
    bool connecting_ = false;
    // A target: number of its last change to another initiator. An initiator: that number when it
    // was served; while both are equal, the target has served no other initiator since.
    std::uint64_t turn_ = 0;
    std::uint32_t initiators_ = 0; // a target: the number of initiators that it serves
    // A target: number of its resets and errors; each makes it forget the initiators that it
    // served. An initiator: that number when it was served.
    std::uint32_t life_ = 0;
};

inline bool DcLink::get_served(DcLink& target, std::uint32_t most) {
    if (served_ && life_ == target.life_) {
        return true;
    }
    if (target.initiators_ >= std::max(most, 1u)) {
        return false;
    }
    ++target.initiators_;
    served_ = true;
    life_ = target.life_;
    if (connecting_ || target.turn_ != turn_) {
        turn_ = ++target.turn_;
    }
    connecting_ = false;
    return true;
}

} // namespace adaptib::sim
