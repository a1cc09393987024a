// SPDX-License-Identifier: BSD-3-Clause
// Flows: transfers that share links, each with its max-min fair rate.
//
// Purpose: who is moving bytes over which links, how fast, and when each is through. Changes of one
// moment (flows start, stop, end; a link's rate changes) are solved together, before time moves on, and
// only for the flows that they concern. Between changes rates are constant. A flow may have a limit of
// its own (the engine that feeds it).
// Fairness: no flow can be faster without making one slower that is not faster. That is so exactly if
// every flow has its limit or a bottleneck: a link of its own that is full, where nobody is faster
// (Bertsekas, Gallager, Data Networks, 6.5.2).
// Exactness: rates are whole multiples of 2^-22 bytes/s, rounded down, and what is left of a flow is
// counted in what such a rate moves in 1 ns, without any rounding, however often the rate changes. So
//  - a flow is through at the first whole nanosecond at which its rates have moved all bytes: exactly, if
//    its rates are whole bytes/s, and within the rounding of the rates else;
//  - with n flows on its bottleneck, its rate is that of exact sharing but for a few times n * 2^-22 bytes/s
//    (full is a link of n flows with less than n units to spare, and nobody faster is within n units);
//  - results are the same on every machine: there is no floating point.
// Cost: a change costs about as much as the flows whose rates it changes; few if hosts have a flow each,
//   hundreds if thousands of flows cross everywhere, for then each concerns all.
// Ownership: the caller's Flow objects, which Flows outlives; one that is destroyed is stopped. A Flow
//   keeps its memory when it is over: used again, it allocates nothing.
// Threads: one.
// May touch: base/, fabric/sim/simulator.h, topology.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/sim/simulator.h"
#include "fabric/sim/topology.h"

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
        std::uint32_t slot; // its own among the members of the link
    };

    // The last byte has left; the flow is not active any more. Here it may be started again, or destroyed.
    virtual void on_through() = 0;

    Flows* flows_ = nullptr;
    std::vector<Place> places_;
    Wide left_ = 0;                   // as of settled_; 2^-22 * 10^-9 bytes
    Nanoseconds settled_{0};          //
    std::int64_t rate_ = 0;           // 2^-22 bytes/s
    std::int64_t limit_ = 0;          // the same; 0: none
    LinkIndex bottleneck_ = kNoIndex; // kNoIndex: its limit
    std::uint32_t started_at_ = 0;    // kNoIndex: solved before; else in Flows::started_
    bool chosen_ = false;             // while solving: it may change
    bool fixed_ = false;              // it has its rate of this round:
    std::int64_t next_rate_ = 0;      //
    LinkIndex next_bottleneck_ = kNoIndex;
    End end_{*this};
};

class Flows {
public:
    // Links may not be faster than 2^40 bytes/s; what is faster counts as that.
    Flows(Simulator& simulator, const Topology& topology);
    Flows(const Flows&) = delete;
    Flows& operator=(const Flows&) = delete;

    // `limit`: 0 = none. Neither links nor a limit: it is through at this moment, by an event. The links are
    // copied. REQUIRES: bytes > 0, no link twice, not active.
    void start(Flow& flow, std::span<const LinkIndex> links, Bytes bytes, BytesPerSecond limit);
    // Bytes that had not left yet, rounded up; 0 if the flow would have been through at this moment.
    // There is no on_through(). REQUIRES: active.
    Bytes stop(Flow& flow);
    // 0 stops what is on it.
    void set_rate(LinkIndex link, BytesPerSecond rate);
    // Solves what has changed at this moment, if anything; rates are as of now. REQUIRES: active.
    BytesPerSecond rate(const Flow& flow);
    std::size_t active() const { return active_; }
    // Flows whose rate was computed so far, each time it was: the work that solving was.
    std::uint64_t computed() const { return computed_; }

private:
    friend class Flow;
    struct Member {
        Flow* flow;
        std::uint32_t nth; // of its places
    };
    struct LinkState {
        std::int64_t capacity = 0; // 2^-22 bytes/s
        std::int64_t used = 0;     // sum of the members' rates
        std::uint32_t bound = 0;   // members whose bottleneck it is
        bool changed = false;      // is in changed_
        // In a round of solving:
        bool touched = false;      // is in touched_
        std::uint32_t unfixed = 0; // chosen flows without a rate
        std::uint32_t chosen = 0;  // all chosen flows
        std::uint32_t newly_bound = 0;
        std::int64_t left = 0; // of the capacity, for those
        std::vector<Member> members;
    };
    // A rate at which a link is full, or a flow has its limit.
    struct Level {
        std::int64_t rate;
        std::uint32_t index; // of the link; of the flow in chosen_, with kLimit
        static constexpr std::uint32_t kLimit = 1u << 31;

        // std's heaps have the greatest in front.
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
    std::vector<LinkIndex> changed_; // links, since the last solution
    std::vector<Flow*> started_;     // flows, since then; null: stopped again
    Solving solving_{*this};
    // While solving:
    std::vector<Flow*> chosen_;
    std::vector<LinkIndex> touched_;
    std::vector<Level> levels_; // a heap, lowest first
};

} // namespace adaptib::sim
