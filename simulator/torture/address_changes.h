// SPDX-License-Identifier: BSD-3-Clause
// AddressChanges: gives ports of one host other LIDs while a program runs.
//
// Purpose: stands for a subnet manager that moves ports. One or several ports change at a time, the
// same ones again and again, some of them back to the LID that they had before; ports that work,
// ports that are down, and ports that go down for it and come back at once.
// Only ports of one host change: where both ends of a path have another address, neither can tell
// the other.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "simulator/network/world.h"

namespace adaptib::torture {

// Gives a port a LID that none has had.
void give_new_lid(sim::World& world, sim::PortIndex port);

class AddressChanges {
public:
    // `share`: how many of a thousand changes of the network are such ones; 0: none.
    void begin(sim::World& world, std::uint32_t host, std::uint64_t seed, std::uint32_t share);
    // Decides whether the next change is one of addresses.
    bool takes_next() { return share_ > 0 && random_.below(kThousand) < share_; }
    void change();
    // Called when a port is about to come up: in half of the cases of the host's ports with another
    // address.
    void on_up(sim::PortIndex port);

private:
    static constexpr std::uint32_t kThousand = 1000;

    void give(std::size_t which);

    sim::World* world_ = nullptr;
    Random random_{1};
    std::uint32_t share_ = 0;
    std::vector<sim::PortIndex> ports_;
    std::vector<sim::Lid> before_; // the LIDs that they had before the present ones
};

} // namespace adaptib::torture
