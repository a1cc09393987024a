// SPDX-License-Identifier: BSD-3-Clause
// LatePackets: packets of writes that an adapter places after the end of their write, or after that
// of their DC initiator.
//
// Purpose: adapters that take packets in any order (adaptive routing) may place the end of a long
// write before its middle. A process that polls on the end then sees memory that is not written
// yet. A packet is placed within 2 us, and before its queue pair is reset or ends, as the initiator
// may have been told that it arrived. A network may also keep the packets of a DC initiator that
// has failed for as long as packets live; its target, which serves others, takes them.
// Ownership: the World's.  Threads: one.
// May touch: base/, simulator/network/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "fabric/work.h"
#include "simulator/network/network.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

class World;
class SimRail;

class LatePackets {
public:
    explicit LatePackets(World& world);
    ~LatePackets();

    // Returns true with [at, +length), a packet of a published write of `bytes`, if the adapter
    // places that packet late.
    bool draw(const SendWork& work, Bytes bytes, Bytes& at, Bytes& length);
    // Keeps what the packet has written at `address` of the target's memory for later, and restores
    // `before`, which was there. `qp`: the target's
    // queue pair, of `rail`.
    void hold_back(SimRail& rail, std::uint32_t qp, const SendWork& work, std::uint64_t address,
                   const std::vector<std::byte>& before);

    // A write is under way to that target as its DC initiator ends: draws whether it arrives all
    // the same, and when.
    void outlive(const Path& path, std::uint32_t target, const SendWork& work,
                 std::span<const Gather> list);

    // Places the packets of this queue pair of the rail, which is reset or ends.
    void place_all(const SimRail& rail, std::uint32_t qp);

private:
    class Packet;
    class Survivor;
    void drop_placed();

    World& world_;
    std::list<std::unique_ptr<Packet>> packets_; // that have not been placed yet
    std::vector<std::unique_ptr<Survivor>> survivors_;
};

} // namespace adaptib::sim
