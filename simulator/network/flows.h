// SPDX-License-Identifier: BSD-3-Clause
// Flows: transfers that share links, each with its max-min fair rate.
//
// Purpose: tracks which flows move bytes over which links, at which rate, and when each flow ends.
// Changes of one moment (a flow starts, stops or ends; a link's rate changes) are solved together,
// before time moves on, and only for the flows that they affect. Between changes rates are
// constant. A flow may have a limit of its own (the engine that feeds it).
// Fairness: no flow can get faster without slowing down a flow that is not faster than itself. That
// holds exactly if every flow runs at its limit or has a bottleneck: one of its links that is full
// and on which no flow is faster (Bertsekas, Gallager, Data Networks, 6.5.2).
// Exactness: rates are whole multiples of 2^-22 bytes/s, rounded down. The rest of a flow is
// counted in the amount that such a rate moves in 1 ns, without any rounding, however often the
// rate changes. So
//  - a flow ends at the first whole nanosecond at which its rates have moved all bytes: exactly, if
//    its rates are whole bytes/s, otherwise within the rounding of the rates;
//  - with n flows on its bottleneck, a flow's rate differs from exact sharing by a few times
//    n * 2^-22 bytes/s at most (a link of n flows counts as full with less than n units to spare,
//    and as fastest on it every flow within n units of the fastest);
//  - results are the same on every machine: there is no floating point.
// Cost: a change costs about as much as the flows whose rates it changes: few if each host has one
// flow, hundreds if thousands of flows cross everywhere, because each of those affects all others.
// Ownership: the caller owns the Flow objects, and Flows outlives them. Destroying an active flow
// stops it. A Flow keeps its memory when it has ended: started again, it allocates nothing.
// Threads: one.
// May touch: base/, simulator/network/simulator.h, topology.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/network/simulator.h"
#include "simulator/network/topology.h"

namespace adaptib::sim {

class Flows;

class Flow {
public:
    Flow() = default;
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;
    bool active() const { return flows_ != nullptr; }

protected:
    ~Flow();

private:
    friend class Flows;
    __extension__ using Wide = unsigned __int128;
    struct End final : Event {
        explicit End(Flow& f) : flow(f) {}
        void happen() override;
        Flow& flow;
    };

    struct Place {
        LinkIndex link;
        std::uint32_t slot; // index of the flow among the members of the link
    };

    // Called when the last byte has left; the flow is no longer active. The callee may start it
    // again, or destroy it.
    virtual void on_through() = 0;

    Flows* flows_ = nullptr;
    std::vector<Place> places_;
    Wide left_ = 0;                   // as of settled_; 2^-22 * 10^-9 bytes
    Nanoseconds settled_{0};          // the time that left_ refers to
    std::int64_t rate_ = 0;           // 2^-22 bytes/s
    std::int64_t limit_ = 0;          // 2^-22 bytes/s; 0: none
    LinkIndex bottleneck_ = kNoIndex; // kNoIndex: its limit
    std::uint32_t started_at_ = 0;    // index in Flows::started_; kNoIndex: solved before
    bool chosen_ = false;             // while solving: its rate may change
    bool fixed_ = false;              // it has a rate in this round:
    std::int64_t next_rate_ = 0;
    LinkIndex next_bottleneck_ = kNoIndex;
    End end_{*this};
};

// A flow that is a member of `T` and calls one of its member functions when it is through.
template <class T, void (T::*kFunction)()> class MemberFlow final : public Flow {
public:
    explicit MemberFlow(T& owner) : owner_(owner) {}

private:
    void on_through() override { (owner_.*kFunction)(); }

    T& owner_;
};

class Flows {
public:
    // Rates of links above 2^40 bytes/s count as 2^40 bytes/s.
    Flows(Simulator& simulator, const Topology& topology);
    Flows(const Flows&) = delete;
    Flows& operator=(const Flows&) = delete;

    // `limit`: 0 = none. With neither links nor a limit the flow ends at this moment, by an event.
    // Copies the links. REQUIRES: bytes > 0, no link twice, not active.
    void start(Flow& flow, std::span<const LinkIndex> links, Bytes bytes, BytesPerSecond limit);
    // Returns the bytes that had not left yet, rounded up; 0 if the flow would have ended at this
    // moment. Does not call on_through(). REQUIRES: active.
    Bytes stop(Flow& flow);
    // Rate 0 stops the flows on the link.
    void set_rate(LinkIndex link, BytesPerSecond rate);
    // Returns the rate as of now; first solves any changes of this moment. REQUIRES: active.
    BytesPerSecond rate(const Flow& flow);
    std::size_t active() const { return active_; }
    // Number of rate computations so far, one for each flow in each round: the work that solving
    // took.
    std::uint64_t computed() const { return computed_; }

private:
    friend class Flow;
    struct Member {
        Flow* flow;
        std::uint32_t nth; // index in the flow's places_
    };
    struct LinkState {
        std::int64_t capacity = 0; // 2^-22 bytes/s
        std::int64_t used = 0;     // sum of the members' rates
        std::uint32_t bound = 0;   // members whose bottleneck the link is
        bool changed = false;      // is in changed_
        // In a round of solving:
        bool touched = false;      // is in touched_
        std::uint32_t unfixed = 0; // chosen flows without a rate
        std::uint32_t chosen = 0;  // all chosen flows
        std::uint32_t newly_bound = 0;
        std::int64_t left = 0; // capacity left for those chosen flows
        std::vector<Member> members;
    };
    // A rate at which a link is full, or at which a flow reaches its limit.
    struct Level {
        std::int64_t rate;
        std::uint32_t index; // the link; with kLimit: the flow in chosen_
        static constexpr std::uint32_t kLimit = 1u << 31;

        // std's heaps have the greatest element in front.
        bool operator<(const Level& other) const {
            return rate != other.rate ? rate > other.rate : index > other.index;
        }
    };
    struct Solving final : Event {
        explicit Solving(Flows& f) : flows(f) {}
        void happen() override { flows.solve(); }
        Flows& flows;
    };

    void change(LinkIndex link);
    void settle(Flow& flow);
    void detach(Flow& flow);
    void end(Flow& flow);
    void schedule_end(Flow& flow);

    void solve();
    void choose(Flow& flow);
    void choose_concerned(LinkIndex link);
    void choose_all_connected();
    void prepare_round();
    void compute_round();
    void fix(Flow& flow, std::int64_t rate, LinkIndex bottleneck);
    bool round_holds();
    void check_link(LinkIndex link);
    void apply(Flow& flow);

    Simulator& simulator_;
    std::vector<LinkState> links_;
    std::size_t active_ = 0;
    std::uint64_t computed_ = 0;
    std::vector<LinkIndex> changed_; // links changed since the last solution
    std::vector<Flow*> started_;     // flows started since then; null: stopped again
    Solving solving_{*this};
    // While solving:
    std::vector<Flow*> chosen_;
    std::vector<LinkIndex> touched_;
    std::vector<Level> levels_; // a heap, lowest first
};

} // namespace adaptib::sim
