// SPDX-License-Identifier: BSD-3-Clause
// SimFabric: the world as one simulated process sees it; its rails are the ports of its host.
// Ownership: the caller's (World::attach); ends before the world.  Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fabric/fabric.h"
#include "simulator/network/process.h"
#include "simulator/network/topology.h"

namespace adaptib::sim {

class World;
class Responder;

class SimFabric final : public Fabric {
public:
    SimFabric(World& world, Process& process);
    ~SimFabric() override;

    void raise(const adaptib::Event& event);
    void port_changed(PortIndex port, bool up);
    void address_changed(PortIndex port);

private:
    struct Responding {
        std::unique_ptr<CompletionQueue> cq; // always empty
        std::unique_ptr<Responder> responder;
    };
    void raise_on(PortIndex port, EventKind kind);
    bool poll_event_impl(adaptib::Event& out) override;
    Status respond_impl(const Answerer& answerer, std::uint64_t access_key) override;
    std::uint32_t responder_qp_impl(std::uint32_t rail) const override;

    std::vector<Responding> responders_; // by rail
    World& world_;
    Process& process_;
    std::deque<adaptib::Event> events_;
};

} // namespace adaptib::sim
