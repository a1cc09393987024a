// SPDX-License-Identifier: BSD-3-Clause
// Ranks over flows (flow_ranks.h).
#include "simulator/studies/flow_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace adaptib::study {

namespace {

constexpr int kPrecision = 8; // as protocol/transfer.cc

} // namespace

class FlowRanks::Later final : public sim::Event {
public:
    Later(FlowRanks& owner) : owner_(owner) {}
    std::function<void()> what;

private:
    void happen() override {
        const std::function<void()> now = std::move(what);
        owner_.free_.push_back(this);
        now();
    }
    FlowRanks& owner_;
};

class FlowRanks::QueuePair final : public sim::Flow {
public:
    QueuePair(FlowRanks& owner, sim::Path& path) : owner_(owner), path_(path) {}
    sim::Path& path() { return path_; }

    void add(Moving stripe) {
        waiting_.push_back(std::move(stripe));
        if (waiting_.size() == 1) {
            begin();
        }
    }

private:
    void begin() {
        const sim::MachineModel& machine = owner_.options_.machine;
        owner_.after(owner_.simulator_.now() + machine.adapter.work_request, [this] {
            owner_.network_->flows().start(*this, path_.links, waiting_.front().stripe.length,
                                           owner_.options_.machine.adapter.engine_rate);
        });
    }
    void on_through() override {
        const Moving done = std::move(waiting_.front());
        waiting_.pop_front();
        if (!waiting_.empty()) {
            begin();
        }
        FlowRanks& owner = owner_;
        owner.after(owner.simulator_.now() + path_.latency, [&owner, done] { owner.moved(done); });
    }

    FlowRanks& owner_;
    sim::Path& path_;
    std::deque<Moving> waiting_;
};

class FlowRanks::Endless final : public sim::Flow {
public:
    Endless(FlowRanks& owner, sim::Path& path, BytesPerSecond rate)
        : owner_(owner), path_(path), rate_(rate) {
        on_through();
    }

private:
    void on_through() override {
        owner_.network_->flows().start(*this, path_.links, Bytes{1} << 40, rate_);
    }

    FlowRanks& owner_;
    sim::Path& path_;
    BytesPerSecond rate_;
};

// A receiver's state for a sender.
struct FlowRanks::Pair {
    std::unique_ptr<Scheduler> scheduler;
    std::vector<std::unique_ptr<QueuePair>> queue_pairs; // by subchannel
    std::vector<SubchannelStats> subchannel_stats;
    struct Last { // last stripe of a subchannel that ended
        Nanoseconds done{0};
        Nanoseconds late{0};
    };
    std::vector<Last> last;
};

struct FlowRanks::Transfer {
    Key key;
    Message message;
    Receive receive;
    StripePlan plan;
    std::size_t left = 0;
    std::vector<StripeTime> times;
};

FlowRanks::FlowRanks(FlowOptions options) : options_(std::move(options)) {
    network_ = std::make_unique<sim::Network>(
        simulator_, options_.machine, std::move(options_.topology), std::move(options_.routes));
    const auto& hosts = network_->topology().hosts;
    for (std::size_t i = 0; i < options_.ranks; ++i) {
        const std::size_t host = options_.hosts.empty() ? i % hosts.size() : options_.hosts[i];
        ranks_.push_back({hosts[host].ports.front(), {}});
    }
}

FlowRanks::~FlowRanks() = default;

void FlowRanks::after(Nanoseconds when, std::function<void()> what) {
    if (free_.empty()) {
        later_.push_back(std::make_unique<Later>(*this));
        free_.push_back(later_.back().get());
    }
    Later* later = free_.back();
    free_.pop_back();
    later->what = std::move(what);
    simulator_.schedule(*later, when);
}

Nanoseconds FlowRanks::now(std::uint32_t rank) const {
    return std::max(simulator_.now(), ranks_[rank].busy);
}

Nanoseconds FlowRanks::work(std::uint32_t rank, Nanoseconds cost) {
    return ranks_[rank].busy = now(rank) + cost;
}

Nanoseconds FlowRanks::way(std::uint32_t from, std::uint32_t to) {
    const sim::MachineModel& machine = options_.machine;
    const sim::PortIndex target = ranks_[to].first_port;
    const sim::Path* path =
        network_->path(ranks_[from].first_port, network_->topology().ports[target].lid);
    return machine.adapter.doorbell + machine.adapter.work_request + path->latency +
           machine.adapter.receive_work;
}

FlowRanks::Pair& FlowRanks::pair(std::uint32_t receiver, std::uint32_t sender) {
    std::unique_ptr<Pair>& known = pairs_[static_cast<std::uint64_t>(receiver) << 32 | sender];
    if (known != nullptr) {
        return *known;
    }
    known = std::make_unique<Pair>();
    known->scheduler = make_scheduler(options_.scheduler);
    const sim::Topology& topology = network_->topology();
    const auto host_of = [&](std::uint32_t rank) -> const sim::Host& {
        const sim::PortIndex port = ranks_[rank].first_port;
        return topology.hosts[topology.nodes[topology.ports[port].adapter].host];
    };
    const std::vector<sim::PortIndex>& ours = host_of(receiver).ports;
    const std::vector<sim::PortIndex>& theirs = host_of(sender).ports;
    for (std::uint32_t rail = 0; rail < ours.size(); ++rail) {
        for (std::uint32_t k = 0; k < options_.paths; ++k) {
            // Data that is read comes over the path of the responses.
            const sim::Lid lid = topology.ports[ours[rail]].lid + k % (1u << topology.lmc);
            sim::Path& path = *network_->path(theirs[rail], lid);
            SubchannelStats stats;
            stats.index = static_cast<std::uint32_t>(known->subchannel_stats.size());
            stats.port = rail;
            stats.rate = topology.links[topology.ports[ours[rail]].link].rate;
            stats.max_stripe = kGiB;
            known->subchannel_stats.push_back(stats);
            known->last.emplace_back();
            known->queue_pairs.push_back(std::make_unique<QueuePair>(*this, path));
        }
    }
    return *known;
}

Scheduler* FlowRanks::scheduler(std::uint32_t receiver, std::uint32_t sender) {
    const auto known = pairs_.find(static_cast<std::uint64_t>(receiver) << 32 | sender);
    return known == pairs_.end() ? nullptr : known->second->scheduler.get();
}

void FlowRanks::send(std::uint32_t rank, std::uint32_t to, std::int32_t tag, const void* data,
                     Bytes bytes, Waiter& waiter) {
    const bool eager = bytes <= options_.eager_limit;
    Nanoseconds there = work(rank, options_.machine.processor.post) + way(rank, to);
    if (eager) {
        there += time_for(bytes, options_.machine.adapter.port_rate);
    }
    Message message{data, bytes, &waiter, nullptr};
    if (eager) {
        message.copy = std::make_shared<std::byte[]>(std::max<Bytes>(bytes, 1));
        std::memcpy(message.copy.get(), data, bytes);
        message.data = message.copy.get();
        message.waiter = nullptr;
    }
    after(there, [this, key = Key{rank, to, tag}, message] { arrived(key, message); });
    if (eager) {
        waiter.on_end(true);
    }
}

void FlowRanks::arrived(const Key& key, const Message& message) {
    work(std::get<1>(key), options_.machine.processor.poll_completion);
    Queue& queue = queues_[key];
    if (queue.posted.empty()) {
        queue.arrived.push_back(message);
        return;
    }
    const Receive receive = queue.posted.front();
    queue.posted.pop_front();
    match(key, message, receive);
}

void FlowRanks::receive(std::uint32_t rank, std::uint32_t from, std::int32_t tag, void* data,
                        Bytes bytes, Waiter& waiter) {
    const Key key{from, rank, tag};
    Queue& queue = queues_[key];
    const Receive receive{data, bytes, &waiter};
    if (queue.arrived.empty()) {
        queue.posted.push_back(receive);
        return;
    }
    const Message message = queue.arrived.front();
    queue.arrived.pop_front();
    match(key, message, receive);
}

void FlowRanks::match(const Key& key, const Message& message, const Receive& receive) {
    if (message.waiter != nullptr) {
        move(key, message, receive);
        return;
    }
    std::memcpy(receive.data, message.data, std::min(message.bytes, receive.bytes));
    work(std::get<1>(key), time_for(message.bytes, options_.machine.processor.copy_rate));
    receive.waiter->on_end(message.bytes == receive.bytes);
}

void FlowRanks::move(const Key& key, const Message& message, const Receive& receive) {
    const auto [sender, receiver, tag] = key;
    const sim::MachineModel& machine = options_.machine;
    Pair& paths = pair(receiver, sender);
    const auto transfer = std::make_shared<Transfer>();
    transfer->key = key;
    transfer->message = message;
    transfer->receive = receive;
    paths.scheduler->plan({message.bytes, options_.op_kind, Direction::read},
                          paths.subchannel_stats, transfer->plan);
    transfer->left = transfer->plan.size();
    ++transfers_;
    stripes_ += transfer->left;
    for (const Stripe& stripe : transfer->plan) {
        const Nanoseconds posted =
            work(receiver, machine.processor.post + machine.processor.signal);
        const Moving moving{transfer, stripe, posted};
        paths.subchannel_stats[stripe.subchannel].outstanding[0] += stripe.length;
        QueuePair& queue_pair = *paths.queue_pairs[stripe.subchannel];
        const Nanoseconds there = posted + way(receiver, sender) - machine.adapter.work_request;
        after(there, [&queue_pair, moving] { queue_pair.add(moving); });
    }
}

// Called when a stripe has arrived; the rank sees it as soon as it has time.
void FlowRanks::moved(const Moving& stripe) {
    const std::uint32_t receiver = std::get<1>(stripe.transfer->key);
    const Nanoseconds arrived = simulator_.now() + options_.machine.adapter.receive_work;
    const Nanoseconds seen =
        std::max(arrived, ranks_[receiver].busy) + options_.machine.processor.poll_completion;
    ranks_[receiver].busy = seen;
    after(seen, [this, stripe, arrived] { take(stripe, arrived); });
}

void FlowRanks::take(const Moving& moving, Nanoseconds arrived) {
    Transfer& transfer = *moving.transfer;
    const auto [sender, receiver, tag] = transfer.key;
    Pair& paths = pair(receiver, sender);
    paths.subchannel_stats[moving.stripe.subchannel].outstanding[0] -= moving.stripe.length;
    const Nanoseconds seen = simulator_.now();
    const Nanoseconds late = seen - arrived;
    Pair::Last& last = paths.last[moving.stripe.subchannel];
    const bool queued = last.done > moving.posted;
    const Nanoseconds taken = seen - (queued ? last.done : moving.posted);
    const Nanoseconds unknown = late + (queued ? last.late : Nanoseconds{0});
    last = {seen, late};
    if (taken > Nanoseconds{0} && unknown <= taken / kPrecision) {
        transfer.times.push_back({moving.stripe.subchannel, moving.stripe.length,
                                  std::chrono::duration<double>(taken).count()});
    }
    if (--transfer.left > 0) {
        return;
    }
    if (!transfer.times.empty()) {
        paths.scheduler->learn(Mix::reads, transfer.times);
    }
    const std::shared_ptr<Transfer> whole = moving.transfer;
    const bool good = transfer.message.bytes == transfer.receive.bytes;
    if (good) {
        std::memcpy(transfer.receive.data, transfer.message.data, transfer.message.bytes);
    }
    const Nanoseconds told =
        work(receiver, options_.machine.processor.post) + way(receiver, sender);
    after(told, [this, whole, good] {
        work(std::get<0>(whole->key), options_.machine.processor.poll_completion);
        whole->message.waiter->on_end(good);
    });
    transfer.receive.waiter->on_end(good);
}

bool FlowRanks::run_until(const std::function<bool()>& condition) {
    constexpr Nanoseconds kLimit = std::chrono::hours{1};
    const Nanoseconds begin = simulator_.now();
    while (!condition()) {
        if (!simulator_.step() || simulator_.now() - begin > kLimit) {
            return false;
        }
    }
    return true;
}

void FlowRanks::load(std::uint32_t from_host, std::uint32_t to_host, std::uint32_t path,
                     BytesPerSecond rate) {
    const sim::Topology& topology = network_->topology();
    const sim::PortIndex target = topology.hosts[to_host].ports.front();
    sim::Path& way =
        *network_->path(topology.hosts[from_host].ports.front(), topology.ports[target].lid + path);
    background_.push_back(std::make_unique<Endless>(*this, way, rate));
}

void FlowRanks::unload() { background_.clear(); }

} // namespace adaptib::study
