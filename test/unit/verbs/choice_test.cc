// SPDX-License-Identifier: BSD-3-Clause
// Choice of the devices, ports, GIDs and partitions that become rails, and the text when none does.
#include <stdlib.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

using testing::Test;

class Choice : public VerbsTest {
protected:
    std::string names() const {
        std::string text;
        for (const auto& each : fabric_->rails()) {
            text += (text.empty() ? "" : " ") + each->info().name;
        }
        return text;
    }
    // Expects that opening fails for this reason, with a text that has all of these words.
    void refused(Reason reason, const std::vector<std::string>& words) {
        EXPECT_EQ(open(), refusal(reason));
        EXPECT_EQ(fabric_, nullptr);
        for (const std::string& word : words) {
            EXPECT_NE(error_.find(word), std::string::npos) << word << " is not in: " << error_;
        }
    }
    // The index of the GID that a queue pair would send from.
    int gid_index() {
        std::unique_ptr<AddressHandle> handle;
        EXPECT_EQ(await_ah(rail(), path_to(rail()), handle), kOk);
        return attributes_of(*handle).grh.sgid_index;
    }
    void three_devices() {
        lib_.devices = {ib_device("mlx5_10", 1, 0), roce_device("rxe0"), ib_device("mlx5_2", 2, 0)};
    }
};

TEST_F(Choice, DevicesOfOneDriverAreInTheOrderOfTheirNumbers) {
    lib_.devices = {roce_device("wxyz_2"), roce_device("mlx5_1"), roce_device("mlx5_10"),
                    roce_device("mlx5_0"), roce_device("abcd_10")};
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "abcd_10:1 mlx5_0:1 mlx5_1:1 mlx5_10:1 wxyz_2:1");
}

TEST_F(Choice, AllPortsOfAllDevicesByName) {
    three_devices();
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_2:1 mlx5_2:2 mlx5_10:1 rxe0:1");
    EXPECT_TRUE(fabric_->notices().empty());
    EXPECT_EQ(lib_.living("list"), 0) << "the list is given back once devices are open";
    EXPECT_EQ(lib_.living("context"), 3) << "one for both ports";
}

TEST_F(Choice, PacketsLiveAsLongAsTheSubnetManagerSaysWithinBounds) {
    for (const auto& [timeout, life] : {std::pair{0, 18}, {17, 18}, {19, 19}, {31, 21}}) {
        lib_.devices = {ib_device("mlx5_0", 1, 0)};
        lib_.devices[0].ports[0].attributes.subnet_timeout = static_cast<std::uint8_t>(timeout);
        ASSERT_EQ(open(), kOk) << error_;
        EXPECT_EQ(rail().info().packet_life, Nanoseconds{std::int64_t{4096} << life}) << timeout;
        fabric_.reset();
    }
}

TEST_F(Choice, IncludeChoosesAndOrders) {
    three_devices();
    options_.if_include = " rxe0 , mlx5_2:2,";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "rxe0:1 mlx5_2:2");
    EXPECT_EQ(lib_.living("context"), 2) << "what is not chosen is not opened";
}

TEST_F(Choice, ExcludeLeavesOut) {
    three_devices();
    options_.if_exclude = "mlx5_2:1,rxe0";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_2:2 mlx5_10:1");
}

TEST_F(Choice, ExcludingWhatIsNotThereIsANotice) {
    three_devices();
    options_.if_exclude = "mlx4_0";
    ASSERT_EQ(open(), kOk) << error_;
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("mlx4_0"), std::string::npos);
    EXPECT_NE(fabric_->notices()[0].find("mlx5_2, mlx5_10, rxe0"), std::string::npos);
}

TEST_F(Choice, StandbysComeLast) {
    three_devices();
    options_.if_standby = "mlx5_2,rxe0:1";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_10:1 rxe0:1 mlx5_2:1 mlx5_2:2") << "those named as a whole";
    EXPECT_FALSE(fabric_->rails()[0]->info().standby);
    EXPECT_TRUE(fabric_->rails()[1]->info().standby);
    EXPECT_TRUE(fabric_->rails()[2]->info().standby);
    EXPECT_TRUE(fabric_->rails()[3]->info().standby);
}

TEST_F(Choice, AStandbyThatIsNotThereIsANotice) {
    three_devices();
    options_.if_standby = "mlx4_0";
    ASSERT_EQ(open(), kOk) << error_;
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("if_standby names mlx4_0"), std::string::npos);
}

TEST_F(Choice, ExcludingEverything) {
    three_devices();
    options_.if_exclude = "mlx5_2,mlx5_10,rxe0";
    refused(Reason::no_device, {"if_exclude", "mlx5_2, mlx5_10, rxe0"});
}

TEST_F(Choice, ExcludingEveryPort) {
    lib_.devices = {roce_device("rxe0")};
    options_.if_exclude = "rxe0:1";
    refused(Reason::no_device, {"if_exclude", "rxe0"});
}

TEST_F(Choice, BothListsContradict) {
    three_devices();
    options_.if_include = "rxe0";
    options_.if_exclude = "mlx5_2";
    refused(Reason::bad_argument, {"rxe0", "mlx5_2", "exclude each other"});
}

TEST_F(Choice, UnknownDevicesAreNamedWithThoseThatThereAre) {
    three_devices();
    options_.if_include = "rxe0,mlx4_0";
    refused(Reason::bad_argument, {"mlx4_0", "mlx5_2, mlx5_10, rxe0"});
    lib_.devices.clear();
    refused(Reason::bad_argument, {"none"});
}

TEST_F(Choice, PortsThatADeviceDoesNotHave) {
    three_devices();
    options_.if_include = "mlx5_2:3";
    refused(Reason::bad_argument, {"port 3", "mlx5_2", "2"});
}

TEST_F(Choice, MalformedEntries) {
    three_devices();
    for (const char* text : {"rxe0:", "rxe0:x", "rxe0:0", "rxe0:256", "rxe0:1x", "rxe0:-1"}) {
        options_.if_include = text;
        refused(Reason::bad_argument, {text});
    }
}

TEST_F(Choice, NoDevice) { refused(Reason::no_device, {"no RDMA device"}); }

TEST_F(Choice, ErrorsOfTheList) {
    lib_.fail("get_device_list", 1, ENOSYS);
    refused(Reason::no_device, {"no RDMA device", "modules"});
    lib_.fail("get_device_list", 1, EPERM);
    refused(Reason::no_permission, {"cannot be listed"});
    lib_.fail("get_device_list", 1, ENOMEM);
    refused(Reason::no_memory, {"cannot be listed"});
}

TEST_F(Choice, DevicesThatCannotBeOpenedAreLeftOut) {
    three_devices();
    lib_.fail("open_device", 1, EACCES);
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_10:1 rxe0:1");
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("mlx5_2 cannot be opened"), std::string::npos);
}

TEST_F(Choice, TheOnlyDeviceIsForbidden) {
    lib_.devices = {roce_device("rxe0")};
    lib_.fail("open_device", 1, EACCES);
    refused(Reason::no_permission, {"rxe0", "Permission denied"});
}

TEST_F(Choice, OtherTransportsAreLeftOut) {
    lib_.devices = {roce_device("iw0"), roce_device("usnic0")};
    lib_.devices[0].node_type = IBV_NODE_RNIC;
    lib_.devices[0].transport = IBV_TRANSPORT_IWARP;
    lib_.devices[1].node_type = IBV_NODE_UNSPECIFIED;
    lib_.devices[1].transport = IBV_TRANSPORT_UNSPECIFIED;
    refused(Reason::not_supported, {"iw0 speaks iWARP, which has no datagrams",
                                    "usnic0 speaks neither InfiniBand nor RoCE"});
}

TEST_F(Choice, PortsThatAreDown) {
    three_devices();
    lib_.devices[2].ports[0].attributes.state = IBV_PORT_DOWN;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_2:2 mlx5_10:1 rxe0:1");
    EXPECT_TRUE(fabric_->notices().empty()) << "nobody asked for it";
    fabric_.reset();
    lib_.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_2:2 rxe0:1");
    EXPECT_EQ(lib_.living("context"), 2) << "a device without a rail is closed";
    fabric_.reset();
    options_.if_include = "mlx5_2";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "mlx5_2:2");
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("mlx5_2:1 is down"), std::string::npos);
    fabric_.reset();
    lib_.devices[2].ports[1].attributes.state = IBV_PORT_INIT;
    refused(Reason::no_device, {"mlx5_2:1 is down", "mlx5_2:2 is down"});
}

TEST_F(Choice, TheBestGid) {
    lib_.devices = {roce_device("rxe0")};
    FakePort& port = lib_.devices[0].ports[0];
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 3) << "IPv4 of v2";
    fabric_.reset();
    port.gids = {gid("fe80::2", IBV_GID_TYPE_ROCE_V2, 0), gid("::", IBV_GID_TYPE_ROCE_V2, 1),
                 gid("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, 2),
                 gid("fd00::1", IBV_GID_TYPE_ROCE_V2, 3)};
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 3) << "global before link-local";
    fabric_.reset();
    port.gids.resize(3);
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 0) << "link-local is better than v1";
    fabric_.reset();
    port.gids[0].gid_type = IBV_GID_TYPE_ROCE_V1;
    refused(Reason::no_device, {"rxe0:1", "no usable GID", "fe80::2", "RoCE v1"});
    port.gids.clear();
    refused(Reason::no_device, {"rxe0:1", "no usable GID", "none"});
}

// Containers that share a port see each other's GIDs. Each process has the address of the loopback
// interface.
TEST_F(Choice, AnAddressOfThisNetworkNamespaceIsTheBest) {
    lib_.devices = {roce_device("rxe0")};
    std::vector<ibv_gid_entry>& gids = lib_.devices[0].ports[0].gids;
    gids.push_back(gid("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V1, 4));
    gids.push_back(gid("::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, 5));
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 5);
    options_.gid_index = 3;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 3) << "the user knows better";
}

TEST_F(Choice, TheGidAskedFor) {
    lib_.devices = {roce_device("rxe0")};
    options_.gid_index = 0;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(gid_index(), 0);
    fabric_.reset();
    options_.gid_index = 4;
    refused(Reason::bad_argument, {"index 4", "3 (RoCE v2) ::ffff:10.0.0.1"});
    options_.gid_index = 256;
    refused(Reason::bad_argument, {"256"});
}

TEST_F(Choice, Partitions) {
    lib_.devices = {ib_device("mlx5_0", 1, 0)};
    lib_.devices[0].ports[0].pkeys = {0xffff, 0, 0x8001, 0x0002};
    const auto index_used = [&] {
        qp(init(QpType::rc, cq()));
        EXPECT_EQ(qps_.back()->modify(attributes(QpState::init, rail()), kRcInit), kOk);
        const int used = lib_.modified.back().attributes.pkey_index;
        end_objects();
        fabric_.reset();
        return used;
    };
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(index_used(), 0);
    options_.partition = 0x0001;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(index_used(), 2);
    options_.partition = 0x8002;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(index_used(), 3);
    options_.partition = 0x8003;
    refused(Reason::bad_argument, {"mlx5_0:1", "0x8003", "0xffff, 0x8001, 0x0002"});
    options_.partition = 0;
    lib_.devices[0].ports[0].pkeys = {0, 0};
    refused(Reason::no_device, {"mlx5_0:1", "no partition"});
}

TEST_F(Choice, LimitsAreTheDevices) {
    lib_.devices = {ib_device("mlx5_0", 1, 2), roce_device("rxe0")};
    ASSERT_EQ(open(), kOk) << error_;
    const RailInfo& ib = rail(0).info();
    EXPECT_EQ(ib.link_layer, LinkLayer::infiniband);
    EXPECT_EQ(ib.paths, 4u);
    EXPECT_EQ(ib.datagram_bytes, 2048u);
    EXPECT_EQ(ib.max_message_bytes, Bytes{1} << 30);
    EXPECT_EQ(ib.inline_bytes, 512u);
    EXPECT_EQ(ib.max_gather, 6u) << "the least of all kinds";
    EXPECT_EQ(ib.max_send_depth, 4096u);
    EXPECT_EQ(ib.max_cq_depth, 8191u);
    EXPECT_EQ(ib.max_reads, 8u);
    EXPECT_EQ(ib.rate.value, 12'500'000'000u) << "4 lanes of EDR";
    for (const Capability c : {Capability::rc, Capability::ud, Capability::srq,
                               Capability::rdma_read, Capability::rdma_write, Capability::write_imm,
                               Capability::atomic64, Capability::migration}) {
        EXPECT_TRUE(ib.has(c)) << static_cast<int>(c);
    }
    for (const Capability c :
         {Capability::dc, Capability::reliable_ud, Capability::direct, Capability::whole_memory}) {
        EXPECT_FALSE(ib.has(c)) << static_cast<int>(c);
    }
    EXPECT_EQ(rail(1).info().link_layer, LinkLayer::ethernet);
    EXPECT_EQ(rail(1).info().paths, 16u) << "flow labels";
    EXPECT_FALSE(rail(1).info().has(Capability::migration));
    EXPECT_EQ(rail(1).state(), PortState::active);
}

TEST_F(Choice, LesserDevices) {
    lib_.devices = {roce_device("a0"), roce_device("b0"), roce_device("c0")};
    lib_.devices[0].inline_bytes = 100;
    lib_.devices[1].rc = false;
    lib_.devices[1].limits.max_sge = 3;
    lib_.devices[2].limits.max_srq = 0;
    lib_.devices[2].limits.max_qp_rd_atom = 0;
    lib_.devices[2].inline_bytes = 0;
    ASSERT_EQ(open(), kOk) << error_;
    const RailInfo& a = rail(0).info();
    EXPECT_EQ(a.inline_bytes, 64u);
    const RailInfo& b = rail(1).info();
    EXPECT_FALSE(b.has(Capability::rc));
    EXPECT_FALSE(b.has(Capability::rdma_write));
    EXPECT_FALSE(b.has(Capability::atomic64));
    EXPECT_EQ(b.max_message_bytes, 0u);
    EXPECT_EQ(b.max_gather, 2u) << "one is the GRH's";
    const RailInfo& c = rail(2).info();
    EXPECT_FALSE(c.has(Capability::srq));
    EXPECT_FALSE(c.has(Capability::rdma_read));
    EXPECT_FALSE(c.has(Capability::atomic64));
    EXPECT_EQ(c.inline_bytes, 0u);
    std::unique_ptr<SharedReceiveQueue> none;
    EXPECT_EQ(rail(2).create_srq(1, none), refusal(Reason::not_supported));
}

// Omni-Path: ibv_create_qp() accepts any max_inline_data and returns 0.
TEST_F(Choice, InlineIsWhatAQueuePairGets) {
    lib_.devices = {ib_device("hfi1_0", 1, 1)};
    lib_.devices[0].no_inline = true;
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(rail(0).info().inline_bytes, 0u);
}

TEST_F(Choice, NumaNodeComesFromSysfs) {
    char folder[] = "/tmp/adaptib-verbs-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    std::filesystem::create_directory(std::string(folder) + "/device");
    std::ofstream(std::string(folder) + "/device/numa_node") << "1\n";
    lib_.devices = {roce_device("a0"), roce_device("b0")};
    lib_.devices[0].sysfs = folder;
    lib_.devices[1].sysfs = "/nonexistent";
    options_.distance = [](int) { return 10; };
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(rail(0).info().numa_node, 1);
    EXPECT_EQ(rail(1).info().numa_node, -1);
    std::filesystem::remove_all(folder);
}

TEST_F(Choice, TheNearestComesFirstWhereNobodyChooses) {
    char folder[] = "/tmp/adaptib-verbs-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    lib_.devices.clear();
    for (int i = 0; i < 4; ++i) {
        const std::string path = std::string(folder) + "/" + std::to_string(i);
        std::filesystem::create_directories(path + "/device");
        std::ofstream(path + "/device/numa_node") << i % 3 << "\n";
        lib_.devices.push_back(roce_device("a" + std::to_string(i)));
        lib_.devices.back().sysfs = path;
    }
    options_.distance = [](int node) { return 30 - 10 * node; };
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "a2:1 a1:1 a0:1 a3:1") << "equally far ones by name";
    EXPECT_EQ(rail(0).info().distance, 10u);
    EXPECT_EQ(rail(3).info().distance, 30u);
    fabric_.reset();
    options_.if_exclude = "a1";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "a2:1 a0:1 a3:1");
    fabric_.reset();
    options_.if_exclude = "";
    options_.if_include = "a3,a2";
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(names(), "a3:1 a2:1") << "as the user has it";
    EXPECT_EQ(rail(0).info().distance, 30u);
    std::filesystem::remove_all(folder);
}

TEST_F(Choice, ForkSupport) {
    lib_.devices = {roce_device("rxe0")};
    ASSERT_EQ(open(), kOk);
    EXPECT_EQ(lib_.count("fork_init"), 1);
    fabric_.reset();
    lib_.fail("fork_init", 1, EINVAL);
    ASSERT_EQ(open(), kOk);
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("fork"), std::string::npos);
    fabric_.reset();
    for (const ibv_fork_status status : {IBV_FORK_ENABLED, IBV_FORK_UNNEEDED}) {
        lib_.fork = status;
        ASSERT_EQ(open(), kOk);
        EXPECT_EQ(rail().info().copies_at_fork, status == IBV_FORK_UNNEEDED);
        fabric_.reset();
    }
    lib_.fork = IBV_FORK_DISABLED;
    options_.fork_support = false;
    ASSERT_EQ(open(), kOk);
    EXPECT_EQ(lib_.count("fork_init"), 2);
}

TEST_F(Choice, SeveralFabricsOfOneProcess) {
    lib_.devices = {roce_device("rxe0")};
    ASSERT_EQ(open(), kOk);
    std::unique_ptr<Fabric> other;
    ASSERT_EQ(open_verbs_fabric(options_, other, error_), kOk);
    const RailAddress a = rail().address();
    const RailAddress b = other->rails()[0]->address();
    EXPECT_EQ(a.size, b.size);
    EXPECT_NE(a.bytes, b.bytes);
    std::unique_ptr<AddressHandle> handle;
    EXPECT_EQ(await_ah(rail(), path_to(*other->rails()[0]), handle), kOk);
}

} // namespace
} // namespace adaptib::test
