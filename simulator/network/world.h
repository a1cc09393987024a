// SPDX-License-Identifier: BSD-3-Clause
// World: a simulated network with the processes on its hosts.
//
// Purpose: owns virtual time, the network, the adapters and the processes; gives each process a
// Fabric whose rails are the ports of its host. The driver of the world runs events
// (simulator().step()) and gives each process its turn when its Activity says so. The actions of a
// process in its turn take its own time (Process); packets and completions are events.
// Faults: ports, links and hosts can be taken down, slowed, cut off; processes can die.
// The same options and the same calls give the same world, event by event (trace()).
// Ownership: attached fabrics end before the world.
// Threads: one.
// May touch: base/, fabric/, simulator/network/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "fabric/fabric.h"
#include "simulator/network/adapter.h"
#include "simulator/network/datagram.h"
#include "simulator/network/late_packets.h"
#include "simulator/network/machine.h"
#include "simulator/network/network.h"
#include "simulator/network/process.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

class SimFabric;

// The world's owner decides on a datagram's fate; chance (WorldOptions) decides besides.
struct Fate {
    bool lost = false;
    Nanoseconds later{0}; // takes so much longer
    bool twice = false;   // a second one arrives `second` after the first
    Nanoseconds second{0};
};

struct WorldOptions {
    MachineModel machine;
    Topology topology; // with LIDs
    Routes routes;
    std::uint64_t seed = 1;
    // Probabilities for datagrams, if the machine does not promise to deliver them (reliable_ud).
    double datagram_loss = 0;
    double datagram_twice = 0;
    double datagram_late = 0; // overtaken by later datagrams
    Nanoseconds late_by{20'000};
    // Returns how much longer a datagram with these bytes takes than others. Null: no longer.
    std::function<Nanoseconds(std::span<const std::byte> datagram, Random& random)> detour;
    // Called for each datagram of the world in turn. Null: nothing happens to any.
    std::function<Fate()> fate;
    // Share of the published writes of several packets of which one packet is placed late, after
    // the end of the write. Rails say that they do not place in order if it is not 0.
    double scrambled_writes = 0;
    // Connected queue pairs drop packets whose source LID is not that of their path.
    bool checks_sources = true;
    bool responders = true; // processes have responders (Fabric::respond)
    // Packets live for so long, as rails say, and twice as long at most. Share of the writes under
    // way of a DC initiator that ends, or fails, that arrive after its end, within that time.
    Nanoseconds packet_life{5'000'000};
    double outliving_writes = 0;
};

class World {
public:
    explicit World(WorldOptions options);
    ~World();

    struct Attached {
        std::unique_ptr<Fabric> fabric;
        Process* process; // owned by the world
    };
    // Starts a process on a host. REQUIRES: host < topology().hosts.size().
    Attached attach(std::uint32_t host);
    // Gives a process one more fabric, for another endpoint of the same thread.
    std::unique_ptr<Fabric> attach(Process& process);

    std::size_t processes() const { return processes_.size(); }
    Process& process(std::size_t number) { return *processes_[number]; } // in the order of attach

    Simulator& simulator() { return simulator_; }
    Network& network() { return *network_; }
    const MachineModel& machine() const { return options_.machine; }
    const Topology& topology() const { return network_->topology(); }
    Random& random() { return random_; }

    // Faults, effective at once.
    void set_port(PortIndex port, bool up);
    void set_link(LinkIndex link, bool up);
    void set_direction(LinkIndex link, bool up); // one of a cable's two
    void slow_port(PortIndex port, std::uint32_t factor) { network_->slow_port(port, factor); }
    void set_group(std::uint32_t host, std::uint32_t group);
    // Gives a port another base LID, as a subnet manager does. Of a port that is down the processes
    // learn it when the port is active, or, with `at_once`, now. REQUIRES: as Topology::move_lids.
    void set_lid(PortIndex port, Lid lid, bool at_once = false);
    void set_plane(PortIndex port, std::uint32_t plane) { network_->set_plane(port, plane); }
    // False: the network drops the packets of connections, and datagrams pass.
    void set_connections(bool pass) { connections_pass_ = pass; }
    bool connections_pass() const { return connections_pass_; }
    void kill(Process& process);
    // Number of faults so far: ports and cables that changed, datagrams that were lost, doubled or
    // late.
    std::uint64_t faults() const { return faults_; }

    // Called with a line for each completion, datagram, event and fault. May be empty.
    std::function<void(const std::string&)> trace;
    void tell(const char* format, ...) __attribute__((format(printf, 2, 3)));

    // For the fabric's own objects.
    const WorldOptions& options() const { return options_; }
    Adapter& adapter_of(PortIndex port) {
        return *adapters_[network_->topology().ports[port].adapter];
    }
    Engine& engine(PortIndex port, std::uint32_t index) {
        return engines_[port * engines_per_port_ + index % engines_per_port_];
    }
    Wire& wire_out(PortIndex port) { return wires_out_[port]; }
    Wire& wire_in(PortIndex port) { return wires_in_[port]; }
    std::uint32_t next_engine(PortIndex port) { return next_engine_[port]++; }
    DatagramPool& datagrams() { return datagrams_; }
    LatePackets& late_packets() { return late_packets_; }
    void note_fault() { ++faults_; }
    void leave(SimFabric* fabric);

private:
    void paths_changed();

    WorldOptions options_;
    Simulator simulator_;
    Random random_;
    std::unique_ptr<Network> network_;
    std::vector<std::unique_ptr<Adapter>> adapters_; // by node; null for switches
    std::uint32_t engines_per_port_;
    std::vector<Engine> engines_;
    std::vector<Wire> wires_out_; // by port
    std::vector<Wire> wires_in_;
    std::vector<std::uint32_t> next_engine_;
    std::uint64_t faults_ = 0;
    DatagramPool datagrams_;
    LatePackets late_packets_{*this};
    bool connections_pass_ = true;
    std::vector<std::unique_ptr<Process>> processes_;
    std::vector<SimFabric*> fabrics_;
};

} // namespace adaptib::sim
