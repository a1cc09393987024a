// SPDX-License-Identifier: BSD-3-Clause
// SimulatedRanks: the complete cores of a simulated world (sim/ranks.h), as a replay sees ranks.
//
// Purpose: two-sided messages between contiguous buffers, told to a Waiter when they end; and the
// usual worlds in one call.
// Ownership: owns the world below.  Threads: one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/ranks.h"
#include "study/replay.h"

namespace adaptib::study {

class Study;

class SimulatedRanks final : public Ranks {
public:
    // Null with `text` set if a core cannot come up.
    static std::unique_ptr<SimulatedRanks> create(sim::RanksOptions options, std::string& text);

    std::size_t size() const override { return below_->size(); }
    void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data, Bytes bytes,
              Waiter& waiter) override;
    void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data, Bytes bytes,
                 Waiter& waiter) override;
    Nanoseconds now(std::uint32_t rank) const override { return below_->now(rank); }
    bool run_until(const std::function<bool()>& condition) override;

    sim::Ranks& below() { return *below_; }
    // What the cores said to people, and what they refused.
    std::string complaints() const;

private:
    struct Operation {
        UserRequest user{}; // first: the core gives it back
        SimulatedRanks* owner = nullptr;
        Waiter* waiter = nullptr;
    };
    explicit SimulatedRanks(std::unique_ptr<sim::Ranks> below) : below_(std::move(below)) {}
    Operation& take(Waiter& waiter);
    static void completed(UserRequest* user);
    void started(std::uint32_t rank, Operation& operation, Status status, bool complete);

    std::deque<Operation> operations_;
    std::vector<Operation*> free_;
    std::unique_ptr<sim::Ranks> below_; // ends first: the cores hold operations
};

// Routes for `options.world.topology` by OpenSM's usual rules, then create(). Ends up with no ranks
// and `text` if the topology does not connect all.
std::unique_ptr<SimulatedRanks> routed_ranks(sim::RanksOptions options, std::string& text);
// The same; what is wrong ends the study.
std::unique_ptr<SimulatedRanks> routed_ranks(const Study& study, sim::RanksOptions options);

} // namespace adaptib::study
