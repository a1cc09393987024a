// SPDX-License-Identifier: BSD-3-Clause
// Making the parts of a core: what is there, what the user is told, and how it is refused.
#include "core/core_opener.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process_name.h"
#include "core/fabrics_wanted.h"
#include "fabric/shm/shm_fabric.h"
#include "simulator/network/world.h"
#include "unit/core/address_table.h"
#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kFirst = std::uint64_t{7} << 32; // the first process of a job

class EmptyFabric final : public Fabric {
private:
    bool poll_event_impl(Event&) override { return false; }
};

class UselessRail final : public NullRail {
public:
    UselessRail() { info_.name = "useless"; }
};

class UselessFabric final : public Fabric {
public:
    UselessFabric() { rails_.push_back(std::make_unique<UselessRail>()); }

private:
    bool poll_event_impl(Event&) override { return false; }
};

class CoreOpenerTest : public testing::Test {
protected:
    CoreOpenerTest() {
        environment_.self = kFirst;
        environment_.host = "here";
        environment_.bootstrap = &table_;
        environment_.clock = &clock_;
        environment_.random = &random_;
        environment_.counters = &counters_;
        environment_.message = [this](Severity, const std::string& text) {
            messages_.push_back(text);
        };
    }

    std::unique_ptr<Fabric> shm(std::uint64_t host = 0) {
        ShmOptions options;
        options.clock = &clock_;
        options.host = host;
        options.rails = static_cast<std::uint32_t>(parameters_.shm_rails);
        options.segment_max = parameters_.shm_segment_max;
        std::unique_ptr<Fabric> fabric;
        std::string text;
        EXPECT_TRUE(open_shm_fabric(options, fabric, text).ok()) << text;
        return fabric;
    }
    Status open(std::vector<std::unique_ptr<Fabric>> fabrics) {
        parts_.emplace(environment_);
        return CoreOpener(parameters_, *parts_).open(std::move(fabrics), text_);
    }
    Status open(std::unique_ptr<Fabric> fabric) {
        std::vector<std::unique_ptr<Fabric>> fabrics;
        fabrics.push_back(std::move(fabric));
        return open(std::move(fabrics));
    }
    bool was_told(const std::string& begin) const {
        for (const std::string& message : messages_) {
            if (message.starts_with(begin)) {
                return true;
            }
        }
        return false;
    }

    ManualClock clock_;
    Random random_{1};
    Counters counters_;
    AddressTable table_;
    CoreEnvironment environment_;
    Parameters parameters_ = default_parameters();
    std::vector<std::string> messages_;
    std::string text_;
    std::optional<CoreParts> parts_;
};

TEST_F(CoreOpenerTest, EveryPartIsThereButThoseThatNothingNeeds) {
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_NE(parts_->paths, nullptr);
    EXPECT_TRUE(parts_->datagram_paths && parts_->contacts && parts_->watch);
    EXPECT_NE(parts_->probes, nullptr);
    EXPECT_TRUE(parts_->peers && parts_->startup && parts_->selection);
    EXPECT_NE(parts_->connections, nullptr);
    EXPECT_NE(parts_->protocol, nullptr);
    EXPECT_TRUE(parts_->progress && parts_->handlers);
    EXPECT_EQ(parts_->shared, nullptr) << "no rail connects dynamically";
    EXPECT_EQ(parts_->migration, nullptr) << "no rail migrates";
    EXPECT_EQ(parts_->meter, nullptr) << "the clock is not the machine's";
    EXPECT_EQ(parts_->progress->timers().sources(), nullptr);
}

TEST_F(CoreOpenerTest, ASilentPeerIsGivenUpAfterTheTimeThatWasSetOrNever) {
    parameters_.partition_timeout = 7;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_EQ(parts_->liveness.patience(), std::chrono::seconds{7});
    parameters_.partition_timeout = 0;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_EQ(parts_->liveness.patience(), Nanoseconds::max());
}

TEST_F(CoreOpenerTest, TheAddressNamesTheProcessAndItsRails) {
    parameters_.shm_rails = 1;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    ProcessAddress address;
    ASSERT_TRUE(decode(parts_->address.data(), parts_->address.size(), address).ok());
    EXPECT_EQ(address.name, kFirst);
    EXPECT_EQ(address.host, "here");
    ASSERT_EQ(address.rails.size(), parts_->fabrics.rails().size());
    EXPECT_EQ(address.rails[0].name, parts_->fabrics.rails()[0]->info().name);
    EXPECT_NE(address.rails[0].datagram_qp, 0u);
}

TEST_F(CoreOpenerTest, RailsOfSeveralFabricsAreNumberedConsecutively) {
    std::vector<std::unique_ptr<Fabric>> fabrics;
    fabrics.push_back(shm(1));
    fabrics.push_back(shm());
    ASSERT_TRUE(open(std::move(fabrics)).ok()) << text_;
    const std::vector<RailRange> ranges = parts_->fabrics.ranges();
    ASSERT_EQ(ranges.size(), 2u);
    EXPECT_EQ(ranges[0].first, 0u);
    EXPECT_EQ(ranges[1].first, ranges[0].count);
    EXPECT_EQ(ranges[1].end(), parts_->fabrics.rails().size());
    EXPECT_EQ(parts_->fabrics.cqs().size(), parts_->fabrics.rails().size());
    EXPECT_EQ(parts_->fabrics.routes().last_fabric(), 1u);
}

TEST_F(CoreOpenerTest, APassOfACoreWithoutPeersFindsNothing) {
    ASSERT_TRUE(open(shm()).ok()) << text_;
    for (int pass = 0; pass < 5000; ++pass) {
        EXPECT_EQ(parts_->progress->progress(pass % 2 == 0), 0u);
    }
    EXPECT_GT(parts_->progress->timers().deadline(), clock_.now());
}

TEST_F(CoreOpenerTest, AFabricWithoutRailsIsRefused) {
    const Status status = open(std::make_unique<EmptyFabric>());
    EXPECT_EQ(status.reason(), Reason::no_device);
    EXPECT_EQ(text_, "The fabric has no rail that is up.");
}

TEST_F(CoreOpenerTest, ARailWhoseQueuesCannotBeOpenedIsNamed) {
    EXPECT_FALSE(open(std::make_unique<UselessFabric>()).ok());
    EXPECT_TRUE(text_.starts_with("The rail useless cannot be used: ")) << text_;
}

TEST_F(CoreOpenerTest, PathMigrationThatNoRailHasIsToldOnlyIfItWasAskedFor) {
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_FALSE(was_told("opal_common_adaptib_apm is on"));
    parameters_.apm = const_cast<char*>("on");
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_TRUE(was_told("opal_common_adaptib_apm is on, but no rail of host here"));
}

TEST_F(CoreOpenerTest, OnlyTheFirstProcessWarnsOfAStripingThresholdWithoutEffect) {
    parameters_.eager_limit = 4096;
    parameters_.striping_policy = const_cast<char*>("even");
    parameters_.striping_threshold = 1024;
    environment_.self = kFirst + 1;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_FALSE(was_told("opal_common_adaptib_striping_threshold"));
    environment_.self = kFirst;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    EXPECT_TRUE(was_told("opal_common_adaptib_striping_threshold (1024) is below"));
}

// Two hosts with a rail whose datagrams may be lost.
std::unique_ptr<sim::World> simulated_world() {
    sim::WorldOptions options;
    std::string text;
    options.machine = *sim::machine("connect-ib");
    options.machine.offers.reliable_ud = false;
    options.topology = sim::crossbar(2, {}, sim::links_of(options.machine), 1);
    EXPECT_TRUE(sim::Routes::compute(options.topology, options.routes, text)) << text;
    return std::make_unique<sim::World>(std::move(options));
}

// Open MPI changes the code of munmap() then, which a responder's thread may be inside of.
TEST_F(CoreOpenerTest, MemoryIsWatchedBeforeThereIsAResponder) {
    const auto world = simulated_world();
    std::unique_ptr<Fabric> fabric = world->attach(0).fabric;
    const Fabric& attached = *fabric;
    std::vector<std::uint32_t> responders;
    environment_.watch_memory = [&] {
        responders.push_back(attached.responder_qp(0));
        return true;
    };
    ASSERT_TRUE(open(std::move(fabric)).ok()) << text_;
    EXPECT_EQ(responders, std::vector<std::uint32_t>{0});
    EXPECT_NE(attached.responder_qp(0), 0u);
    parts_.reset();
}

TEST_F(CoreOpenerTest, TheResponderSaysThatThisProcessIsInACall) {
    const auto world = simulated_world();
    ASSERT_TRUE(open(world->attach(0).fabric).ok()) << text_;
    const AttachedFabric& attached = parts_->fabrics.all()[0];
    ASSERT_NE(attached.answerer, nullptr);
    const std::uint64_t before = attached.answerer->beats();
    parts_->progress->timers().run();
    EXPECT_EQ(attached.answerer->beats(), before + 1);
    parts_.reset();
}

TEST_F(CoreOpenerTest, ProbesTellTheNumberOfTheResponder) {
    const auto world = simulated_world();
    ASSERT_TRUE(open(world->attach(0).fabric).ok()) << text_;
    const AttachedFabric& attached = parts_->fabrics.all()[0];
    EXPECT_NE(attached.datagrams->responder(0), 0u);
    EXPECT_EQ(attached.datagrams->responder(0), attached.fabric->responder_qp(0));
    parts_.reset();
}

TEST_F(CoreOpenerTest, AnAnswerOverADoubtedPathSpeaksForIt) {
    parameters_.shm_rails = 2;
    ASSERT_TRUE(open(shm()).ok()) << text_;
    ProcessAddress address;
    ASSERT_TRUE(decode(parts_->address.data(), parts_->address.size(), address).ok());
    address.name = kFirst + 1;
    table_.blobs[address.name] = encode(address);
    Peer* peer = nullptr;
    ASSERT_TRUE(parts_->peers->get(address.name, peer).ok());
    DatagramTarget& target = peer->contact.datagram;
    for (const std::size_t heard : {1u, 0u}) { // over another path first
        parts_->paths->report_suspect(*peer, target.pair, "test");
        target.doubted = true;
        DatagramHeader prefix;
        prefix.rail = peer->contact.route.pairs[heard].remote;
        peer->contact.channel.accept(
            target, {prefix, peer->contact.route.pairs[heard].local, nullptr, nullptr});
        EXPECT_EQ(parts_->paths->state(*peer, target.pair),
                  heard == target.pair ? PathState::up : PathState::suspect);
    }
    peer->contact.channel.retransmitter().release(target);
    parts_->paths->remove(*peer);
    parts_->peers->clear();
}

TEST_F(CoreOpenerTest, CopiesAreTimedOnlyForALimitThatIsLearnt) {
    parameters_.fabric = const_cast<char*>("shm");
    for (const int limit : {-1, 0}) {
        parameters_.eager_limit = limit;
        std::vector<std::unique_ptr<Fabric>> fabrics;
        std::string left_out;
        const FabricsWanted wanted{parameters_, "here", 7, true, 1, clock_};
        ASSERT_TRUE(wanted.open(fabrics, left_out, text_).ok()) << text_;
        EXPECT_EQ(fabrics.at(0)->copy_costs().has_value(), limit < 0);
    }
}

// Any but the first endpoint may never be used.
TEST_F(CoreOpenerTest, AFurtherEndpointReceivesTheFirstMessagesOfAllWhenItIsUsed) {
    constexpr std::uint32_t kProcesses = 1000;
    for (const std::uint32_t number : {0u, 3u}) {
        const auto world = simulated_world();
        counters_ = {};
        environment_.self = endpoint_name(kFirst, number);
        ASSERT_TRUE(open(world->attach(0).fabric).ok()) << text_;
        AttachedFabric& attached = parts_->fabrics.all()[0];
        const std::uint64_t one = attached.datagrams->capacity();
        const auto receives = [&, at_first = counters_.buffers_bytes]() {
            return (counters_.buffers_bytes - at_first) / one;
        };
        const std::uint64_t more = kProcesses - (number == 0 ? DatagramChannel::kFirstReceives
                                                             : DatagramChannel::kFewReceives);
        parts_->fabrics.expect(kProcesses);
        EXPECT_GE(receives(), number == 0 ? more : 0);
        EXPECT_TRUE(number == 0 || receives() == 0) << "not yet used";
        attached.use();
        EXPECT_GE(receives(), more);
        EXPECT_LT(receives(), 2 * more);
        parts_.reset();
    }
}

} // namespace
} // namespace adaptib::test
