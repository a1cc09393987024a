// SPDX-License-Identifier: BSD-3-Clause
// Process: the processor of one simulated rank.
//
// Purpose: what the rank does takes time: posting, polling, copying. Within one turn the rank's own time
// runs ahead of the world's; its next turn begins when both agree. It is also the rank's Clock.
// Ownership: the World's.  Threads: one.
// May touch: base/, fabric/sim/simulator.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "fabric/sim/simulator.h"

namespace adaptib::sim {

// Told when there is something for a rank to look at: a completion, an event, memory that changed, room
// in a queue that was full.
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
    // It has had nothing to do until now, or since.
    bool idle() const { return busy_until_ <= simulator_.now(); }
    void charge(Nanoseconds cost) { busy_until_ = now() + cost; }
    // To be paid at the beginning of its next turn: what has landed has to be looked at and copied.
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

    // Completions and events that it has not taken yet.
    void add_unseen() {
        ++unseen_;
        wake();
    }
    void seen(std::size_t count) { unseen_ -= count; }
    std::size_t unseen() const { return unseen_; }

    // A process that has died: nothing reaches it, nothing comes from it.
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
