// SPDX-License-Identifier: BSD-3-Clause
// Exact times in small worlds. The machine has round costs: a post 100 ns, then 200 ns until
// the adapter has it, 50 ns there; 30 ns at the target, 70 ns until its acknowledgment leaves.
// Links move a byte per nanosecond. Two hosts at one switch are 10 + 100 + 10 = 120 ns apart
// (cable, switch, cable).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "simulator/network/world.h"

namespace adaptib::sim {
namespace {

using std::chrono::nanoseconds;

MachineModel round_machine() {
    MachineModel m;
    m.name = "round";
    m.processor.post = nanoseconds{100};
    m.adapter.doorbell = nanoseconds{200};
    m.adapter.work_request = nanoseconds{50};
    m.adapter.receive_work = nanoseconds{30};
    m.adapter.ack = nanoseconds{70};
    m.adapter.port_rate = {1'000'000'000};
    m.wire.cable = nanoseconds{10};
    m.wire.switch_latency = nanoseconds{100};
    m.limits.mtu = 4096;
    m.limits.inline_bytes = 64;
    m.limits.max_gather = 4;
    m.limits.max_reads = 4;
    m.limits.max_send_depth = 256;
    m.offers.dc = true;
    m.dc.connect = nanoseconds{5'000};
    m.dc.disconnect = nanoseconds{3'000};
    m.dc.nack_backoff = nanoseconds{10'000};
    m.dc.responders = 1;
    m.offers.migration = true;
    m.path_migration.migrate = nanoseconds{7'000};
    m.path_migration.load_alternate = nanoseconds{9'000};
    return m;
}

constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

// A process with one queue of completions and one block of memory for each of its rails.
struct Node {
    World::Attached at;
    std::vector<std::unique_ptr<CompletionQueue>> cqs;
    std::vector<std::unique_ptr<MemoryRegion>> memory;
    std::vector<std::unique_ptr<QueuePair>> qps;
    std::vector<std::unique_ptr<AddressHandle>> handles;
    std::vector<std::unique_ptr<SharedReceiveQueue>> srqs;

    Rail& rail(std::size_t i = 0) { return *at.fabric->rails()[i]; }
    ~Node() {
        qps.clear();
        srqs.clear();
        cqs.clear();
        handles.clear();
        memory.clear();
    }
};

class Timing : public testing::Test {
protected:
    static constexpr Bytes kMemory = 4 * kMiB;

    void build(const MachineModel& machine, Topology topology, std::size_t processes) {
        WorldOptions options;
        options.machine = machine;
        options.topology = std::move(topology);
        std::string text;
        ASSERT_TRUE(Routes::compute(options.topology, options.routes, text)) << text;
        world = std::make_unique<World>(std::move(options));
        for (std::uint32_t i = 0; i < processes; ++i) {
            nodes.push_back(std::make_unique<Node>());
            Node& node = *nodes.back();
            node.at = world->attach(i);
            for (const std::unique_ptr<Rail>& rail : node.at.fabric->rails()) {
                ASSERT_TRUE(rail->create_cq(1024, node.cqs.emplace_back()).ok());
                ASSERT_TRUE(rail->allocate(kMemory, kAll, node.memory.emplace_back()).ok());
            }
        }
    }
    void TearDown() override {
        nodes.clear();
        world.reset();
    }

    QueuePair& make(std::size_t node, QpType type, std::size_t rail = 0,
                    SharedReceiveQueue* srq = nullptr) {
        Node& n = *nodes[node];
        QpInit init;
        init.type = type;
        init.send_cq = init.receive_cq = n.cqs[rail].get();
        init.send_depth = init.receive_depth = 64;
        init.max_gather = 2;
        init.inline_bytes = 64;
        init.srq = srq;
        EXPECT_TRUE(n.rail(rail).create_qp(init, n.qps.emplace_back()).ok());
        return *n.qps.back();
    }
    // Makes a connected pair; `attributes` may have more than the usual values.
    struct Pair {
        QueuePair& a;
        QueuePair& b;
    };
    Pair connect(std::size_t from, std::size_t to, std::size_t rail = 0,
                 QpAttributes attributes = {}, std::uint32_t target_reads = 4) {
        Pair pair{make(from, QpType::rc, rail), make(to, QpType::rc, rail)};
        attributes.max_reads = 4;
        attributes.max_target_reads = target_reads;
        attributes.access = kAll;
        const auto move = [&](QueuePair& self, QueuePair& peer, std::size_t peer_node) {
            attributes.state = QpState::init;
            EXPECT_TRUE(self.modify(attributes, kQpState | kQpAccess).ok());
            attributes.state = QpState::ready_to_receive;
            attributes.path.remote = nodes[peer_node]->rail(rail).address();
            attributes.remote_qp = peer.number();
            EXPECT_TRUE(
                self.modify(attributes, kQpState | kQpPath | kQpRemote | kQpReceiveLimits).ok());
            attributes.state = QpState::ready_to_send;
            EXPECT_TRUE(
                self.modify(attributes, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits).ok());
        };
        move(pair.a, pair.b, to);
        move(pair.b, pair.a, from);
        return pair;
    }
    Gather gather(std::size_t node, Bytes length, std::size_t rail = 0) {
        const MemoryRegion& region = *nodes[node]->memory[rail];
        return {region.address(), length, region.local_key()};
    }
    // Posts a signaled request from `node` to memory of `to`.
    void post(QueuePair& qp, std::size_t node, Opcode opcode, std::size_t to, Bytes length,
              std::size_t rail = 0) {
        const Gather whole = gather(node, length, rail);
        SendWork work;
        work.opcode = opcode;
        work.flags = kSignaled;
        work.gather = &whole;
        work.gather_count = 1;
        work.remote_address = reinterpret_cast<std::uintptr_t>(nodes[to]->memory[rail]->address());
        work.remote_key = nodes[to]->memory[rail]->remote_key();
        ASSERT_TRUE(qp.post_send(work).ok());
    }
    // Returns the time at which the next completion of that node is there.
    std::int64_t next_completion(std::size_t node, WorkStatus status = WorkStatus::success,
                                 std::size_t rail = 0) {
        WorkCompletion done[1];
        while (nodes[node]->cqs[rail]->poll(done) == 0) {
            if (!world->simulator().step()) {
                ADD_FAILURE() << "nothing happens any more";
                return -1;
            }
        }
        EXPECT_EQ(done[0].status, status);
        return world->simulator().now().count();
    }

    std::unique_ptr<World> world;
    std::vector<std::unique_ptr<Node>> nodes;
};

Topology one_switch(std::uint32_t hosts, std::uint32_t ports = 1, std::uint32_t lmc = 0) {
    HostModel host;
    host.ports = ports;
    return crossbar(hosts, host, links_of(round_machine()), lmc);
}

// A packet: 100 posted, 300 with the adapter, 350 on the wire, 1000 bytes gone at 1350, there at
// 1470, taken at 1500, acknowledged at 1570, known at 1690.
TEST_F(Timing, OnePacket) {
    build(round_machine(), one_switch(2), 2);
    Pair pair = connect(0, 1);
    post(pair.a, 0, Opcode::write, 1, 1000);
    EXPECT_EQ(next_completion(0), 1690);
}

// The second is posted at 200 and with the adapter at 400; the engine is free at 350 + 1000; its
// own 50 ns, then its bytes: 2400. Then as above, 150 + 190 later.
TEST_F(Timing, PacketsFollowOneAnother) {
    build(round_machine(), one_switch(2), 2);
    Pair pair = connect(0, 1);
    post(pair.a, 0, Opcode::write, 1, 1000);
    post(pair.a, 0, Opcode::write, 1, 1000);
    EXPECT_EQ(next_completion(0), 1690);
    EXPECT_EQ(next_completion(0), 2400 + 150 + 190);
}

// A long message: 350 + 1,000,000 + 120 + 30 + 70 + 120.
TEST_F(Timing, OneFlow) {
    build(round_machine(), one_switch(2), 2);
    Pair pair = connect(0, 1);
    post(pair.a, 0, Opcode::write, 1, 1'000'000);
    EXPECT_EQ(next_completion(0), 1'000'690);
}

// Two hosts write to a third; both share its link from 350 on. The shorter one has half the
// rate until it is done: 350 + 2 x 500,000 = 1,000,350; the longer one has 500,000 bytes left
// then, alone: 1,500,350. Each is taken 150 ns later at the earliest, and the reply is there
// 190 ns after that.
TEST_F(Timing, TwoFlowsShareALink) {
    build(round_machine(), one_switch(3), 3);
    Pair from_0 = connect(0, 2);
    Pair from_1 = connect(1, 2);
    post(from_0.a, 0, Opcode::write, 2, 500'000);
    post(from_1.a, 1, Opcode::write, 2, 1'000'000);
    EXPECT_EQ(next_completion(0), 1'000'350 + 340);
    EXPECT_EQ(next_completion(1), 1'500'350 + 340);
}

// Halves over two rails: the second is posted 100 ns later: 450 + 500,000 + 340.
TEST_F(Timing, AStripeOverTwoRails) {
    build(round_machine(), one_switch(2, 2), 2);
    Pair first = connect(0, 1, 0);
    Pair second = connect(0, 1, 1);
    post(first.a, 0, Opcode::write, 1, 500'000, 0);
    post(second.a, 0, Opcode::write, 1, 500'000, 1);
    EXPECT_EQ(next_completion(0, WorkStatus::success, 0), 350 + 500'000 + 340);
    EXPECT_EQ(next_completion(0, WorkStatus::success, 1), 450 + 500'000 + 340);
}

// Two queue pairs on engines of 600 MB/s each: alone 600 MB/s, both together half the port each.
TEST_F(Timing, EnginesFeedAPort) {
    MachineModel machine = round_machine();
    machine.adapter.engines = 2;
    machine.adapter.engine_rate = {600'000'000};
    build(machine, one_switch(2), 2);
    Pair one = connect(0, 1);
    Pair two = connect(0, 1);
    post(one.a, 0, Opcode::write, 1, 600'000);
    EXPECT_EQ(next_completion(0), 350 + 1'000'000 + 340);
    const std::int64_t start = nodes[0]->at.process->now().count();
    post(one.a, 0, Opcode::write, 1, 500'000);
    post(two.a, 0, Opcode::write, 1, 500'000);
    // The first is alone for 100 ns: 60 bytes. Then both have 500 MB/s until the first is done; the
    // second has 60 bytes left then, at 600 MB/s: 100 ns.
    EXPECT_EQ(next_completion(0), start + 350 + 100 + (500'000 - 60) * 2 + 340);
    EXPECT_EQ(next_completion(0), start + 450 + (500'000 - 60) * 2 + 100 + 340);
}

// A bus of 1.5 GB/s for two ports of 1 GB/s.
TEST_F(Timing, ABusForTwoPorts) {
    MachineModel machine = round_machine();
    machine.adapter.bus_rate = {1'500'000'000};
    build(machine, one_switch(2, 2), 2);
    Pair first = connect(0, 1, 0);
    Pair second = connect(0, 1, 1);
    post(first.a, 0, Opcode::write, 1, 750'100, 0);
    post(second.a, 0, Opcode::write, 1, 750'000, 1);
    // The first is alone for 100 ns, then both have 750 MB/s.
    EXPECT_EQ(next_completion(0, WorkStatus::success, 0), 450 + 1'000'000 + 340);
    EXPECT_EQ(next_completion(0, WorkStatus::success, 1), 450 + 1'000'000 + 340);
}

// The request takes 350 + 0 + 150 to the target. Its reply is a work request there (50),
// 1000 bytes, 150 back.
TEST_F(Timing, AReadIsAnsweredByTheTargetsAdapter) {
    build(round_machine(), one_switch(2), 2);
    Pair pair = connect(0, 1);
    post(pair.a, 0, Opcode::read, 1, 1000);
    EXPECT_EQ(next_completion(0), 350 + 150 + 50 + 1000 + 150);
}

// A queue pair that is used again has its context in the cache; used in turns, each
// has to be fetched.
TEST_F(Timing, QueuePairCache) {
    MachineModel machine = round_machine();
    machine.adapter.qp_cache = 1;
    machine.adapter.qp_miss = nanoseconds{400};
    build(machine, one_switch(3), 3);
    Pair one = connect(0, 1);
    Pair two = connect(0, 2);
    std::int64_t start = 0;
    const auto run = [&](QueuePair& qp, std::size_t to) {
        start = nodes[0]->at.process->now().count();
        post(qp, 0, Opcode::write, to, 0);
        return next_completion(0) - start;
    };
    constexpr std::int64_t kHit = 350 + 150 + 190;
    EXPECT_EQ(run(one.a, 1), kHit + 2 * 400) << "at both ends";
    EXPECT_EQ(run(one.a, 1), kHit);
    EXPECT_EQ(run(two.a, 2), kHit + 2 * 400);
    EXPECT_EQ(run(one.a, 1), kHit + 400) << "the target has kept it";
}

// No reply: code 10 is 4096 x 2^10 ns; two further tries.
TEST_F(Timing, RetriesEnd) {
    build(round_machine(), one_switch(2), 2);
    QpAttributes attributes;
    attributes.timeout = 10;
    attributes.retry_count = 2;
    Pair pair = connect(0, 1, 0, attributes);
    world->set_port(world->topology().hosts[1].ports[0], false);
    post(pair.a, 0, Opcode::write, 1, 0);
    constexpr std::int64_t kTimeout = 4096 << 10;
    // Each try takes 50 + 150 after the previous timeout.
    EXPECT_EQ(next_completion(0, WorkStatus::retry_exceeded), 350 + 150 + 3 * kTimeout + 2 * 200);
}

// A link is down and up again within the time of one try: the data is late, not lost.
TEST_F(Timing, ALinkThatComesBack) {
    build(round_machine(), one_switch(2), 2);
    QpAttributes attributes;
    attributes.timeout = 10;
    Pair pair = connect(0, 1, 0, attributes);
    const PortIndex port = world->topology().hosts[1].ports[0];
    post(pair.a, 0, Opcode::write, 1, 1'000'000);
    while (world->simulator().now() < nanoseconds{350}) {
        ASSERT_TRUE(world->simulator().step());
    }
    world->set_port(port, false);
    world->set_port(port, true);
    EXPECT_EQ(next_completion(0), 350 + (4096 << 10) + 50 + 1'000'000 + 340);
}

// All of them arrive before the first answer is back, which is long.
TEST_F(Timing, ATargetRefusesMoreReadsThanItTakes) {
    build(round_machine(), one_switch(2), 2);
    const Pair good = connect(0, 1);
    for (int i = 0; i < 6; ++i) {
        post(good.a, 0, Opcode::read, 1, 4000);
    }
    for (int i = 0; i < 6; ++i) {
        next_completion(0);
    }
    const Pair bad = connect(0, 1, 0, {}, 3);
    for (int i = 0; i < 6; ++i) {
        post(bad.a, 0, i == 3 ? Opcode::fetch_add : Opcode::read, 1, i == 3 ? 8 : 4000);
    }
    for (int i = 0; i < 3; ++i) {
        next_completion(0);
    }
    next_completion(0, WorkStatus::remote_invalid_request);
    for (int i = 0; i < 2; ++i) {
        next_completion(0, WorkStatus::flushed);
    }
    EXPECT_EQ(bad.b.query().state, QpState::error);
}

class DcTiming : public Timing {
protected:
    static constexpr std::uint64_t kKey = 77;

    QueuePair& target(std::size_t at) {
        Node& node = *nodes[at];
        EXPECT_TRUE(node.rail().create_srq(16, node.srqs.emplace_back()).ok());
        QueuePair& qp = make(at, QpType::dc_target, 0, node.srqs.back().get());
        QpAttributes a;
        a.state = QpState::init;
        a.access = kAll;
        a.access_key = kKey;
        EXPECT_TRUE(qp.modify(a, kQpState | kQpAccess | kQpKey).ok());
        a.state = QpState::ready_to_receive;
        a.max_target_reads = 4;
        EXPECT_TRUE(qp.modify(a, kQpState | kQpPath | kQpReceiveLimits).ok());
        return qp;
    }
    QueuePair& initiator(std::size_t at) {
        QueuePair& qp = make(at, QpType::dc_initiator);
        QpAttributes a;
        for (const QpState state : {QpState::init, QpState::ready_to_receive}) {
            a.state = state;
            EXPECT_TRUE(qp.modify(a, kQpState).ok());
        }
        a.state = QpState::ready_to_send;
        EXPECT_TRUE(qp.modify(a, kQpState | kQpRetry | kQpSendPsn | kQpSendLimits).ok());
        return qp;
    }
    // Posts an empty write.
    void write(QueuePair& qp, std::size_t from, std::size_t to, const QueuePair& at) {
        post_to(qp, from, Opcode::write, to, at, 0);
    }
    void post_to(QueuePair& qp, std::size_t from, Opcode opcode, std::size_t to,
                 const QueuePair& at, Bytes length) {
        Node& node = *nodes[from];
        const MemoryRegion& memory = *nodes[to]->memory[0];
        PathSpec path;
        path.remote = nodes[to]->rail().address();
        ASSERT_TRUE(node.rail().create_ah(path, node.handles.emplace_back()).ok());
        const Gather whole = gather(from, length);
        SendWork work;
        work.opcode = opcode;
        work.flags = kSignaled;
        work.gather = &whole;
        work.gather_count = 1;
        work.remote_address = reinterpret_cast<std::uintptr_t>(memory.address());
        work.remote_key = memory.remote_key();
        work.address_handle = node.handles.back().get();
        work.remote_qp = at.number();
        work.remote_access_key = kKey;
        ASSERT_TRUE(qp.post_send(work).ok());
    }
};

// Connecting takes 5000 at either end, one after the other. The next target: 3000 after the last
// reply, in which the previous target disconnects, too, and 5000 again.
TEST_F(DcTiming, ConnectsAndDisconnects) {
    build(round_machine(), one_switch(3), 3);
    QueuePair& one = target(1);
    QueuePair& two = target(2);
    QueuePair& from = initiator(0);
    write(from, 0, 1, one);
    std::int64_t now = 300 + 5000 + 120 + 5000 + 30 + 190;
    EXPECT_EQ(next_completion(0), now);
    write(from, 0, 1, one); // still connected
    now += 350 + 150 + 190;
    EXPECT_EQ(next_completion(0), now);
    write(from, 0, 2, two);
    EXPECT_EQ(next_completion(0), now + 300 + 3000 + 5000 + 120 + 5000 + 30 + 190);
}

// Each end bears half of what a message costs more than over RC; the first packet is ready
// before the target is.
TEST_F(DcTiming, AMessageCostsMoreThanOverRc) {
    MachineModel machine = round_machine();
    machine.dc.message = nanoseconds{400};
    build(machine, one_switch(2), 2);
    QueuePair& at = target(1);
    QueuePair& from = initiator(0);
    write(from, 0, 1, at);
    const std::int64_t now = 300 + 5000 + 120 + 5000 + 200 + 30 + 190;
    EXPECT_EQ(next_completion(0), now);
    write(from, 0, 1, at);
    EXPECT_EQ(next_completion(0), now + 350 + 200 + 150 + 200 + 190);
}

// While a request's doorbell is in flight the engine belongs to another initiator, which has its
// reply and goes on to the next target.
TEST_F(DcTiming, TheEngineDoesNotWaitForADoorbell) {
    build(round_machine(), one_switch(3), 3);
    QueuePair& one = target(1);
    QueuePair& two = target(2);
    QueuePair& other = target(1);
    QueuePair& first = initiator(0);
    QueuePair& second = initiator(0);
    write(first, 0, 1, one);
    write(first, 0, 2, two);
    constexpr std::int64_t kArrives = 300 + 5000 + 120 + 5000 + 30;
    while (world->simulator().now() < nanoseconds{kArrives}) {
        ASSERT_TRUE(world->simulator().step());
    }
    write(second, 0, 1, other); // heard 110 after the reply to the first one
    constexpr std::int64_t kAnswered = kArrives + 190;
    EXPECT_EQ(next_completion(0), kAnswered);
    // The second one connects behind it; then its packet leaves.
    EXPECT_EQ(next_completion(0), kAnswered + 3000 + 5000 + 5000 + 50 + 150 + 190);
}

// Two initiators at once for a target that serves one: the second to arrive is refused (120 back),
// comes again after 10,000, and is served, since the first has nothing more to send.
TEST_F(DcTiming, ABusyTargetRefuses) {
    build(round_machine(), one_switch(3), 3);
    QueuePair& at = target(2);
    write(initiator(0), 0, 2, at);
    write(initiator(1), 1, 2, at);
    constexpr std::int64_t kArrives = 300 + 5000 + 120 + 2 * 5000 + 30; // both connect first
    EXPECT_EQ(next_completion(0), kArrives + 190);
    // The target's adapter was busy with the first for 30 ns when the second came.
    EXPECT_EQ(next_completion(1), kArrives + 30 + 120 + 10'000 + 50 + 150 + 190);
}

// An initiator that was served stays connected as long as the target serves no other one.
TEST_F(DcTiming, AnotherInitiatorTakesTheConnection) {
    build(round_machine(), one_switch(3), 3);
    QueuePair& at = target(2);
    QueuePair& one = initiator(0);
    write(one, 0, 2, at);
    next_completion(0);
    write(initiator(1), 1, 2, at);
    const std::int64_t now = next_completion(1);
    write(one, 0, 2, at);
    // The initiator disconnects and connects, then the target connects, which has
    // disconnected meanwhile.
    EXPECT_EQ(next_completion(0), now + 300 + 3000 + 5000 + 120 + 5000 + 30 + 190);
}

TEST_F(DcTiming, AWrongKeyIsNotAnswered) {
    build(round_machine(), one_switch(2), 2);
    QueuePair& at = target(1);
    QpAttributes other;
    other.state = QpState::reset;
    ASSERT_TRUE(at.modify(other, kQpState).ok());
    write(initiator(0), 0, 1, at);
    EXPECT_GT(next_completion(0, WorkStatus::retry_exceeded), 0);
}

// A long reply to a read shares the links that lead to the reader, and is as slow as they are:
// over DC as over RC.
class AnswerTiming : public DcTiming, public testing::WithParamInterface<bool> {
protected:
    static constexpr std::int64_t kBytes = 1'000'000;
    // The request to the target, and the last byte back.
    static constexpr std::int64_t kAround = 350 + 150 + 120 + 30;

    void prepare(const MachineModel& machine) {
        build(machine, one_switch(3), 3);
        if (GetParam()) {
            QueuePair& at = target(1);
            for (const std::size_t node : {0, 2}) {
                QueuePair& from = initiator(node);
                reads_[node] = [this, &from, &at, node] {
                    post_to(from, node, Opcode::read, 1, at, kBytes);
                };
                write(from, node, 1, at); // so that the first connect is over
                next_completion(node);
            }
        } else {
            for (const std::size_t node : {0, 2}) {
                QueuePair& from = connect(node, 1).a;
                reads_[node] = [this, &from, node] { post(from, node, Opcode::read, 1, kBytes); };
            }
        }
    }
    std::int64_t read_from(std::size_t node) {
        const std::int64_t start = nodes[node]->at.process->now().count();
        reads_[node]();
        return next_completion(node) - start;
    }
    PortIndex port_of(std::size_t host) { return world->topology().hosts[host].ports[0]; }

    std::function<void()> reads_[3];
};

TEST_P(AnswerTiming, IsAsSlowAsThePortThatItLeavesFromOrReaches) {
    MachineModel machine = round_machine();
    machine.dc.responders = 2;
    prepare(machine);
    read_from(2); // over DC this read connects
    EXPECT_EQ(read_from(2), kAround + kBytes);
    world->slow_port(port_of(1), 4);
    EXPECT_EQ(read_from(2), kAround + 4 * kBytes);
    world->slow_port(port_of(1), 1);
    world->slow_port(port_of(2), 5);
    EXPECT_EQ(read_from(2), kAround + 5 * kBytes);
    world->slow_port(port_of(2), 1);
    EXPECT_EQ(read_from(2), kAround + kBytes);
}

TEST_P(AnswerTiming, SharesThePortThatItLeavesFrom) {
    MachineModel machine = round_machine();
    machine.dc.responders = 2;
    prepare(machine);
    const Nanoseconds start = world->simulator().now();
    reads_[0]();
    reads_[2]();
    const std::int64_t first = next_completion(0) - start.count();
    const std::int64_t second = next_completion(2) - start.count();
    EXPECT_GE(std::min(first, second), 2 * kBytes - 20'000);
    EXPECT_GE(std::max(first, second), 2 * kBytes);
    EXPECT_LE(std::max(first, second), 2 * kBytes + 20'000);
}

TEST_P(AnswerTiming, IsNoFasterThanItsEngine) {
    MachineModel machine = round_machine();
    machine.dc.responders = 2;
    machine.adapter.engines = 1;
    machine.adapter.engine_rate = {500'000'000};
    prepare(machine);
    read_from(2);
    EXPECT_EQ(read_from(2), kAround + 2 * kBytes);
}

INSTANTIATE_TEST_SUITE_P(Transport, AnswerTiming, testing::Bool(),
                         [](const auto& info) { return info.param ? "dc" : "rc"; });

// The path is armed once both ends have loaded it (9000). Asked to migrate, the adapter sends the
// request in flight again 7000 ns later over the other path.
TEST_F(Timing, MigrationOnRequest) {
    build(round_machine(), one_switch(2, 1, 1), 2);
    Pair pair = connect(0, 1);
    QpAttributes a;
    a.migration = MigrationState::rearm;
    a.alternate_path.lid_offset = 1;
    a.alternate_path.remote = nodes[1]->rail().address();
    ASSERT_TRUE(pair.a.modify(a, kQpAlternatePath | kQpMigration).ok());
    a.alternate_path.remote = nodes[0]->rail().address();
    ASSERT_TRUE(pair.b.modify(a, kQpAlternatePath | kQpMigration).ok());
    while (world->simulator().step()) {
    }
    EXPECT_EQ(world->simulator().now(), nanoseconds{9'000});
    EXPECT_EQ(pair.b.query().migration, MigrationState::armed);
    post(pair.a, 0, Opcode::write, 1, 0);
    a.migration = MigrationState::migrated;
    ASSERT_TRUE(pair.a.modify(a, kQpMigration).ok());
    EXPECT_EQ(next_completion(0), 9'000 + 7'000 + 50 + 150 + 190);
    EXPECT_EQ(pair.a.query().path.lid_offset, 1);
    EXPECT_EQ(pair.b.query().path.lid_offset, 1);
}

} // namespace
} // namespace adaptib::sim
