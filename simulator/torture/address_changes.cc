// SPDX-License-Identifier: BSD-3-Clause
#include "simulator/torture/address_changes.h"

#include <algorithm>

namespace adaptib::torture {

void give_new_lid(sim::World& world, sim::PortIndex port) {
    world.set_lid(port, world.topology().unused_lid());
}

void AddressChanges::begin(sim::World& world, std::uint32_t host, std::uint64_t seed,
                           std::uint32_t share) {
    world_ = &world;
    random_ = Random(seed);
    share_ = share;
    ports_ = world.topology().hosts[host].ports;
    for (const sim::PortIndex port : ports_) {
        before_.push_back(world.topology().ports[port].lid);
    }
}

// In one of four cases the port returns to the LID before, if it has had two.
void AddressChanges::give(std::size_t which) {
    const sim::PortIndex port = ports_[which];
    const sim::Lid now = world_->topology().ports[port].lid;
    sim::Lid& before = before_[which];
    const bool returns = random_.below(4) == 0 && before != now;
    const sim::Lid next = returns ? before : world_->topology().unused_lid();
    before = now;
    world_->set_lid(port, next, random_.below(2) == 0);
}

void AddressChanges::change() {
    const bool all = random_.below(4) == 0;
    const std::size_t among = random_.below(2) == 0 ? ports_.size() : (ports_.size() + 2) / 3;
    const std::size_t one = random_.below(among);
    const bool blinks = random_.below(3) == 0;
    for (std::size_t which = all ? 0 : one; which < (all ? ports_.size() : one + 1); ++which) {
        const bool goes_down = blinks && world_->network().port_up(ports_[which]);
        if (goes_down) {
            world_->set_port(ports_[which], false);
        }
        give(which);
        if (goes_down) {
            world_->set_port(ports_[which], true);
        }
    }
}

void AddressChanges::on_up(sim::PortIndex port) {
    const auto found = std::find(ports_.begin(), ports_.end(), port);
    if (share_ > 0 && found != ports_.end() && random_.below(2) == 0) {
        give(static_cast<std::size_t>(found - ports_.begin()));
    }
}

} // namespace adaptib::torture
