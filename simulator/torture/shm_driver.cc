// SPDX-License-Identifier: BSD-3-Clause
// Cores over shared memory in one process (simulator/torture/shm_driver.h).
#include "simulator/torture/shm_driver.h"

#include <algorithm>
#include <numeric>

#include "fabric/shm/shm_fabric.h"
#include "simulator/faults/fault.h"
#include "unit/core/address_table.h"

namespace adaptib::torture {

namespace {

class ShmDriver final : public Driver {
public:
    explicit ShmDriver(const Program& program)
        : random_(program.schedule), endpoints_(program.ranks, program.endpoints) {}

    bool open(const Program& program, std::string& problem) {
        for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
            nodes_.push_back(std::make_unique<Node>(random_.next()));
            if (!open_node(program, rank, program.parameters(rank), problem)) {
                return false;
            }
        }
        for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
            core(rank).startup().begin(endpoints_.process(rank),
                                       static_cast<std::uint32_t>(endpoints_.processes()),
                                       endpoints_.count(endpoints_.process(rank)));
        }
        // Some ranks have a turn more often than others.
        for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
            const std::uint64_t share = random_.below(4) == 0 ? 1 : 1 + random_.below(4);
            turns_.insert(turns_.end(), share, rank);
        }
        return true;
    }

    std::uint32_t ranks() const override { return static_cast<std::uint32_t>(nodes_.size()); }
    Core& core(std::uint32_t rank) override { return *nodes_[rank]->core; }
    Counters& counters(std::uint32_t rank) override { return nodes_[rank]->counters; }
    const sim::Endpoints& endpoints() const override { return endpoints_; }
    // Leaves out expected messages: while a rank computes, a few turns are seconds, so that queue
    // pairs do not connect in time, and are made again later; with bounded memory there may be no
    // room for a ring.
    std::vector<std::string> messages() override {
        std::vector<std::string> all;
        for (const std::string& text : messages_) {
            const bool expected =
                (cm_connects_ && (text.find(" was made anew over ") != std::string::npos ||
                                  text.find(" has not come up for ") != std::string::npos)) ||
                (bounded_ && text.find("There is no room for another ring") != std::string::npos);
            if (!expected) {
                all.push_back(text);
            }
        }
        return all;
    }
    std::uint64_t faults() const override {
        return std::accumulate(
            nodes_.begin(), nodes_.end(), std::uint64_t{0},
            [](std::uint64_t sum, const auto& node) { return sum + node->log.entries.size(); });
    }
    void wake(std::uint32_t, std::uint64_t) override {} // all ranks have turns all the time
    void compute(std::uint32_t rank, std::uint64_t ticks) override {
        Node& node = *nodes_[rank];
        if (ticks < kLong) { // as many turns
            node.pause = ticks;
            return;
        }
        const Nanoseconds time = kTickOfPrograms * ticks;
        node.away_until = clock_.now() + time;
        node.pace = time / kTurnsMeanwhile;
    }

    bool run(const std::function<bool()>& done) override {
        while (!done()) {
            const std::uint32_t rank = next();
            Node& node = *nodes_[rank];
            if (clock_.now() < node.away_until) {
                continue;
            }
            if (node.pause > 0) {
                --node.pause;
                continue;
            }
            if (random_.below(4) != 0) {
                progress(rank);
            }
            turn(rank);
        }
        return true;
    }
    void settle() override {
        constexpr int kIdleRounds = 300; // by then the cores have done their occasional work
        for (int idle = 0; idle < kIdleRounds; ++idle) {
            for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
                // Failed attempts to connect are repeated after milliseconds.
                clock_.advance(nodes_[rank]->plan.cm_connects ? 10 * kTick : kTick);
                if (progress(rank) > 0) {
                    idle = 0;
                }
            }
        }
    }

private:
    struct Node {
        explicit Node(std::uint64_t seed) : random(seed) {}

        Counters counters;
        Random random;
        fault::FaultPlan plan;
        fault::FaultLog log;
        std::unique_ptr<Core> core;
        std::uint64_t pause = 0;   // turns
        Nanoseconds away_until{0}; // it computes for long, until then
        Nanoseconds pace{0};       // speed of time meanwhile
    };

    static constexpr Nanoseconds kTick{1000};
    static constexpr Nanoseconds kTickOfPrograms{200}; // as in sim_driver.cc
    static constexpr std::uint64_t kLong = 1'000'000;  // in ticks of programs
    static constexpr std::int64_t kTurnsMeanwhile = 3000;

    // Speeds time up while a rank computes for long, so that the others have a few thousand turns.
    Nanoseconds tick() const {
        Nanoseconds longest = kTick;
        for (const auto& node : nodes_) {
            if (clock_.now() < node->away_until) {
                longest = std::max(longest, node->pace);
            }
        }
        return longest;
    }

    // Gives a rank several turns in a row now and then.
    std::uint32_t next() {
        clock_.advance(tick());
        if (row_ == 0) {
            last_ = turns_[random_.below(turns_.size())];
            row_ = random_.below(4) == 0 ? random_.below(40) : 0;
        } else {
            --row_;
        }
        return last_;
    }

    bool open_node(const Program& program, std::uint32_t rank, const Parameters& parameters,
                   std::string& problem) {
        Node& node = *nodes_[rank];
        ShmOptions shm;
        shm.rails = static_cast<std::uint32_t>(parameters.shm_rails);
        shm.queue_bytes = parameters.shm_queue_bytes;
        shm.segment_max = parameters.shm_segment_max;
        if (parameters.shm_memory != 0) {
            shm.memory_max = parameters.shm_memory;
            bounded_ = true;
        }
        shm.single_copy = std::string(parameters.shm_single_copy) == "none"
                              ? ShmOptions::SingleCopy::none
                              : ShmOptions::SingleCopy::automatic;
        shm.clock = &clock_;
        std::unique_ptr<Fabric> fabric;
        if (!open_shm_fabric(shm, fabric, problem).ok()) {
            return false;
        }
        if (!program.faults.empty()) {
            node.plan = fault_plan(program, rank);
            cm_connects_ = node.plan.cm_connects;
            fabric = fault::with_faults(std::move(fabric), node.plan, clock_, node.log);
        }
        Core::Environment environment;
        environment.self = endpoints_.name(rank);
        environment.local_rank = static_cast<std::uint32_t>(rank);
        environment.host = "host";
        environment.bootstrap = &table_;
        environment.clock = &clock_;
        environment.random = &node.random;
        environment.watch_memory = [] { return true; };
        environment.counters = &node.counters;
        environment.message = [this, rank](Severity, const std::string& text) {
            messages_.push_back("rank " + std::to_string(rank) + ": " + text);
        };
        if (!Core::create(parameters, environment, std::move(fabric), node.core, problem).ok()) {
            return false;
        }
        table_.blobs[endpoints_.name(rank)] = node.core->address();
        return true;
    }

    Random random_;
    sim::Endpoints endpoints_;
    ManualClock clock_;
    test::AddressTable table_;
    std::vector<std::string> messages_;
    bool bounded_ = false; // memory for rings is bounded
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::uint32_t> turns_;
    std::uint32_t last_ = 0;
    std::uint64_t row_ = 0;
    bool cm_connects_ = false;
};

} // namespace

std::unique_ptr<Driver> open_shm(const Program& program, std::string& problem) {
    auto driver = std::make_unique<ShmDriver>(program);
    return driver->open(program, problem) ? std::move(driver) : nullptr;
}

} // namespace adaptib::torture
