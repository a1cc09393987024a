// SPDX-License-Identifier: BSD-3-Clause
// Addresses of rails and address vectors: by LID with LMC, by GID, and peers that do not match.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

class Path : public VerbsTest {
protected:
    // The path to a rail of another fabric, whose device `change` has modified.
    template <typename Change> PathSpec other(FakeDevice device, Change change) {
        StandIn& lib = lib_;
        const std::vector<FakeDevice> kept = lib.devices;
        change(device);
        lib.devices = {device};
        VerbsOptions options;
        options.calls = &StandIn::calls();
        options.gid_index = gid_of_other_;
        std::unique_ptr<Fabric> fabric;
        EXPECT_EQ(open_verbs_fabric(options, fabric, error_), kOk) << error_;
        PathSpec path = path_to(*fabric->rails()[0]);
        fabric.reset();
        lib.devices = kept;
        return path;
    }
    void unreachable(const PathSpec& path, const char* word) {
        std::unique_ptr<AddressHandle> handle;
        EXPECT_EQ(await_ah(rail(), path, handle), refusal(Reason::unreachable)) << word;
        EXPECT_EQ(handle, nullptr);
        EXPECT_NE(rail().last_error_text().find(word), std::string::npos)
            << rail().last_error_text();
    }
    const ibv_ah_attr& vector_of(const PathSpec& path) {
        std::unique_ptr<AddressHandle> handle;
        EXPECT_EQ(await_ah(rail(), path, handle), kOk) << rail().last_error_text();
        return attributes_of(*handle);
    }
    int gid_of_other_ = -1;
};

TEST_F(Path, InfinibandGoesByLid) {
    options_.service_level = 2;
    options_.traffic_class = 9;
    open_ib(2);
    PathSpec path = path_to(rail(1));
    const ibv_ah_attr plain = vector_of(path);
    EXPECT_EQ(plain.dlid, 32);
    EXPECT_EQ(plain.src_path_bits, 0);
    EXPECT_EQ(plain.port_num, 1);
    EXPECT_EQ(plain.is_global, 0);
    EXPECT_EQ(plain.static_rate, 0);
    EXPECT_EQ(plain.sl, 2);
    path.lid_offset = 3;
    path.source_path_bits = 2;
    path.service_level = 7;
    const ibv_ah_attr chosen = vector_of(path);
    EXPECT_EQ(chosen.dlid, 35);
    EXPECT_EQ(chosen.src_path_bits, 2);
    EXPECT_EQ(chosen.sl, 7);
    std::unique_ptr<AddressHandle> handle;
    path.lid_offset = 4;
    EXPECT_EQ(await_ah(rail(), path, handle), refusal(Reason::bad_argument));
    path.lid_offset = 0;
    path.source_path_bits = 4;
    EXPECT_EQ(await_ah(rail(), path, handle), refusal(Reason::bad_argument));
    path.source_path_bits = 0;
    path.service_level = 16;
    EXPECT_EQ(await_ah(rail(), path, handle), refusal(Reason::bad_argument));
}

TEST_F(Path, EachPathOfAPortTakesLidsOfItsOwn) {
    open_ib(2); // the other port has LIDs 32 to 35
    const RailAddress remote = path_to(rail(1)).remote;
    ASSERT_EQ(rail().paths_to(remote), 4u);
    for (std::uint32_t index = 0; index < 4; ++index) {
        const ibv_ah_attr vector = vector_of(rail().path_to(remote, index));
        EXPECT_EQ(vector.dlid, 32 + index);
        EXPECT_EQ(vector.src_path_bits, index);
        EXPECT_EQ(vector.is_global, 0);
        EXPECT_EQ(vector.port_num, 1);
    }
}

// A subnet manager has given the port another LID since the remote process published its address.
TEST_F(Path, APortIsReachedAtTheLidThatItHasNow) {
    open_ib(1);
    const auto lid = static_cast<std::uint16_t>(lib_.devices[0].ports[0].attributes.lid + 64);
    const PathSpec same =
        other(lib_.devices[0], [&](FakeDevice& device) { device.ports[0].attributes.lid = lid; });
    EXPECT_EQ(vector_of(same).dlid, lib_.devices[0].ports[0].attributes.lid);
    const PathSpec another = other(lib_.devices[0], [&](FakeDevice& device) {
        device.ports[0].attributes.lid = lid;
        device.ports[0].gids[0].gid.raw[15] ^= 1;
    });
    EXPECT_EQ(vector_of(another).dlid, lid);
}

// Each end sends from the LID to which the other end sends.
TEST_F(Path, PortsOfDifferentLmcAgree) {
    lib_.devices = {ib_device("mlx5_0", 2, 0)};
    lib_.devices[0].ports[0].attributes.lmc = 3;
    lib_.devices[0].ports[1].attributes.lid = 64;
    lib_.devices[0].ports[1].attributes.lmc = 1;
    ASSERT_EQ(open(), kOk) << error_;
    const std::uint32_t lid = lib_.devices[0].ports[0].attributes.lid;
    ASSERT_EQ(rail(0).paths_to(rail(1).address()), 8u);
    ASSERT_EQ(rail(1).paths_to(rail(0).address()), 8u);
    for (std::uint32_t index = 0; index < 8; ++index) {
        std::unique_ptr<AddressHandle> handle;
        const PathSpec there = rail(0).path_to(rail(1).address(), index);
        const PathSpec back = rail(1).path_to(rail(0).address(), index);
        ASSERT_EQ(await_ah(rail(0), there, handle), kOk) << rail(0).last_error_text();
        const ibv_ah_attr a = attributes_of(*handle);
        handle.reset();
        ASSERT_EQ(await_ah(rail(1), back, handle), kOk) << rail(1).last_error_text();
        const ibv_ah_attr b = attributes_of(*handle);
        EXPECT_EQ(a.dlid, 64u + b.src_path_bits);
        EXPECT_EQ(b.dlid, lid + a.src_path_bits);
        EXPECT_EQ(a.src_path_bits, index);
        EXPECT_EQ(b.src_path_bits, index % 2);
    }
}

TEST_F(Path, WithoutLmcThereIsOnePath) {
    open_ib(0);
    const RailAddress remote = path_to(rail(1)).remote;
    EXPECT_EQ(rail().paths_to(remote), 1u);
    const ibv_ah_attr vector = vector_of(rail().path_to(remote, 0));
    EXPECT_EQ(vector.src_path_bits, 0);
    EXPECT_EQ(vector.dlid, 32) << "the other's only LID";
    EXPECT_EQ(rail().paths_to({}), 1u) << "of what is no address";
    std::unique_ptr<AddressHandle> handle;
    EXPECT_EQ(await_ah(rail(), rail().path_to({}, 0), handle), refusal(Reason::bad_argument));
}

// Hashes a flow label as the kernel does (rdma_flow_label_to_udp_sport).
std::uint32_t udp_port(std::uint32_t label) {
    return ((label & 0x3fff) ^ ((label & 0xfc000) >> 14)) | 0xc000;
}

TEST_F(Path, EachPathOverRoceHasAFlowLabelOfItsOwn) {
    open_roce();
    const RailAddress remote = other(roce_device("rxe9"), [](FakeDevice&) {}).remote;
    const std::uint32_t count = rail().paths_to(remote);
    ASSERT_EQ(count, 16u);
    std::set<std::uint32_t> ports;
    for (std::uint32_t index = 0; index < count; ++index) {
        const ibv_ah_attr vector = vector_of(rail().path_to(remote, index));
        EXPECT_EQ(vector.grh.sgid_index, 3);
        EXPECT_EQ(vector.dlid, 0);
        EXPECT_EQ(vector.src_path_bits, 0);
        EXPECT_NE(vector.grh.flow_label, 0u) << "else the adapter chooses";
        EXPECT_EQ(vector.grh.flow_label >> 20, 0u);
        ports.insert(udp_port(vector.grh.flow_label));
    }
    EXPECT_EQ(ports.size(), count);
}

// A path that drops packets is found by probes only if they take the route of its queue pair.
TEST_F(Path, AHandleTakesTheRouteOfAQueuePair) {
    open_roce();
    const RailAddress remote = other(roce_device("rxe9"), [](FakeDevice&) {}).remote;
    for (std::uint32_t index = 0; index < 2; ++index) {
        QueuePair& pair = qp(init(QpType::rc, cq()));
        QpAttributes a = attributes(QpState::init, rail());
        ASSERT_EQ(pair.modify(a, kRcInit), kOk);
        a.state = QpState::ready_to_receive;
        a.path = rail().path_to(remote, index);
        ASSERT_EQ(pair.modify(a, kRcReceive), kOk);
        const ibv_global_route& route = lib_.modified.back().attributes.ah_attr.grh;
        EXPECT_NE(route.flow_label, 0u);
        EXPECT_EQ(vector_of(a.path).grh.flow_label, route.flow_label);
    }
}

TEST_F(Path, ProcessesOfAHostTakeDifferentRoutes) {
    open_roce();
    const RailAddress remote = other(roce_device("rxe9"), [](FakeDevice&) {}).remote;
    std::set<std::uint32_t> ports;
    constexpr std::size_t kProcesses = 8;
    for (std::size_t i = 0; i < kProcesses; ++i) {
        std::unique_ptr<Fabric> fabric;
        ASSERT_EQ(open_verbs_fabric(options_, fabric, error_), kOk) << error_;
        ports.insert(udp_port(fabric->rails()[0]->path_to(remote, 0).flow_label));
    }
    EXPECT_EQ(ports.size(), kProcesses);
}

TEST_F(Path, TheTrafficClassIsThatOfRoceUnlessOneIsGiven) {
    const auto class_of = [&](const FakeDevice& device, int gid_index) {
        lib_.devices = {device};
        options_.gid_index = gid_index;
        EXPECT_EQ(open(), kOk) << error_;
        return int{vector_of(path_to(rail())).grh.traffic_class};
    };
    FakeDevice infiniband = ib_device("mlx5_0", 1, 0);
    infiniband.ports[0].attributes.flags = IBV_QPF_GRH_REQUIRED;
    EXPECT_EQ(class_of(roce_device("rxe0"), 3), 106);
    EXPECT_EQ(class_of(roce_device("rxe0"), 2), 0) << "RoCE v1 has no DSCP";
    EXPECT_EQ(class_of(infiniband, -1), 0);
    for (const int given : {0, 200}) {
        options_.traffic_class = given;
        EXPECT_EQ(class_of(roce_device("rxe0"), 3), given);
        EXPECT_EQ(class_of(infiniband, -1), given);
    }
}

TEST_F(Path, InfinibandWithGrh) {
    lib_.devices = {ib_device("mlx5_0", 1, 0)};
    lib_.devices[0].ports[0].attributes.flags = IBV_QPF_GRH_REQUIRED;
    ASSERT_EQ(open(), kOk) << error_;
    const ibv_ah_attr& ah = vector_of(path_to(rail()));
    EXPECT_EQ(ah.is_global, 1);
    EXPECT_EQ(ah.dlid, 16);
    EXPECT_EQ(std::memcmp(&ah.grh.dgid, &lib_.devices[0].ports[0].gids[0].gid, 16), 0);
}

TEST_F(Path, RoceGoesByGid) {
    options_.traffic_class = 106;
    open_roce();
    PathSpec path = other(roce_device("rxe9"), [](FakeDevice& d) {
        d.ports[0].gids[3] = gid("::ffff:10.0.0.9", IBV_GID_TYPE_ROCE_V2, 3);
    });
    path.flow_label = 0xfabcde1;
    const ibv_ah_attr ah = vector_of(path);
    EXPECT_EQ(ah.is_global, 1);
    EXPECT_EQ(ah.dlid, 0);
    EXPECT_EQ(ah.grh.sgid_index, 3);
    EXPECT_EQ(ah.grh.traffic_class, 106);
    EXPECT_EQ(ah.grh.flow_label, 0xbcde1u) << "20 bits";
    EXPECT_GT(ah.grh.hop_limit, 1) << "it may be routed";
    char text[INET6_ADDRSTRLEN];
    EXPECT_STREQ(inet_ntop(AF_INET6, ah.grh.dgid.raw, text, sizeof text), "::ffff:10.0.0.9");
    path.gid_index = 1;
    EXPECT_EQ(vector_of(path).grh.sgid_index, 1) << "as the path says";
}

TEST_F(Path, PeersThatDoNotFit) {
    open_ib(0);
    const FakeDevice ib = ib_device("mlx5_9", 1, 0);
    unreachable(other(roce_device("rxe0"), [](FakeDevice&) {}), "Ethernet");
    unreachable(other(ib, [](FakeDevice& d) { d.ports[0].pkeys = {0x8001}; }), "0x8001");
    unreachable(other(ib, [](FakeDevice& d) { d.ports[0].attributes.lid = 0; }), "LID");
    unreachable(
        other(ib,
              [](FakeDevice& d) { d.ports[0].gids[0] = gid("fe80:0:0:1::7", IBV_GID_TYPE_IB, 0); }),
        "subnet");
    vector_of(other(ib, [](FakeDevice& d) { d.ports[0].pkeys = {0x7fff}; }));
    EXPECT_EQ(rail().last_error_text(), "") << "and nothing to say";
}

TEST_F(Path, TwoLimitedMembersDoNotTalk) {
    lib_.devices = {ib_device("mlx5_0", 1, 0)};
    lib_.devices[0].ports[0].pkeys = {0x7fff};
    ASSERT_EQ(open(), kOk) << error_;
    unreachable(path_to(rail()), "limited");
}

TEST_F(Path, RocePeersThatDoNotFit) {
    open_roce();
    const auto nothing = [](FakeDevice&) {};
    gid_of_other_ = 2;
    unreachable(other(roce_device("b"), nothing), "RoCE v1");
    gid_of_other_ = 1;
    unreachable(other(roce_device("b"), nothing), "IPv6");
}

TEST_F(Path, ConnectionsTakeTheSmallerMtu) {
    open_roce();
    for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096}) {
        QueuePair& pair = qp(init(QpType::rc, cq()));
        QpAttributes a = attributes(QpState::init, rail());
        ASSERT_EQ(pair.modify(a, kRcInit), kOk);
        a.state = QpState::ready_to_receive;
        a.path = other(roce_device("b"),
                       [mtu](FakeDevice& d) { d.ports[0].attributes.active_mtu = mtu; });
        ASSERT_EQ(pair.modify(a, kRcReceive), kOk);
        EXPECT_EQ(lib_.modified.back().attributes.path_mtu, std::min(mtu, IBV_MTU_2048));
    }
}

// A longer datagram would vanish.
TEST_F(Path, DatagramsTakeTheSmallerMtu) {
    open_roce();
    for (const auto& [mtu, bytes] :
         {std::pair{IBV_MTU_256, 256u}, {IBV_MTU_2048, 2048u}, {IBV_MTU_4096, 2048u}}) {
        const PathSpec path = other(roce_device("b"), [mtu = mtu](FakeDevice& d) {
            d.ports[0].attributes.active_mtu = mtu;
        });
        std::unique_ptr<AddressHandle> handle;
        EXPECT_EQ(await_ah(rail(), path, handle), kOk) << rail().last_error_text();
        EXPECT_EQ(rail().datagram_bytes_to(path.remote), bytes);
        EXPECT_EQ(rail().dc_suits(path.remote), mtu == IBV_MTU_2048) << "it has one MTU for all";
    }
}

TEST_F(Path, ADevicePlacesInOrderIfItSaysSoOrNobodyCanTell) {
    constexpr std::uint32_t kSoftRoce = 0xffffff;
    for (const bool early : {true, false}) {
        SCOPED_TRACE(early);
        lib_.tells_order_early = early;
        for (const auto& [answer, vendor, in_order] : {std::tuple{1, 0x2c9u, true},
                                                       {0, 0x2c9u, false},
                                                       {-1, 0x1425u, true},
                                                       {-1, 0x2c9u, false},
                                                       {0, kSoftRoce, true}}) {
            lib_.writes_in_order = answer;
            lib_.devices = {ib_device("mlx5_0", 1, 0)};
            lib_.devices[0].limits.vendor_id = vendor;
            ASSERT_EQ(open(), kOk) << error_;
            EXPECT_EQ(rail().info().places_in_order, in_order) << answer << " " << vendor;
        }
    }
}

TEST_F(Path, ConnectionsToPeersThatDoNotFit) {
    open_ib(0);
    QueuePair& pair = qp(init(QpType::rc, cq()));
    QpAttributes a = attributes(QpState::init, rail());
    ASSERT_EQ(pair.modify(a, kRcInit), kOk);
    a.state = QpState::ready_to_receive;
    a.path = other(ib_device("c", 1, 0), [](FakeDevice& d) { d.ports[0].pkeys = {0x8005}; });
    EXPECT_EQ(pair.modify(a, kRcReceive), refusal(Reason::unreachable));
    EXPECT_NE(rail().last_error_text().find("0x8005"), std::string::npos);
    EXPECT_EQ(pair.query().state, QpState::init);
}

TEST_F(Path, MalformedAddressesAreRefused) {
    open_roce();
    std::unique_ptr<AddressHandle> handle;
    const PathSpec good = path_to(rail());
    for (std::uint16_t size = 0; size <= RailAddress::kMaxBytes + 1; ++size) {
        PathSpec bad = good;
        bad.remote.size = size;
        EXPECT_EQ(await_ah(rail(), bad, handle).ok(), size == good.remote.size) << size;
        handle.reset();
    }
    // Any bytes that come from the wire are refused or harmless.
    for (std::size_t at = 0; at < good.remote.size; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            PathSpec bad = good;
            bad.remote.bytes[at] ^= static_cast<std::byte>(1u << bit);
            const Status status = await_ah(rail(), bad, handle);
            EXPECT_EQ(status.ok(), handle != nullptr);
            if (at < 4) {
                EXPECT_EQ(status, refusal(Reason::bad_argument)) << "magic, byte " << at;
            }
            handle.reset();
        }
    }
}

TEST_F(Path, AnAddressWithValuesThatDoNotExistIsRefused) {
    open_ib(1);
    const auto decodes = [this](auto change) {
        RailAddress address = rail().address();
        verbs::WireAddress wire{};
        std::memcpy(&wire, address.bytes.data(), sizeof wire);
        change(wire);
        std::memcpy(address.bytes.data(), &wire, sizeof wire);
        return verbs::decode_address(address, wire);
    };
    EXPECT_TRUE(decodes([](verbs::WireAddress& wire) { wire.lmc = 7; }));
    EXPECT_FALSE(decodes([](verbs::WireAddress& wire) { wire.lmc = 8; }));
    EXPECT_TRUE(decodes([](verbs::WireAddress& wire) { wire.grh = 1; }));
    EXPECT_FALSE(decodes([](verbs::WireAddress& wire) { wire.grh = 2; }));
    EXPECT_FALSE(decodes([](verbs::WireAddress& wire) { wire.cm = 1; })) << "nothing follows";
    EXPECT_FALSE(decodes([](verbs::WireAddress& wire) { wire.mtu = 0; }));
    EXPECT_FALSE(decodes([](verbs::WireAddress& wire) { wire.more = 1; })) << "nothing follows";
}

TEST_F(Path, RefusedAddressHandles) {
    open_roce();
    std::unique_ptr<AddressHandle> handle;
    lib_.fail("create_ah", 1, EHOSTUNREACH);
    EXPECT_EQ(await_ah(rail(), rail().path_to(rail().address(), 1), handle),
              refusal(Reason::unreachable));
    lib_.fail("create_ah", 1, ENOMEM);
    EXPECT_EQ(await_ah(rail(), rail().path_to(rail().address(), 2), handle),
              refusal(Reason::no_memory));
    EXPECT_EQ(handle, nullptr);
}

} // namespace
} // namespace adaptib::test
