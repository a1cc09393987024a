// SPDX-License-Identifier: BSD-3-Clause
// SimulatedRanks: the complete cores of a simulated world (simulator/torture/ranks.h) as ranks of a
// replay.
//
// Purpose: sends two-sided messages between contiguous buffers and reports their end to a Waiter;
// makes the usual worlds in one call.
// Ownership: owns the world below.  Threads: one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "simulator/studies/replay.h"
#include "simulator/torture/ranks.h"

namespace adaptib::study {

class Study;

class SimulatedRanks final : public Ranks {
public:
    // Returns null with `text` set if a core cannot start.
    static std::unique_ptr<SimulatedRanks> create(sim::RanksOptions options, std::string& text);

    std::size_t size() const override { return below_->size(); }
    void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data, Bytes bytes,
              Waiter& waiter) override;
    void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data, Bytes bytes,
                 Waiter& waiter) override;
    Nanoseconds now(std::uint32_t rank) const override { return below_->now(rank); }
    bool run_until(const std::function<bool()>& condition) override;

    sim::Ranks& below() { return *below_; }
    // The messages of all cores to the user.
    std::string complaints() const;

private:
    struct Operation {
        UserRequest user{}; // first member: the core returns a pointer to it
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

// Computes routes for `options.world.topology` as OpenSM does by default, then calls create().
// Returns null with `text` set if the topology does not connect all ports.
std::unique_ptr<SimulatedRanks> routed_ranks(sim::RanksOptions options, std::string& text);
// The same; an error ends the study.
std::unique_ptr<SimulatedRanks> routed_ranks(const Study& study, sim::RanksOptions options);

} // namespace adaptib::study
