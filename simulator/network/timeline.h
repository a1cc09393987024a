// SPDX-License-Identifier: BSD-3-Clause
// Timeline: the faults of a simulated world and their times.
//
// Purpose: faults at given times, or drawn at random from a seed. The same timeline over the same
// world gives the same run. As text, one fault a line ("1500 port 3 down"), it can be stored and
// read back.
// Ownership: ends before its world, and cancels the faults that have not happened yet.
// Threads: one.
// May touch: base/, simulator/network/world.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "simulator/network/world.h"

namespace adaptib::sim {

struct Fault {
    enum class Kind : std::uint8_t {
        port_down,
        port_up,
        link_down, // both directions of the cable
        link_up,
        slow, // a port: nominal rate / value; 1: nominal again
        cut,  // a host goes to the group `value`; hosts of different groups do not reach each other
        kill, // a process, by the order in which it was attached
    };
    Nanoseconds when{0};
    Kind kind = Kind::port_down;
    std::uint32_t where = 0;
    std::uint32_t value = 0;

    friend bool operator==(const Fault&, const Fault&) = default;
};

std::string to_text(const std::vector<Fault>& faults);
// Returns false with `text` set to the wrong line and the reason.
bool from_text(std::string_view lines, std::vector<Fault>& out, std::string& text);

// Mean numbers of faults until `until`. Everything that is taken down comes back, except dead
// processes.
struct FaultRates {
    double ports = 0; // of all ports together
    double links = 0;
    double slowed = 0;
    double partitions = 0;
    double deaths = 0;
    Nanoseconds until{0};
    Nanoseconds lasts{0}; // mean duration of a fault
};
std::vector<Fault> random_faults(const Topology& topology, std::uint32_t processes,
                                 const FaultRates& rates, Random& random);

class Timeline {
public:
    // Errors: false with `text` if a fault names something that the world does not have.
    static bool schedule(World& world, const std::vector<Fault>& faults,
                         std::unique_ptr<Timeline>& out, std::string& text);
    ~Timeline();

private:
    class Due;
    explicit Timeline(World& world);
    void apply(const Fault& fault);

    World& world_;
    std::vector<std::unique_ptr<Due>> due_;
};

} // namespace adaptib::sim
