// SPDX-License-Identifier: BSD-3-Clause
// Ranks: any number of complete cores over one simulated world.
//
// Purpose: stands for mpirun and the processes' progress loops of production. A rank has its turn
// when it has something to look at, when it asked for a turn (wake), and as long as its progress
// finds something; the time that a turn takes is the rank's own.
// Ownership: the Ranks own the world, the cores and what these need.
// Threads: one.
// May touch: core/, simulator/network/, base/.
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
#include "simulator/network/world.h"
#include "simulator/torture/endpoints.h"
#include "stats/trace.h"
#include "unit/core/address_table.h"

namespace adaptib::sim {

struct RanksOptions {
    std::size_t ranks = 2;
    WorldOptions world;
    // Host of each rank; empty: rank i on host i modulo their number.
    std::vector<std::uint32_t> hosts;
    // Endpoints of each process, whose sum is `ranks`; empty: each rank is a process.
    std::vector<std::uint32_t> endpoints;
    bool one_thread = false;     // of each process, which has the turns of all its endpoints
    bool counts_by_host = false; // local ranks count per host, as in a job; else they are the ranks
    Parameters parameters = default_parameters();
    // Changes the parameters of a rank; may be empty.
    std::function<void(std::size_t rank, Parameters&)> parameters_of;
    bool maps_sources = false;    // Core::Environment
    std::size_t trace_events = 0; // that each rank keeps; 0: no traces
    // Registrations are kept after use. The memory that is sent and received stays mapped.
    bool keeps_registrations = false;
    MeasureOptions measure; // Core::Environment
    // Core::Environment: costs of copied and gathered messages; empty: assumed.
    std::function<GatherCosts()> gather_costs;
    std::uint64_t seed = 1;
    // Cost of polling a ring in each pass of progress, whether or not it holds a message. On
    // average a message is found in the middle of a pass.
    Nanoseconds ring_poll{0};
    // Wraps each rank's fabric; may be empty.
    std::function<std::unique_ptr<Fabric>(std::size_t rank, std::unique_ptr<Fabric>)> wrap;
    // The rank's program: called in each of its turns, after progress; completed requests have been
    // reported. May start operations, and wake(rank, when).
    std::function<void(std::size_t rank)> program;
};

class Ranks {
public:
    // Returns null with `text` set if a core cannot start.
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

    // Makes first contact if there was none. Null: the peer cannot be reached.
    Peer* peer(std::size_t from, std::size_t to);
    const Endpoints& endpoints() const { return endpoints_; }
    std::uint64_t name(std::size_t rank) const { return endpoints_.name(rank); }
    // Writes the traces of all ranks. Returns false, and sets errno, if not all could be written.
    // REQUIRES: trace_events > 0.
    bool write_trace(const std::string& path);

    // Gives the rank a turn at `when`, or as soon as it has time.
    void wake(std::size_t rank, Nanoseconds when = Nanoseconds{0});
    // Makes the rank compute for this time from now on: it has no turns, whatever arrives for it.
    void compute(std::size_t rank, Nanoseconds time);
    // With the other endpoints of its process.
    void kill(std::size_t rank);
    bool alive(std::size_t rank) { return !process(rank).dead(); }

    // Runs until the condition, which is checked after each event, is true. Returns false if it is
    // not after `limit` of virtual time, or if nothing more can happen: idle() tells which.
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
        std::vector<Rank*> endpoints; // whose turns are this rank's, with itself; empty: none
        Random random;
        Counters counters;
        std::unique_ptr<Trace> trace; // null: none
        std::vector<std::string> messages;
        std::unique_ptr<Core> core;
        Process* process = nullptr;
        // Of a rank that has turns:
        Nanoseconds away_until{0}; // the rank computes until then
        bool in_turn = false;
        bool again = false;
        std::size_t vain = 0; // passes since the last event
    };
    explicit Ranks(RanksOptions options);
    bool start(std::string& text);
    // The rank that has the turns of this one: of the first endpoint, if there is one thread.
    Rank& thread_of(std::size_t rank) {
        return *ranks_[options_.one_thread ? endpoints_.rank(endpoints_.process(rank), 0) : rank];
    }
    void turn(Rank& rank);
    std::size_t pass(Rank& rank);
    std::size_t pass_of_endpoint(Rank& rank);
    bool computes(const Rank& rank) { return now_of_world() < rank.away_until; }
    bool goes_on(const Rank& rank);
    Nanoseconds sleeps_until(const Rank& rank);
    Nanoseconds now_of_world() { return world_.simulator().now(); }
    bool stir();

    RanksOptions options_;
    Endpoints endpoints_;
    World world_;
    test::AddressTable table_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    bool idle_ = false;
};

} // namespace adaptib::sim
