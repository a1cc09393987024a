// SPDX-License-Identifier: BSD-3-Clause
// FlowRanks: ranks for a replay, with the production scheduler over flows instead of complete
// cores.
//
// Purpose: simulates many ranks with many paths each, in seconds. A message above the eager limit
// follows the rendezvous by RDMA read: the sender announces it (RTS), the receiver matches it and
// its Scheduler for that sender plans it, the receiver posts the stripes one after another, and
// flows over the network's links move them; the times of the stripes go back to the scheduler. Of
// the rest of a core only the parts that take time are modeled, by the same machine models:
//   a rank's processor does one thing at a time (post, signal, poll_completion);
//   a request, an RTS and the final message after a read (FIN) take doorbell, work_request, the
//   path's latency and receive_work; bytes of small messages go at the port's rate and do not slow
//   flows down;
//   a queue pair (one for each path of a pair) moves one stripe after another, as fast as an
//   engine.
// The scheduler does not learn from completions that are seen late, as in protocol/transfer.cc.
// test/unit/study/flow_ranks_test.cc compares times with those of complete cores.
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

#include "schedule/scheduler.h"
#include "simulator/network/machine.h"
#include "simulator/network/network.h"
#include "simulator/studies/replay.h"

namespace adaptib::study {

struct FlowOptions {
    std::size_t ranks = 2;
    // Host of each rank; empty: rank i on host i modulo their number.
    std::vector<std::uint32_t> hosts;
    sim::MachineModel machine;
    sim::Topology topology; // with LIDs
    sim::Routes routes;
    std::uint32_t paths = 1; // to a peer, from each port: path k goes to base LID + k modulo 2^lmc
    SchedulerOptions scheduler;
    Bytes eager_limit = 4096;
    OpKind op_kind = OpKind::collective;
};

class FlowRanks final : public Ranks {
public:
    // REQUIRES: existing policies, a host for each rank, the same number of ports on all hosts.
    explicit FlowRanks(FlowOptions options);
    ~FlowRanks() override;

    std::size_t size() const override { return ranks_.size(); }
    void send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data, Bytes bytes,
              Waiter& waiter) override;
    void receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data, Bytes bytes,
                 Waiter& waiter) override;
    Nanoseconds now(std::uint32_t rank) const override;
    bool run_until(const std::function<bool()>& condition) override;

    // Adds traffic of other jobs: an endless flow from one host's first port over a path to another
    // host. `rate` limits it; 0: only its links do.
    void load(std::uint32_t from_host, std::uint32_t to_host, std::uint32_t path,
              BytesPerSecond rate);
    void unload(); // ends all such flows

    sim::Network& network() { return *network_; }
    sim::Simulator& simulator() { return simulator_; }
    // The receiver's scheduler for that sender; null: no large message has come yet.
    Scheduler* scheduler(std::uint32_t receiver, std::uint32_t sender);
    std::uint64_t stripes() const { return stripes_; }
    std::uint64_t transfers() const { return transfers_; }

private:
    struct Rank {
        sim::PortIndex first_port = 0;
        Nanoseconds busy{0};
    };
    struct Transfer;
    struct Moving { // a stripe under way
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
        Waiter* waiter = nullptr;          // the sender's; null: the send has ended
        std::shared_ptr<std::byte[]> copy; // then holds data
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
    // Occupies the rank's processor for `cost`, as soon as it is free; returns the time at which it
    // is done.
    Nanoseconds work(std::uint32_t rank, Nanoseconds cost);
    Nanoseconds way(std::uint32_t from, std::uint32_t to); // time of a message without bytes
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
