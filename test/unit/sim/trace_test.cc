// SPDX-License-Identifier: BSD-3-Clause
// A world's trace is the same with every compiler, optimization, sanitizer and machine:
// this file has a digest of it. A deliberate change of what the simulated fabric does needs
// a new digest here.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "simulator/network/timeline.h"
#include "simulator/network/world.h"

namespace adaptib::sim {
namespace {

constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;
constexpr Bytes kMemory = 256 * kKiB;
constexpr std::size_t kHosts = 4;

struct Node {
    World::Attached at;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<MemoryRegion> memory;
    std::unique_ptr<QueuePair> datagrams;
    std::vector<std::unique_ptr<QueuePair>> connected; // to each other node
    std::vector<std::unique_ptr<AddressHandle>> handles;

    Rail& rail() { return *at.fabric->rails()[0]; }
};

std::unique_ptr<QueuePair> make(Node& node, QpType type) {
    QpInit init;
    init.type = type;
    init.send_cq = init.receive_cq = node.cq.get();
    init.send_depth = init.receive_depth = 128;
    std::unique_ptr<QueuePair> qp;
    EXPECT_TRUE(node.rail().create_qp(init, qp).ok());
    QpAttributes a;
    a.state = QpState::init;
    a.access = kAll;
    EXPECT_TRUE(qp->modify(a, kQpState | (type == QpType::rc ? +kQpAccess : +kQpKey)).ok());
    return qp;
}

void start(QueuePair& qp, const QueuePair& peer, const Rail& there) {
    QpAttributes a;
    a.state = QpState::ready_to_receive;
    a.path.remote = there.address();
    a.remote_qp = peer.number();
    a.max_reads = a.max_target_reads = 4;
    a.timeout = 8;
    const bool rc = qp.type() == QpType::rc;
    EXPECT_TRUE(qp.modify(a, kQpState | (rc ? kQpPath | kQpRemote | kQpReceiveLimits : 0)).ok());
    a.state = QpState::ready_to_send;
    EXPECT_TRUE(qp.modify(a, kQpState | kQpSendPsn | (rc ? kQpRetry | kQpSendLimits : 0)).ok());
}

void set_up(World& world, std::vector<Node>& nodes) {
    for (std::uint32_t i = 0; i < kHosts; ++i) {
        Node& node = nodes[i];
        node.at = world.attach(i);
        ASSERT_TRUE(node.rail().create_cq(4096, node.cq).ok());
        ASSERT_TRUE(node.rail().allocate(kMemory, kAll, node.memory).ok());
        node.datagrams = make(node, QpType::ud);
        start(*node.datagrams, *node.datagrams, node.rail());
        for (std::size_t k = 0; k < kHosts; ++k) {
            node.connected.push_back(make(node, QpType::rc));
        }
    }
    for (std::size_t i = 0; i < kHosts; ++i) {
        for (std::size_t k = 0; k < kHosts; ++k) {
            start(*nodes[i].connected[k], *nodes[k].connected[i], nodes[k].rail());
            PathSpec path;
            path.remote = nodes[k].rail().address();
            ASSERT_TRUE(nodes[i].rail().create_ah(path, nodes[i].handles.emplace_back()).ok());
        }
    }
}

void one_request(std::vector<Node>& nodes, Random& random) {
    const std::size_t from = random.below(kHosts);
    const std::size_t to = random.below(kHosts);
    Node& node = nodes[from];
    const MemoryRegion& there = *nodes[to].memory;
    const Bytes length = random.below(3) == 0 ? random.below(kMemory) : random.below(2048);
    Gather gather{node.memory->address(), length, node.memory->local_key()};
    const ReceiveWork receive{1, &gather, 0};
    SendWork work;
    work.flags = random.below(2) == 0 ? +kSignaled : 0u;
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = reinterpret_cast<std::uintptr_t>(there.address());
    work.remote_key = there.remote_key();
    work.address_handle = node.handles[to].get();
    work.remote_qp = nodes[to].datagrams->number();
    switch (random.below(4)) {
    case 0:
        gather.length = length % 2048;
        static_cast<void>(node.datagrams->post_send(work));
        break;
    case 1: static_cast<void>(node.datagrams->post_receive(receive)); break;
    case 2:
        work.opcode = Opcode::read;
        static_cast<void>(node.connected[to]->post_send(work));
        break;
    default:
        work.opcode = Opcode::write;
        static_cast<void>(node.connected[to]->post_send(work));
        break;
    }
}

// FNV-1a of all lines.
std::uint64_t digest(std::uint64_t seed, std::size_t& lines) {
    WorldOptions options;
    options.machine = *machine("infinihost");
    options.machine.offers.reliable_ud = false;
    options.topology = fat_tree(2, 2, 2, {}, links_of(options.machine), 1);
    options.datagram_loss = options.datagram_twice = options.datagram_late = 0.1;
    options.seed = seed;
    std::string text;
    EXPECT_TRUE(Routes::compute(options.topology, options.routes, text)) << text;
    World world(std::move(options));
    std::uint64_t sum = 0xcbf29ce484222325u;
    world.trace = [&](const std::string& line) {
        ++lines;
        for (const char c : line) {
            sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
        }
    };
    std::vector<Node> nodes(kHosts);
    set_up(world, nodes);
    std::vector<Fault> faults;
    EXPECT_TRUE(
        from_text("200000 port 1 down\n900000 port 1 up\n1500000 port 2 slow 4\n", faults, text));
    std::unique_ptr<Timeline> timeline;
    EXPECT_TRUE(Timeline::schedule(world, faults, timeline, text)) << text;
    Random random(seed);
    for (int i = 0; i < 400; ++i) {
        one_request(nodes, random);
        for (std::uint64_t events = random.below(6); events > 0; --events) {
            world.simulator().step();
        }
    }
    while (world.simulator().step()) {
    }
    timeline.reset();
    for (Node& node : nodes) {
        node.connected.clear();
        node.datagrams.reset();
    }
    return sum;
}

TEST(Trace, IsTheSameEverywhere) {
    std::size_t lines = 0;
    const std::uint64_t first = digest(1, lines);
    EXPECT_GT(lines, 200u);
    EXPECT_EQ(first, 12082431682451243372u);
    EXPECT_EQ(first, digest(1, lines));
    EXPECT_NE(first, digest(2, lines));
}

} // namespace
} // namespace adaptib::sim
