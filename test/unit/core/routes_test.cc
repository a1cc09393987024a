// SPDX-License-Identifier: BSD-3-Clause
// The fabric and the rails that lead to another process: the nearest fabric that reaches it.
#include "core/routes.h"

#include <gtest/gtest.h>

#include "unit/null_rail.h"

namespace adaptib::test {
namespace {

// Reaches the rails whose address begins with its network's letter.
class NetworkRail final : public NullRail {
public:
    NetworkRail(const std::string& name, char network) : network_(network) { info_.name = name; }
    RailInfo& info_of() { return info_; }

    std::uint32_t match = 0; // of a rail whose address ends with ...
    char subnet = 0;

private:
    std::uint32_t subnet_match_impl(const RailAddress& remote) const override {
        return remote.size == 2 && remote.bytes[1] == std::byte(subnet) ? match : 0;
    }
    bool is_reachable_impl(const RailAddress& remote) const override {
        return remote.size > 0 && remote.bytes[0] == std::byte(network_);
    }
    std::uint32_t paths_to_impl(const RailAddress&) const override { return 4; }
    std::string why_out_of_reach_impl(const RailAddress& remote) const override {
        return remote.bytes[0] == std::byte('x') ? "another subnet" : "";
    }

    char network_;
};

// One near rail, and a fabric of two far ones.
class RoutesTest : public testing::Test {
protected:
    RoutesTest() { begin({.self = 5, .host = "here", .left_out = "", .paths_per_port = 0}); }

    void begin(const Routes::Options& options) {
        routes_.emplace(options, rails_, std::vector<RailRange>{{0, 1}, {1, 2}});
    }
    static ProcessAddress process(const std::string& networks, const std::string& host = "there") {
        ProcessAddress address;
        address.name = 9;
        address.host = host;
        for (const char network : networks) {
            AddressRail rail;
            rail.size = 1;
            rail.bytes[0] = std::byte(network);
            rail.paths = 1;
            address.rails.push_back(rail);
        }
        return address;
    }
    PeerRoute route_to(const std::string& networks) {
        PeerRoute route;
        EXPECT_TRUE(routes_->choose(process(networks), route)) << networks;
        return route;
    }

    NetworkRail near_{"m0", 'n'};
    NetworkRail first_{"x0:1", 'f'};
    NetworkRail second_{"x1:1", 'f'};
    std::vector<Rail*> rails_{&near_, &first_, &second_};
    std::optional<Routes> routes_;
};

TEST_F(RoutesTest, TheNearestFabricThatReachesIsChosen) {
    EXPECT_EQ(route_to("nff").fabric, 0u);
    EXPECT_EQ(route_to("ff").fabric, 1u);
    EXPECT_EQ(routes_->last_fabric(), 1u);
}

TEST_F(RoutesTest, RailsOfThatFabricArePaired) {
    PeerRoute route;
    ASSERT_TRUE(routes_->route_over(1, process("nff"), route));
    EXPECT_EQ(route.local.first, 1u);
    EXPECT_EQ(route.local.count, 2u);
    EXPECT_EQ(route.remote.first, 1u);
    EXPECT_EQ(route.remote.count, 2u);
    ASSERT_EQ(route.count, 2);
    for (std::size_t i = 0; i < route.count; ++i) {
        EXPECT_EQ(route.pairs[i].local, i + 1);
        EXPECT_EQ(route.pairs[i].remote, i + 1);
    }
}

// The subnet managers of two planes have the same default prefix, and a process near the other
// socket has its rails in the other order.
TEST_F(RoutesTest, PlanesThatMatchAlikeArePairedByTheNamesOfTheirRails) {
    ProcessAddress address = process("ff");
    address.rails[0].name = "x1:1";
    address.rails[1].name = "x0:1";
    for (const std::uint64_t self : {5, 15}) { // below and above the peer's name
        begin({.self = self, .host = "here", .left_out = "", .paths_per_port = 0});
        PeerRoute route;
        ASSERT_TRUE(routes_->choose(address, route));
        ASSERT_EQ(route.count, 2);
        for (const PeerRoute::Pair& pair : {route.pairs[0], route.pairs[1]}) {
            EXPECT_EQ(rails_[pair.local]->info().name, address.rails[pair.remote].name);
        }
        EXPECT_EQ(route.pairs[0].local, self < address.name ? 1 : 2) << "nearest to the lower one";
    }
}

// Equal bits of an IP address are more than those of an InfiniBand prefix.
TEST_F(RoutesTest, TheFasterKindOfNetworkComesFirst) {
    ProcessAddress address = process("ff");
    const auto set = [&](NetworkRail& rail, AddressRail& remote, char subnet, LinkLayer link,
                         std::uint32_t match, std::uint32_t rate) {
        rail.subnet = subnet;
        rail.match = match;
        rail.info_of().link_layer = link;
        rail.info_of().rate.value = rate * std::uint64_t{1'000'000};
        remote.rate = rate;
        remote.bytes[1] = std::byte(subnet);
        remote.size = 2;
    };
    for (const std::uint32_t ethernet : {10'000, 25'000, 50'000}) {
        set(first_, address.rails[0], 'e', LinkLayer::ethernet, 127, ethernet);
        set(second_, address.rails[1], 'i', LinkLayer::infiniband, 65, 25'000);
        PeerRoute route;
        ASSERT_TRUE(routes_->choose(address, route));
        ASSERT_EQ(route.count, 2);
        EXPECT_EQ(route.pairs[0],
                  ethernet > 25'000 ? (PeerRoute::Pair{1, 0, 0}) : (PeerRoute::Pair{2, 1, 0}))
            << ethernet;
    }
}

TEST_F(RoutesTest, FurtherPathsNeedThemAtBothEnds) {
    first_.info_of().paths = second_.info_of().paths = 4;
    for (Rail* rail : {&first_, &second_}) {
        static_cast<NetworkRail*>(rail)->info_of().link_layer = LinkLayer::infiniband;
    }
    EXPECT_EQ(route_to("ff").count, 2) << "the peer's rails have one path each";
    ProcessAddress address = process("ff");
    address.rails[0].paths = address.rails[1].paths = 2;
    PeerRoute route;
    ASSERT_TRUE(routes_->choose(address, route));
    EXPECT_EQ(route.count, 4);
}

TEST_F(RoutesTest, PathsOfARail) {
    RailInfo& info = first_.info_of();
    info.paths = 100;
    info.link_layer = LinkLayer::infiniband;
    EXPECT_EQ(routes_->paths_of(1), 8) << "more gain little";
    info.link_layer = LinkLayer::ethernet;
    EXPECT_EQ(routes_->paths_of(1), 1) << "flow labels may lead nowhere else";
    begin({.self = 5, .host = "here", .left_out = "", .paths_per_port = 3});
    EXPECT_EQ(routes_->paths_of(1), 3) << "the parameter decides";
}

TEST_F(RoutesTest, TheRateIsPublishedInMegabytesRoundedUp) {
    near_.info_of().rate.value = 12'000'001;
    EXPECT_EQ(routes_->published_rate(0), 13u);
    near_.info_of().rate.value = 12'000'000;
    EXPECT_EQ(routes_->published_rate(0), 12u);
}

TEST_F(RoutesTest, TheReasonNamesRailsNamespacesOrTheFabricsThatWereLeftOut) {
    PeerRoute route;
    EXPECT_FALSE(routes_->choose(process("x"), route));
    EXPECT_EQ(routes_->why_none(process("x")),
              "Rail m0: another subnet. Rail x0:1: another subnet. ");
    EXPECT_NE(routes_->why_none(process("q", "here")).find("different process namespaces"),
              std::string::npos);
    EXPECT_EQ(routes_->why_none(process("q")), "");
    begin({.self = 5, .host = "here", .left_out = "No device was found.", .paths_per_port = 0});
    EXPECT_EQ(routes_->why_none(process("q")), "No device was found. ");
}

TEST_F(RoutesTest, AProcessReachesItselfOverEachRailOfTheFabric) {
    const PeerRoute route = routes_->to_itself(1);
    EXPECT_EQ(route.fabric, 1u);
    ASSERT_EQ(route.total, 2);
    EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{1, 1, 0}));
    EXPECT_EQ(route.pairs[1], (PeerRoute::Pair{2, 2, 0}));
}

// InfiniBand of 25 GB/s and Ethernet: of a quarter of that, and of less.
TEST(SlowEthernet, IsLeftOutWhereThereIsAFasterNetwork) {
    for (const std::uint32_t rate : {6'249u, 6'250u}) {
        for (const bool uses_all : {false, true}) {
            NetworkRail fast("mlx5_0:1", 'n');
            NetworkRail slow("mlx5_1:1", 'n');
            fast.info_of().link_layer = LinkLayer::infiniband;
            slow.info_of().link_layer = LinkLayer::ethernet;
            fast.info_of().rate = {25'000'000'000};
            slow.info_of().rate = {rate * std::uint64_t{1'000'000}};
            fast.match = 64;
            fast.subnet = 'i';
            slow.match = 128;
            slow.subnet = 'e';
            const std::vector<Rail*> rails{&fast, &slow};
            const Routes routes({.self = 5, .host = "here", .left_out = "", .uses_all = uses_all},
                                rails, {{0, 2}});
            ProcessAddress address;
            address.name = 9;
            for (const auto& [subnet, their_rate] : {std::pair{'i', 25'000u}, {'e', rate}}) {
                AddressRail& rail = address.rails.emplace_back();
                rail.size = 2;
                rail.bytes[0] = std::byte('n');
                rail.bytes[1] = std::byte(subnet);
                rail.paths = 1;
                rail.rate = their_rate;
            }
            PeerRoute route;
            ASSERT_TRUE(routes.choose(address, route));
            EXPECT_EQ(route.count, uses_all || rate == 6'250 ? 2 : 1);
            EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{0, 0, 0}));
            address.rails.erase(address.rails.begin()); // a process with Ethernet alone
            ASSERT_TRUE(routes.choose(address, route));
            EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{1, 0, 0}));
        }
    }
}

// Two rails on either side, of which each matches each: the first pairs, then the spare ones.
PeerRoute crossed_route() {
    PeerRoute route;
    route.local = route.remote = {1, 2};
    pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 1; });
    return route;
}

TEST(PairAnew, TakesOtherPairsInTheirOrder) {
    PeerRoute route = crossed_route();
    ASSERT_EQ(route.total, 4);
    ASSERT_EQ(route.pairs[2], (PeerRoute::Pair{1, 2, 0}));
    EXPECT_EQ(pair_anew(route, std::vector<std::uint8_t>{3, 0, 1, 2}),
              (std::vector<std::uint8_t>{2, 3, 0, 1}))
        << "the local rails keep their places";
    EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{1, 2, 0}));
    EXPECT_EQ(route.pairs[1], (PeerRoute::Pair{2, 1, 0}));
    EXPECT_EQ(route.pairs[2], (PeerRoute::Pair{1, 1, 0}));
    EXPECT_EQ(route.pairs[3], (PeerRoute::Pair{2, 2, 0}));
    EXPECT_EQ(route.count, 2);
}

TEST(PairAnew, ChangesNothingForTheSamePairsOrFewer) {
    PeerRoute route = crossed_route();
    EXPECT_TRUE(pair_anew(route, std::vector<std::uint8_t>{1, 0, 2, 3}).empty());
    EXPECT_TRUE(pair_anew(route, std::vector<std::uint8_t>{2}).empty());
    EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{1, 1, 0}));
    add_paths(route, [](std::uint32_t, std::uint32_t) { return 2; });
    EXPECT_TRUE(pair_anew(route, std::vector<std::uint8_t>{4, 5, 0, 1, 2, 3}).empty());
}

TEST(PairAnew, AnotherRailTakesThePlaceOfOneThatIsLeftOut) {
    PeerRoute route;
    route.local = {0, 2};
    route.remote = {0, 1};
    pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 1; });
    ASSERT_EQ(route.pairs[0], (PeerRoute::Pair{0, 0, 0}));
    EXPECT_EQ(pair_anew(route, std::vector<std::uint8_t>{1}), (std::vector<std::uint8_t>{1, 0}));
    EXPECT_EQ(route.pairs[0], (PeerRoute::Pair{1, 0, 0}));
    EXPECT_EQ(route.pairs[1], (PeerRoute::Pair{0, 0, 0}));
}

} // namespace
} // namespace adaptib::test
