// SPDX-License-Identifier: BSD-3-Clause
// Datagrams under way. A pool in the world keeps and reuses them.
// Ownership: the pool's.  Threads: one.
// May touch: base/, simulator/network/{simulator,network}.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulator/network/network.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

class World;

class Datagram final : public Event {
public:
    explicit Datagram(World& world) : world_(world) {}

    Path* path = nullptr;
    std::uint32_t target = 0; // number of a queue pair
    std::uint32_t source = 0;
    std::uint64_t key = 0;
    std::uint32_t value = 0;
    bool immediate = false;
    std::vector<std::byte> payload;

private:
    void happen() override;

    World& world_;
};

class DatagramPool {
public:
    Datagram* take(World& world) {
        if (free_.empty()) {
            all_.push_back(std::make_unique<Datagram>(world));
            return all_.back().get();
        }
        Datagram* datagram = free_.back();
        free_.pop_back();
        return datagram;
    }
    void release(Datagram* datagram) { free_.push_back(datagram); }

private:
    std::vector<std::unique_ptr<Datagram>> all_;
    std::vector<Datagram*> free_;
};

} // namespace adaptib::sim
