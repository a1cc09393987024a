// SPDX-License-Identifier: BSD-3-Clause
// Process: the processor of one simulated rank.
//
// Purpose: charges the rank for its work: posting, polling, copying. Within one turn the rank's own
// time runs ahead of the world's; its next turn begins when both agree. A Process is also the
// rank's Clock.
// Ownership: the World's.  Threads: one.
// May touch: base/, simulator/network/simulator.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "simulator/network/simulator.h"

namespace adaptib::sim {

// Notified when a rank has something to look at: a completion, an event, changed memory, or room in
// a queue that was full.
class Activity {
public:
    virtual void on_activity() = 0;

protected:
    ~Activity() = default;
};

class Process final : public Clock {
public:
    Process(const Simulator& simulator, std::uint32_t host) : simulator_(simulator), host_(host) {}

    Nanoseconds now() const override { return std::max(simulator_.now(), busy_until_); }
    std::uint32_t host() const { return host_; }
    // True if all work of the rank is done at the present time of the world.
    bool idle() const { return busy_until_ <= simulator_.now(); }
    void charge(Nanoseconds cost) { busy_until_ = now() + cost; }
    // Adds a cost that the rank pays at the beginning of its next turn, to look at and copy data
    // that has landed.
    void owe(Nanoseconds cost) { owed_ += cost; }
    void begin_turn() {
        charge(owed_);
        owed_ = Nanoseconds{0};
    }

    void watch(Activity* activity) { activity_ = activity; }
    void wake() {
        if (activity_ != nullptr) {
            activity_->on_activity();
        }
    }

    // Completions and events that the rank has not taken yet.
    void add_unseen() {
        ++unseen_;
        wake();
    }
    void seen(std::size_t count) { unseen_ -= count; }
    std::size_t unseen() const { return unseen_; }

    // A dead process sends and receives nothing.
    bool dead() const { return dead_; }
    void die() { dead_ = true; }

private:
    const Simulator& simulator_;
    std::uint32_t host_;
    Nanoseconds busy_until_{0};
    Nanoseconds owed_{0};
    Activity* activity_ = nullptr;
    bool dead_ = false;
    std::size_t unseen_ = 0;
};

} // namespace adaptib::sim
