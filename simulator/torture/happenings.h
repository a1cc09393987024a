// SPDX-License-Identifier: BSD-3-Clause
// Happenings: what happens once in a world, to one datagram, one port, one rank or process.
//
// Purpose: a defect that two events show, in one order and within microseconds, is found by trying
// all places where an event can be (neighbours.h), not by chance. Datagrams are numbered in the
// order in which the world sends them: as long as nothing else changes, the same number is the
// same datagram in each run.
// Threads: one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "simulator/torture/program.h"
#include "simulator/torture/ranks.h"

namespace adaptib::torture {

// The ports of all hosts, host by host.
std::vector<sim::PortIndex> host_ports(const sim::World& world);
enum class Outage : std::uint8_t {
    reported, // the port goes down
    silent    // its cable stops without a word
};
// Lets the port work, or not.
void set_works(sim::World& world, sim::PortIndex port, Outage how, bool works);

class Happenings {
public:
    // Reads the settings of a program's world (sim_driver.h); others are left alone.
    void read(const std::vector<Setting>& world);
    bool any() const { return !fates_.empty() || !timed_.empty(); }
    // Ports or cables that fail, or ports that get another address.
    bool outages() const;
    bool addresses() const;
    bool deaths() const;
    // Those of which nobody tells the others.
    bool untold_deaths() const;

    // Those that have a time come by themselves from here on. `died` is told of deaths, and whether
    // the runtime tells the others.
    void begin(sim::Ranks& ranks, std::function<void(std::uint32_t rank, bool told)> died);
    // Counts a datagram, and returns its fate.
    sim::Fate fate();
    std::uint64_t datagrams() const { return datagrams_; }
    // The time of the last outage's last change, death, and end of a pause, so far.
    Nanoseconds last() const { return last_; }

private:
    enum class Kind : std::uint8_t { outage, silence, address, pause, death, told_death };
    struct Timed {
        Kind kind;
        std::uint64_t number; // of the port or rank
        Nanoseconds at;
        bool ends() const { return kind == Kind::outage || kind == Kind::silence; }
        bool kills() const { return kind == Kind::death || kind == Kind::told_death; }
    };
    struct Change final : sim::Event {
        Change(Happenings& its, const Timed& which, bool is_end)
            : owner(its), what(which), end(is_end) {}
        void happen() override;

        Happenings& owner;
        Timed what;
        bool end;
    };

    std::map<std::uint64_t, sim::Fate> fates_; // by the datagram's number
    std::vector<Timed> timed_;
    Nanoseconds outage_lasts_{2'000'000};
    Nanoseconds pause_lasts_{1'000'000};
    std::uint64_t datagrams_ = 0;
    Nanoseconds last_{0};
    sim::Ranks* ranks_ = nullptr;
    std::function<void(std::uint32_t, bool)> died_;
    std::deque<Change> changes_;
};

} // namespace adaptib::torture
