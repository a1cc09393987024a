// SPDX-License-Identifier: BSD-3-Clause
// Ports that get another LID: what queue pairs and datagrams with the old one do, when processes
// learn it, and complete cores that go on over the new one.
#include <cstring>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kAll = kLocalWrite | kRemoteWrite;
constexpr Bytes kLength = 8;

WorldOptions two_hosts(bool checks_sources) {
    WorldOptions options;
    options.machine = *machine("connect-ib");
    options.machine.offers.reliable_ud = false;
    options.topology = crossbar(2, {}, links_of(options.machine));
    options.checks_sources = checks_sources;
    std::string text;
    EXPECT_TRUE(Routes::compute(options.topology, options.routes, text)) << text;
    return options;
}

// Two processes with an RC queue pair to each other, and one for datagrams.
class Addresses : public testing::Test {
protected:
    struct Node {
        World::Attached at;
        std::unique_ptr<CompletionQueue> cq;
        std::unique_ptr<MemoryRegion> memory;
        std::unique_ptr<QueuePair> rc;
        std::unique_ptr<QueuePair> ud;
        std::unique_ptr<AddressHandle> handle; // to the other

        Rail& rail() const { return *at.fabric->rails()[0]; }
    };
    ~Addresses() override {
        for (Node& node : nodes_) {
            node.handle.reset();
            node.rc.reset();
            node.ud.reset();
            node.cq.reset();
            node.memory.reset();
            node.at.fabric.reset();
        }
    }

    void build(bool checks_sources = true) {
        world_ = std::make_unique<World>(two_hosts(checks_sources));
        for (std::uint32_t i = 0; i < 2; ++i) {
            Node& node = nodes_[i];
            node.at = world_->attach(i);
            ASSERT_TRUE(node.rail().create_cq(64, node.cq).ok());
            ASSERT_TRUE(node.rail().allocate(4096, kAll, node.memory).ok());
            make(node, QpType::rc, node.rc);
            make(node, QpType::ud, node.ud);
        }
        for (std::uint32_t i = 0; i < 2; ++i) {
            connect(nodes_[i], nodes_[1 - i]);
        }
    }
    static void make(Node& node, QpType type, std::unique_ptr<QueuePair>& out) {
        QpInit init;
        init.type = type;
        init.send_cq = init.receive_cq = node.cq.get();
        init.send_depth = init.receive_depth = 8;
        init.max_gather = 1;
        ASSERT_TRUE(node.rail().create_qp(init, out).ok());
    }
    static void connect(Node& node, Node& other) {
        QpAttributes attributes;
        attributes.access = kAll;
        attributes.path.remote = other.rail().address();
        attributes.remote_qp = other.rc->number();
        attributes.timeout = 8;
        attributes.retry_count = 2;
        struct Step {
            QpState state;
            std::uint32_t rc;
            std::uint32_t ud;
        };
        for (const Step& step :
             {Step{QpState::init, kQpAccess, kQpKey},
              Step{QpState::ready_to_receive, kQpPath | kQpRemote | kQpReceiveLimits, 0},
              Step{QpState::ready_to_send, kQpRetry | kQpSendPsn | kQpSendLimits, kQpSendPsn}}) {
            attributes.state = step.state;
            ASSERT_TRUE(node.rc->modify(attributes, kQpState | step.rc).ok());
            ASSERT_TRUE(node.ud->modify(attributes, kQpState | step.ud).ok());
        }
        ASSERT_TRUE(node.rail()
                        .create_ah(node.rail().path_to(other.rail().address(), 0), node.handle)
                        .ok());
    }

    void run() {
        while (!world_->simulator().idle()) {
            world_->simulator().step();
        }
    }
    // Writes from one node to the other, and returns how the write ends.
    WorkStatus write(std::size_t from) {
        const Node& to = nodes_[1 - from];
        std::memset(to.memory->address(), 0, kLength);
        std::memset(nodes_[from].memory->address(), 1, kLength);
        const Gather gather{nodes_[from].memory->address(), kLength,
                            nodes_[from].memory->local_key()};
        SendWork work;
        work.opcode = Opcode::write;
        work.flags = kSignaled;
        work.gather = &gather;
        work.gather_count = 1;
        work.remote_address = reinterpret_cast<std::uintptr_t>(to.memory->address());
        work.remote_key = to.memory->remote_key();
        EXPECT_TRUE(nodes_[from].rc->post_send(work).ok());
        run();
        WorkCompletion done;
        EXPECT_EQ(nodes_[from].cq->poll({&done, 1}), 1u);
        return done.status;
    }
    bool written_to(std::size_t node) const {
        return *static_cast<const std::byte*>(nodes_[node].memory->address()) != std::byte{0};
    }
    // Sends a datagram to the other node, and returns true if it arrives.
    bool arrives(std::size_t from) {
        const Node& to = nodes_[1 - from];
        const Gather room{to.memory->address(), 64, to.memory->local_key()};
        ReceiveWork receive;
        receive.scatter = &room;
        receive.scatter_count = 1;
        EXPECT_TRUE(to.ud->post_receive(receive).ok());
        const Gather gather{nodes_[from].memory->address(), kLength,
                            nodes_[from].memory->local_key()};
        SendWork work;
        work.gather = &gather;
        work.gather_count = 1;
        work.remote_qp = to.ud->number();
        work.address_handle = nodes_[from].handle.get();
        EXPECT_TRUE(nodes_[from].ud->post_send(work).ok());
        run();
        WorkCompletion done;
        return to.cq->poll({&done, 1}) == 1;
    }
    PortIndex port_of(std::uint32_t host) const { return world_->topology().hosts[host].ports[0]; }
    Lid move(std::uint32_t host, bool at_once = false) {
        const Lid lid = world_->topology().unused_lid();
        world_->set_lid(port_of(host), lid, at_once);
        return lid;
    }
    // The kinds of the events that have been reported to a node.
    std::vector<EventKind> events(std::size_t node) {
        std::vector<EventKind> all;
        adaptib::Event event;
        while (nodes_[node].at.fabric->poll_event(event)) {
            all.push_back(event.kind);
        }
        return all;
    }

    std::unique_ptr<World> world_;
    Node nodes_[2];
};

TEST_F(Addresses, PacketsToAnOldLidGoNowhere) {
    build();
    EXPECT_EQ(write(0), WorkStatus::success);
    EXPECT_TRUE(arrives(0));
    const Lid before = world_->topology().ports[port_of(1)].lid;
    move(1);
    EXPECT_FALSE(arrives(0));
    EXPECT_TRUE(arrives(1)) << "a datagram from the port has another source, which nobody checks";
    EXPECT_EQ(write(0), WorkStatus::retry_exceeded);
    EXPECT_FALSE(written_to(1));
    world_->set_lid(port_of(1), before);
    EXPECT_TRUE(arrives(0));
}

TEST_F(Addresses, AQueuePairTakesNothingFromAnotherLidThanItsPaths) {
    build();
    move(0);
    EXPECT_EQ(write(0), WorkStatus::retry_exceeded);
    EXPECT_FALSE(written_to(1));
}

TEST_F(Addresses, WhereSourcesAreNotCheckedARequestIsCarriedOutAndNotAnswered) {
    build(false);
    move(0);
    EXPECT_EQ(write(0), WorkStatus::retry_exceeded);
    EXPECT_TRUE(written_to(1));
}

TEST_F(Addresses, AProcessKnowsTheAddressOnceItHasTakenTheEvent) {
    build();
    const RailAddress before = nodes_[1].rail().address();
    move(1);
    EXPECT_EQ(nodes_[1].rail().address(), before);
    EXPECT_EQ(events(1), std::vector{EventKind::address_changed});
    EXPECT_NE(nodes_[1].rail().address(), before);
    EXPECT_EQ(nodes_[1].rail().address().changes, before.changes + 1);
    EXPECT_TRUE(events(0).empty());
    ASSERT_TRUE(
        nodes_[0]
            .rail()
            .create_ah(nodes_[0].rail().path_to(nodes_[1].rail().address(), 0), nodes_[0].handle)
            .ok());
    EXPECT_TRUE(arrives(0));
}

TEST_F(Addresses, AChangeWhileThePortIsDownShowsWhenItIsActive) {
    build();
    const RailAddress before = nodes_[1].rail().address();
    world_->set_port(port_of(1), false);
    move(1);
    EXPECT_EQ(events(1), std::vector{EventKind::port_error});
    EXPECT_EQ(nodes_[1].rail().address(), before);
    world_->set_port(port_of(1), true);
    EXPECT_EQ(events(1), std::vector{EventKind::port_active});
    EXPECT_NE(nodes_[1].rail().address(), before);
}

TEST_F(Addresses, SomeDriversReportTheChangeOfAPortThatIsNotActive) {
    build();
    world_->set_port(port_of(1), false);
    move(1, true);
    EXPECT_EQ(events(1), (std::vector{EventKind::port_error, EventKind::address_changed}));
}

TEST_F(Addresses, APortIsKnownToItselfWhateverItsAddressWas) {
    build();
    const RailAddress before = nodes_[1].rail().address();
    move(1);
    EXPECT_EQ(events(1).size(), 1u);
    ASSERT_TRUE(
        nodes_[1].rail().create_ah(nodes_[1].rail().path_to(before, 0), nodes_[1].handle).ok());
    const Gather room{nodes_[1].memory->address(), 64, nodes_[1].memory->local_key()};
    ReceiveWork receive;
    receive.scatter = &room;
    receive.scatter_count = 1;
    EXPECT_TRUE(nodes_[1].ud->post_receive(receive).ok());
    SendWork work;
    work.gather = &room;
    work.gather_count = 1;
    work.remote_qp = nodes_[1].ud->number();
    work.address_handle = nodes_[1].handle.get();
    EXPECT_TRUE(nodes_[1].ud->post_send(work).ok());
    run();
    WorkCompletion done;
    EXPECT_EQ(nodes_[1].cq->poll({&done, 1}), 1u);
}

// -------------------------------------------------------------------------------------------------
// Complete cores

// Rank 0 is on one host, 1 and 2 on the other. Nothing goes over shared memory.
RanksOptions three_ranks() {
    RanksOptions options;
    options.ranks = 3;
    options.hosts = {0, 1, 1};
    options.world = two_hosts(true);
    return options;
}

void carry_between_all(Ranks& ranks) {
    Messages messages;
    for (std::size_t from = 0; from < ranks.size(); ++from) {
        for (std::size_t to = 0; to < ranks.size(); ++to) {
            for (const std::size_t bytes : {100u, 100'000u}) {
                if (from != to) {
                    messages.push_back(std::make_unique<Message>(from, to, bytes));
                }
            }
        }
    }
    carry(ranks, messages);
}

TEST(MovedPorts, CarryOnToTheirOwnHostAndToOthers) {
    const auto ranks = make(three_ranks());
    World& world = ranks->world();
    const PortIndex port = world.topology().hosts[1].ports[0];
    carry_between_all(*ranks);
    const Lid first = world.topology().ports[port].lid;
    for (int change = 0; change < 3; ++change) {
        world.set_lid(port, change == 2 ? first : world.topology().unused_lid());
        carry_between_all(*ranks);
    }
    world.set_port(port, false);
    world.set_lid(port, world.topology().unused_lid());
    rest(*ranks, 10ms);
    world.set_port(port, true);
    carry_between_all(*ranks);
    for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
        expect_unbroken(*ranks, rank);
    }
}

// The port has another address before rank 1 has sent anything over it, and then rank 1 only
// receives.
TEST(MovedPorts, TellPeersThatWaitForNothing) {
    RanksOptions options = three_ranks();
    options.world.datagram_loss = 0.5;
    const auto ranks = make(std::move(options));
    World& world = ranks->world();
    ASSERT_NE(ranks->peer(0, 1), nullptr);
    ASSERT_NE(ranks->peer(1, 0), nullptr);
    for (int change = 0; change < 20; ++change) {
        world.set_lid(world.topology().hosts[1].ports[0], world.topology().unused_lid());
        rest(*ranks, 5s);
        EXPECT_EQ(ranks->peer(0, 1)->contact.address.rails[0].bytes,
                  ranks->core(1).rails()[0]->address().bytes)
            << change;
    }
    carry(*ranks, 0, 1, 1000);
}

} // namespace
} // namespace adaptib::sim
