// SPDX-License-Identifier: BSD-3-Clause
// ChannelRanks: ranks that receive by the channels of AQPS, over queue pairs of the simulated fabric.
//
// Purpose: the three channels (DC by send and receive, DC by RDMA into a ring, RC by RDMA into a ring) with their
// pools, rings of 16 entries, credits and switching, under the costs of a machine model; who has which channel is
// decided by the production selection (select/), or on demand as the paper's baselines do. Not the production
// core: its fabrics have no channel over DC.
// A receiver polls its completion queue and its rings, idle ones in turn as the production core does. Messages between two ranks are numbered; what
// arrives by a new channel before the last of the old one waits. So no sender is suspended.
// Threads: one.
// Source: Takagi et al., 3.1 (channels), 3.3 (establishing), 4.3 (programs).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "fabric/sim/world.h"
#include "select/selector.h"
#include "study/study.h"

namespace adaptib::study {

enum class Method : std::uint8_t { dc_on_demand, rc_on_demand, aqps };
enum class Kind : std::uint8_t { shared_sendrecv, shared_ring, connected_ring };

// What a rank does, one after the other.
struct Act {
    enum class What : std::uint8_t { send, await_data, notify, await_notice };
    What what = What::send;
    std::uint32_t peer = 0;   // send, notify
    std::uint32_t number = 0; // messages in all; notices: which one
};
using Acts = std::vector<std::vector<Act>>; // of each rank

struct ChannelOptions {
    sim::MachineModel machine;
    std::uint32_t ranks = 2;
    Method method = Method::aqps;
    std::uint64_t seed = 1;
    std::uint32_t dc_pool = 8;     // queue pairs for all, each an initiator and a target
    Nanoseconds period{1'000'000}; // aqps: between two looks
    ChannelLimits limits;          // h, tau
    ChannelCosts costs;            // table 2
};

class ChannelRanks {
public:
    ChannelRanks(const Study& study, const ChannelOptions& options);
    ~ChannelRanks();

    // Until all ranks are through: how long it took.
    Nanoseconds run(const Acts& acts);

    struct Totals {
        std::array<std::uint64_t, 3> messages{}; // by Kind
        std::array<std::uint64_t, 3> switches{}; // to that kind
        std::uint64_t credits = 0;
        std::uint64_t selections = 0;
        std::uint32_t connected_most = 0; // of one rank
    };
    Totals totals() const;

private:
    struct Node;
    struct Link;
    struct Wire;

    void build();
    void turn(Node& node);
    bool progress(Node& node);
    bool poll_ring(Node& node, Link& in);
    bool act(Node& node);
    bool send(Node& from, std::uint32_t to, std::uint32_t type, std::uint32_t argument);
    void post_shared(Node& from, Node& to, const Wire& message, std::uint32_t queue);
    void post_ring(Node& from, Node& to, Link& link, Wire message);
    void take(Node& at, const Wire& message);
    void deliver(Node& at, const Wire& message);
    void consumed(Node& at, Link& in);
    void want(Node& at, std::uint32_t source, Kind kind);
    bool may_connect(const Node& sender, const Node& receiver) const;
    void on_offer(Node& at, const Wire& message);
    void switch_to(Node& sender, Node& receiver, Link& link, Kind kind);
    void select(Node& at);
    void connect(Node& a, Node& b);
    void must(Status status) const;

    const Study& study_;
    ChannelOptions options_;
    sim::World world_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::size_t busy_ = 0; // ranks that are not through
    Totals totals_;
};

// The paper's programs; `messages` in all, without those of barriers, which follow whenever a rank has received
// more than 128.
Acts one_to_all(std::uint32_t ranks, std::uint64_t messages, std::uint32_t& notices);
Acts all_to_one(std::uint32_t ranks, std::uint64_t messages, std::uint32_t& notices);

} // namespace adaptib::study
