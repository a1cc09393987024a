// SPDX-License-Identifier: BSD-3-Clause
// FlowRanks: ranks as a replay sees them, with the production scheduler over flows instead of complete cores.
//
// Purpose: many ranks with many paths each, in seconds. A message above the eager limit goes as a rendezvous
// by reading does: announced, matched, planned by the receiver's Scheduler for that sender, its stripes posted
// one after another and moved as flows over the network's links; the times of its stripes go back to the
// scheduler. Of the rest of a core only what takes time is there, by the same machine models:
//   a rank's processor does one thing at a time (post, signal, poll_completion);
//   the way of a request, of an announcement and of the word that all is read: doorbell, work_request, the
//   path's latency, receive_work; bytes of small messages at the port's rate; they do not slow flows down;
//   a queue pair (one for each path of a pair) moves one stripe after another, as fast as an engine.
// What is late to be seen is not learnt from, as in protocol/move.cc. test/unit/study/flow_ranks_test.cc
// compares times with those of complete cores.
// Ownership: owns its world.  Threads: one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fabric/sim/machine.h"
#include "fabric/sim/network.h"
#include "schedule/scheduler.h"
#include "study/replay.h"

namespace adaptib::study {

struct FlowOptions {
    std::size_t ranks = 2;
    std::vector<std::uint32_t> hosts; // of each rank; empty: rank i on host i modulo their number
    sim::MachineModel machine;
    sim::Topology topology; // with LIDs
    sim::Routes routes;
    std::uint32_t paths =
        1; // to a peer, from each port: path k goes to its base LID + k modulo 2^lmc
    SchedulerOptions scheduler;
    Bytes eager_limit = 4096;
    Marker marker = Marker::collective;
};

class FlowRanks final : public Ranks {
public:
    // REQUIRES: policies that exist, a host for each rank, all hosts with as many ports.
    explicit FlowRanks(FlowOptions options);
    ~FlowRanks() override;

    std::size_t size() const override { return ranks_.size(); }
    void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data, Bytes bytes,
              Waiter& waiter) override;
    void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data, Bytes bytes,
                 Waiter& waiter) override;
    Nanoseconds now(std::uint32_t rank) const override;
    bool run_until(const std::function<bool()>& condition) override;

    // Traffic of others: a flow without end from one host's first port to another's path. Limited to
    // `rate`; 0: by its links alone.
    void load(std::uint32_t from_host, std::uint32_t to_host, std::uint32_t path,
              BytesPerSecond rate);
    void unload(); // ends all of it

    sim::Network& network() { return *network_; }
    sim::Simulator& simulator() { return simulator_; }
    // How the receiver sees the sender; null: nothing large has come yet.
    Scheduler* scheduler(std::uint32_t receiver, std::uint32_t sender);
    std::uint64_t stripes() const { return stripes_; }
    std::uint64_t transfers() const { return transfers_; }

private:
    struct Rank {
        sim::PortIndex first_port = 0;
        Nanoseconds busy{0};
    };
    struct Transfer;
    struct Moving { // a stripe
        std::shared_ptr<Transfer> transfer;
        Stripe stripe;
        Nanoseconds posted{0};
    };
    class QueuePair;
    class Endless;
    class Later;
    struct Pair;
    struct Message {
        const void* data = nullptr;
        Bytes bytes = 0;
        Waiter* waiter = nullptr;          // the sender's; null: it has ended
        std::shared_ptr<std::byte[]> copy; // then data is in it
    };
    struct Receive {
        void* data = nullptr;
        Bytes bytes = 0;
        Waiter* waiter = nullptr;
    };
    using Key = std::tuple<std::uint32_t, std::uint32_t, std::int32_t>; // from, to, tag
    struct Queue {
        std::deque<Message> arrived;
        std::deque<Receive> posted;
    };

    void after(Nanoseconds when, std::function<void()> what);
    // When the rank's processor is through with something that takes so long and can begin now.
    Nanoseconds work(std::uint32_t rank, Nanoseconds cost);
    Nanoseconds way(std::uint32_t from, std::uint32_t to); // of a message without bytes
    Pair& pair(std::uint32_t receiver, std::uint32_t sender);
    void arrived(const Key& key, const Message& message);
    void match(const Key& key, const Message& message, const Receive& receive);
    void move(const Key& key, const Message& message, const Receive& receive);
    void moved(const Moving& stripe);
    void take(const Moving& stripe, Nanoseconds arrived);

    FlowOptions options_;
    sim::Simulator simulator_;
    std::unique_ptr<sim::Network> network_;
    std::vector<Rank> ranks_;
    std::map<Key, Queue> queues_;
    std::map<std::uint64_t, std::unique_ptr<Pair>> pairs_; // by receiver and sender
    std::vector<std::unique_ptr<Endless>> background_;
    std::vector<std::unique_ptr<Later>> later_;
    std::vector<Later*> free_;
    std::uint64_t stripes_ = 0;
    std::uint64_t transfers_ = 0;
};

} // namespace adaptib::study
