// SPDX-License-Identifier: BSD-3-Clause
// State shared by the objects of one decorated fabric: the planned faults, the rails that are down,
// the queue pairs that wait.
//
// Ownership: the decorated fabric's; queue pairs enter and leave by themselves.
// Threads: one.
// May touch: base/, fabric/fabric.h, fault.h.
#pragma once

#include <deque>
#include <map>
#include <utility>

#include "base/random.h"
#include "simulator/faults/fault.h"

namespace adaptib::fault {

class FaultQp;

// The end of a Delay.
struct Due {
    std::uint64_t polls = 0;
    Nanoseconds time = Nanoseconds::min();
};

// A process that has computed or slept for so long would otherwise have polled often enough.
constexpr Nanoseconds kPolls{1'000'000};

// The opportunities for faults.
enum class Site : std::uint8_t {
    datagram,
    request,
    completion,
    send,
    receive,
    create_cq,
    create_srq,
    create_qp,
    create_ah,
    register_memory,
    allocate,
    commit,
    modify,
    prepare_path,
    cm_connect,
    handle,
    node,
};
Site site_of(Fault fault);

class Node {
public:
    Node(const FaultPlan& plan, const Clock& clock, FaultLog& log, std::size_t rails, Wake wake)
        : plan_(plan), clock_(clock), log_(log), wake_(std::move(wake)), random_(plan.seed),
          down_(rails), failed_(rails), silent_(rails) {}

    const FaultPlan& plan() const { return plan_; }
    FaultLog& log() { return log_; }
    Random& random() { return random_; }
    Nanoseconds now() const { return clock_.now(); }

    // Returns the fault that takes this opportunity, or null. The caller that injects the fault
    // notes it.
    const PlannedFault* draw(Site site, std::uint32_t rail);
    void note(Fault fault, std::uint32_t rail) { log_.entries.push_back({fault, rail, now()}); }
    // Draws and notes a fault for a call, and returns the status that the call fails with; ok: no
    // fault.
    Status refuse(Site site, std::uint32_t rail);
    // Notes that the node has made the handle, which may be in the place of an earlier one.
    void add_handle(const AddressHandle* handle) { handles_[handle] = now(); }
    // Returns true if the handle leads nowhere (Fault::handles_stale).
    bool is_stale(const AddressHandle* handle, std::uint32_t rail) const;
    // True if some row may still take such an opportunity.
    bool planned(Site site) const;

    // Applies the faults of the whole node whose time has come; returns true if the node is dead.
    bool dead();
    // The same, and gives faults of the node an opportunity.
    bool dead_at_post(std::uint32_t rail);
    bool down(std::uint32_t rail) const { return down_[rail]; }
    bool silent(std::uint32_t rail) const { return silent_[rail]; }
    bool frozen() const { return dead_; }
    bool take_event(Event& out);
    void add_event(const Event& event) {
        events_.push_back(event);
        wake(now());
    }

    Due due(const Delay& delay) const { return {polls_ + delay.polls, now() + delay.time}; }
    bool reached(const Due& due) const {
        return now() >= due.time && (polls_ >= due.polls || now() - due.time >= kPolls);
    }

    void wake(Nanoseconds when) {
        if (wake_) {
            wake_(when);
        }
    }
    void count_poll() { ++polls_; }
    void enter(std::uint32_t rail, std::uint32_t number, FaultQp& qp) {
        qps_[{rail, number}] = &qp;
    }
    void leave(std::uint32_t rail, std::uint32_t number);
    FaultQp* find(std::uint32_t rail, std::uint32_t number) const;
    // Registers a queue pair that has work to do later.
    void wait(std::uint32_t rail, std::uint32_t number, FaultQp& qp) {
        waiting_[{rail, number}] = &qp;
        wake(now());
    }
    void run_waiting();

private:
    using Key = std::pair<std::uint32_t, std::uint32_t>; // rail, number

    struct Row {
        std::uint64_t seen = 0;
        bool spent = false;
        bool announced = false; // a wake-up at its time was requested
    };
    bool takes(const PlannedFault& fault, Row& row, std::uint32_t rail);
    void strike(const PlannedFault& fault, std::uint32_t rail);
    void switch_rail(std::uint32_t rail, Fault how);
    void silence_rail(std::uint32_t rail, bool silent);

    const FaultPlan& plan_;
    const Clock& clock_;
    FaultLog& log_;
    Wake wake_;
    Random random_;
    std::vector<Row> rows_; // one per fault of the plan
    std::vector<bool> down_;
    std::vector<bool> failed_; // down, and nothing can be created or changed there
    std::vector<bool> silent_;
    bool dead_ = false;
    std::uint64_t polls_ = 0;
    std::deque<Event> events_;
    std::map<Key, FaultQp*> qps_;
    std::map<Key, FaultQp*> waiting_;
    std::map<const AddressHandle*, Nanoseconds> handles_; // when each was made; looked up only
};

} // namespace adaptib::fault
