// SPDX-License-Identifier: BSD-3-Clause
// Simulator: virtual time and the queue of events.
//
// Purpose: the one clock and the one queue of events of a simulated world. An event is an object
// that its owner keeps and schedules. Events of equal times are ordered by the sequence in which
// they were scheduled, so that a world does the same every time, on any machine, compiler or
// address space.
// Ownership: the owner of an event keeps it alive while it is scheduled; destroying it cancels it.
// The simulator outlives its events.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/units.h"

namespace adaptib::sim {

class Simulator;

class Event {
public:
    Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    bool scheduled() const { return slot_ != kNone; }
    // REQUIRES: scheduled().
    Nanoseconds when() const { return when_; }

protected:
    ~Event();

private:
    friend class Simulator;
    static constexpr std::size_t kNone = ~std::size_t{0};

    // Called at the event's time; the event is no longer scheduled and may be scheduled again.
    virtual void happen() = 0;

    Simulator* simulator_ = nullptr;
    std::size_t slot_ = kNone; // in the heap
    Nanoseconds when_{0};
};

class Simulator final : public Clock {
public:
    Simulator() = default;
    Simulator(const Simulator&) = delete;
    Simulator& operator=(const Simulator&) = delete;

    Nanoseconds now() const override { return now_; }
    // An event that is scheduled already moves, with a new place among equal times. A time in the
    // past means now.
    void schedule(Event& event, Nanoseconds when);
    void cancel(Event& event);

    bool idle() const { return heap_.empty(); }
    // REQUIRES: not idle().
    Nanoseconds next() const { return heap_.front().when; }
    // Runs the next event; returns false if there is none.
    bool step();
    // Moves time on without an event. REQUIRES: no event is scheduled before `when`.
    void advance(Nanoseconds when) { now_ = when > now_ ? when : now_; }
    std::uint64_t happened() const { return happened_; }

private:
    struct Entry {
        Nanoseconds when;
        std::uint64_t sequence;
        Event* event;

        bool before(const Entry& other) const {
            return when != other.when ? when < other.when : sequence < other.sequence;
        }
    };
    void place(std::size_t slot, const Entry& entry) {
        heap_[slot] = entry;
        entry.event->slot_ = slot;
    }
    void sift_up(std::size_t slot, Entry entry);
    void sift_down(std::size_t slot, Entry entry);
    void remove(std::size_t slot);

    Nanoseconds now_{0};
    std::uint64_t sequence_ = 0;
    std::uint64_t happened_ = 0;
    std::vector<Entry> heap_; // four children per entry
};

inline Event::~Event() {
    if (scheduled()) {
        simulator_->cancel(*this);
    }
}

} // namespace adaptib::sim
