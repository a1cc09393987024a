// SPDX-License-Identifier: BSD-3-Clause
// Ranks: any number of complete cores over one simulated world.
//
// Purpose: what mpirun and the processes' progress loops are in production. Each rank has its turn when
// there is something for it to look at, when it asked for one (wake), and as long as its progress finds
// something; the time that a turn takes is the rank's own.
// Ownership: the Ranks own the world, the cores and what these need.
// Threads: one.
// May touch: core/, fabric/sim/, base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/parameters.h"
#include "base/random.h"
#include "core/core.h"
#include "fabric/sim/world.h"
#include "unit/core/address_table.h"

namespace adaptib::sim {

struct RanksOptions {
    std::size_t ranks = 2;
    WorldOptions world;
    std::vector<std::uint32_t> hosts; // of each rank; empty: rank i on host i modulo their number
    bool counts_by_host =
        false; // local ranks are those of a host, as in a job; else the ranks' own
    Parameters parameters = default_parameters();
    // What differs at a rank; empty: nothing.
    std::function<void(std::size_t rank, Parameters&)> parameters_of;
    bool maps_sources = false; // Core::Environment
    MeasureOptions measure;    //
    std::uint64_t seed = 1;
    // What looking at a ring costs in each pass of progress, whether there is something or not. What is found is so on
    // average in the middle of a pass.
    Nanoseconds ring_poll{0};
    // What each rank's fabric is wrapped in; empty: nothing.
    std::function<std::unique_ptr<Fabric>(std::size_t rank, std::unique_ptr<Fabric>)> wrap;
    // The rank's program: called in each of its turns, after progress; completed requests have been
    // reported. May start operations, and wake(rank, when).
    std::function<void(std::size_t rank)> program;
};

class Ranks {
public:
    // Null with `text` set if a core cannot come up.
    static std::unique_ptr<Ranks> create(RanksOptions options, std::string& text);
    ~Ranks();

    std::size_t size() const { return ranks_.size(); }
    World& world() { return world_; }
    Core& core(std::size_t rank) { return *ranks_[rank]->core; }
    Process& process(std::size_t rank) { return *ranks_[rank]->process; }
    Counters& counters(std::size_t rank) { return ranks_[rank]->counters; }
    const std::vector<std::string>& messages(std::size_t rank) { return ranks_[rank]->messages; }
    // The rank's own time.
    Nanoseconds now(std::size_t rank) { return process(rank).now(); }

    // First contact, if there was none. Null: the peer cannot be reached.
    Peer* peer(std::size_t from, std::size_t to);
    static std::uint64_t name(std::size_t rank) { return (std::uint64_t{1} << 32) | rank; }

    // A turn for the rank at `when`, or as soon as it has time.
    void wake(std::size_t rank, Nanoseconds when = Nanoseconds{0});
    // The rank computes for so long from now on: it has no turns, whatever comes for it.
    void compute(std::size_t rank, Nanoseconds time);
    void kill(std::size_t rank);
    bool alive(std::size_t rank) { return !process(rank).dead(); }

    // Until the condition, looked at after each event, is true. False if it is not after `limit` of virtual
    // time, or if nothing can happen any more: idle() tells which.
    bool run_until(const std::function<bool()>& condition, Nanoseconds limit);
    bool idle() const { return idle_; }

private:
    struct Rank final : Event, Activity {
        Rank(Ranks& owner, std::size_t index, std::uint64_t seed)
            : ranks(owner), number(index), random(seed) {}
        void happen() override;
        void on_activity() override;

        Ranks& ranks;
        std::size_t number;
        Random random;
        Counters counters;
        std::vector<std::string> messages;
        std::unique_ptr<Core> core;
        Process* process = nullptr;
        Nanoseconds away_until{0}; // it computes
        bool in_turn = false;
        bool again = false;
        std::size_t vain = 0; // passes since there was something
    };
    explicit Ranks(RanksOptions options);
    bool start(std::string& text);
    void turn(Rank& rank);
    std::size_t pass(Rank& rank);
    bool computes(const Rank& rank) { return now_of_world() < rank.away_until; }
    bool goes_on(const Rank& rank);
    Nanoseconds now_of_world() { return world_.simulator().now(); }
    bool stir();

    RanksOptions options_;
    World world_;
    test::AddressTable table_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    bool idle_ = false;
};

} // namespace adaptib::sim
