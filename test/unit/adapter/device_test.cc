// SPDX-License-Identifier: BSD-3-Clause
// Devices of the virtual adapter, seen through libibverbs: limits, P_Key tables, switches.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unit/adapter/opened_device.h"
#include "unit/adapter/text_topology.h"

namespace adaptib::hca {
namespace {

constexpr std::size_t kMtu = 256; // of the paths

// The library reads the variables once, at its first use.
class Hosts : public ::testing::Environment {
public:
    void SetUp() override {
        file_ = std::make_unique<TextTopology>(R"(
host a
    device v0 max_sge=3 max_inline=40 max_reads=2 max_qp=2 max_qp_wr=50 max_cqe=60 max_srq=1
        port lid=4 pkeys=0x8001,0x0002,0x0003,0x7fff
    device v1 max_srq=0 in_order=0 scrambled_writes=1
        port lid=8 pkeys=0x7fff,0x0001,0x8002,0x0003
    device v2
        port lid=12 pkeys=0x8001
    device v3 scrambled_writes=2
        port lid=16 pkeys=0x8001
    device v4 reusable=0
        port lid=24
    device v5 dc=1 dc_initiators=1
        port lid=28
    device v6 scrambled_order=2
        port lid=32 pkeys=0x8001
    device v7 relaxed_order=1
        port lid=36 pkeys=0x8001
    device r0
        port link=ethernet gid=10.0.0.1 gid=10.1.0.1%5
    device mlx5 driver=mlx5
        port lid=64
    device mlx5e driver=mlx5
        port link=ethernet gid=10.0.1.1 active_mtu=1024
    device mlx4 driver=mlx4
        port lid=65
    device hfi1 driver=hfi1
        port lid=66 active_mtu=2048
    device qib driver=qib
        port lid=67
    device bnxt_re driver=bnxt_re
        port link=ethernet gid=10.0.1.2 active_mtu=1024
    device irdma driver=irdma
        port link=ethernet gid=10.0.1.3
    device rxe driver=rxe max_message=65536
        port link=ethernet gid=10.0.1.4 active_mtu=1024 mtu=2048
    device siw driver=siw
        port link=ethernet gid=10.0.1.5
    device efa driver=efa
        port link=ethernet gid=10.0.1.6
    device hns driver=hns
        port link=ethernet gid=10.0.1.7
    device strict driver=strict
        port lid=68
    device full_mlx5 driver=mlx5 max_qp=2 max_cq=2 max_pd=2 max_mr=2 max_ah=2 max_srq=2
        port lid=69
    device full_rxe driver=rxe max_qp=2 max_cq=2 max_pd=2 max_mr=2 max_ah=2 max_srq=2
        port lid=70
    device full_strict driver=strict max_qp=2 max_cq=2 max_pd=2 max_mr=2 max_ah=2 max_srq=2
        port lid=71
    device group driver=mlx5 cgroup_objects=4
        port lid=72
    device taken driver=mlx5
        port lid=73
    device taken_qib driver=qib
        port lid=74
host b
    device v0
        port lid=20
    device r0
        port link=ethernet gid=10.0.0.2
)");
        fabric_ = file_->path() + ".fabric";
        setenv("ADAPTIB_HCA_TOPOLOGY", file_->path().c_str(), 1);
        setenv("ADAPTIB_HCA_FABRIC", fabric_.c_str(), 1);
        setenv("ADAPTIB_HCA_HOST", "a", 1);
    }
    void TearDown() override {
        std::remove(fabric_.c_str());
        file_.reset();
    }

private:
    std::unique_ptr<TextTopology> file_;
    std::string fabric_;
};
[[maybe_unused]] const auto* const hosts = ::testing::AddGlobalTestEnvironment(new Hosts);

// A queue pair of each of two devices, which use entries of their ports' P_Key tables.
class Pair {
public:
    Pair(const Opened& from, std::uint16_t from_pkey, const Opened& to, std::uint16_t to_pkey)
        : from_(from), source_(from.queue_pair()), target_(to.queue_pair()) {
        EXPECT_EQ(connect(source_.get(), from_pkey, to.lid, target_->qp_num), 0);
        EXPECT_EQ(connect(target_.get(), to_pkey, from.lid, source_->qp_num), 0);
    }

    ibv_qp* target() const { return target_.get(); }

    void post_write(const std::vector<std::uint8_t>& data, const ibv_mr& local,
                    const ibv_mr& remote) const {
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(data.data()),
                      static_cast<std::uint32_t>(data.size()), local.lkey};
        ibv_send_wr work{};
        work.sg_list = &piece;
        work.num_sge = 1;
        work.opcode = IBV_WR_RDMA_WRITE;
        work.send_flags = IBV_SEND_SIGNALED;
        work.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(remote.addr);
        work.wr.rdma.rkey = remote.rkey;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_send(source_.get(), &work, &bad), 0);
    }
    ibv_wc_status completed() const {
        const std::optional<ibv_wc> wc = completion(from_.cq.get(), kLong);
        EXPECT_TRUE(wc.has_value()) << "no completion";
        return wc.has_value() ? wc->status : IBV_WC_GENERAL_ERR;
    }

private:
    const Opened& from_;
    Qp source_;
    Qp target_;
};

// Status of a short write between two entries of P_Key tables.
ibv_wc_status between(std::uint16_t from_pkey, std::uint16_t to_pkey) {
    const Opened from(0);
    const Opened to(1);
    const std::vector<std::uint8_t> data(8, 7);
    std::vector<std::uint8_t> memory(8);
    const Mr local = from.registered(const_cast<std::uint8_t*>(data.data()), data.size());
    const Mr remote = to.registered(memory.data(), memory.size());
    const Pair pair(from, from_pkey, to, to_pkey);
    pair.post_write(data, *local, *remote);
    const ibv_wc_status status = pair.completed();
    EXPECT_EQ(memory == data, status == IBV_WC_SUCCESS);
    return status;
}

// The adapter reaches the file's memory, though nothing is mapped at the region's address.
TEST(AdapterDevice, AFilesMemoryIsWrittenByItsAddress) {
    constexpr std::size_t kOffset = 5000; // not at a page's begin
    const int file = memfd_create("accelerator", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, 3 * 4096), 0);
    const Opened from(0);
    const Opened to(1);
    const std::vector<std::uint8_t> data(600, 7);
    const Mr local = from.registered(const_cast<std::uint8_t*>(data.data()), data.size());
    constexpr std::uint64_t kAddress = 0x123456789000; // of nothing
    const Mr remote(ibv_reg_dmabuf_mr(to.pd.get(), kOffset, data.size(), kAddress, file,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    ASSERT_NE(remote, nullptr);
    const Pair pair(from, 0, to, 1);
    ibv_mr named = *remote;
    named.addr = reinterpret_cast<void*>(kAddress);
    pair.post_write(data, *local, named);
    EXPECT_EQ(pair.completed(), IBV_WC_SUCCESS);
    std::vector<std::uint8_t> got(data.size());
    EXPECT_EQ(pread(file, got.data(), got.size(), kOffset), static_cast<ssize_t>(got.size()));
    EXPECT_EQ(got, data);
    close(file);
    EXPECT_EQ(ibv_reg_dmabuf_mr(to.pd.get(), 0, 8, kAddress, -1, IBV_ACCESS_LOCAL_WRITE), nullptr);
}

TEST(AdapterDevice, LimitsAreReported) {
    const Opened device(0);
    ibv_device_attr attributes{};
    ASSERT_EQ(ibv_query_device(device.context.get(), &attributes), 0);
    EXPECT_EQ(attributes.max_sge, 3);
    EXPECT_EQ(attributes.max_qp_rd_atom, 2);
    EXPECT_EQ(attributes.max_qp, 2);
    EXPECT_EQ(attributes.max_qp_wr, 50);
    EXPECT_EQ(attributes.max_cqe, 60);
    EXPECT_EQ(attributes.max_srq, 1);
    EXPECT_EQ(attributes.max_pkeys, 4);
}

TEST(AdapterDevice, CapacitiesOfAQueuePair) {
    const Opened device(0);
    const struct {
        std::uint32_t ibv_qp_cap::*capacity;
        std::uint32_t most;
    } cases[] = {
        {&ibv_qp_cap::max_send_sge, 3},     {&ibv_qp_cap::max_recv_sge, 3},
        {&ibv_qp_cap::max_send_wr, 50},     {&ibv_qp_cap::max_recv_wr, 50},
        {&ibv_qp_cap::max_inline_data, 40},
    };
    for (const auto& one : cases) {
        EXPECT_EQ(device.error_of(one.capacity, one.most), 0) << one.most;
        EXPECT_EQ(device.error_of(one.capacity, one.most + 1), EINVAL) << one.most;
    }
}

TEST(AdapterDevice, QueuePairsAreCountedPerDevice) {
    const Opened device(0);
    const Opened other(1);
    const Qp elsewhere = other.queue_pair();
    const Qp first = device.queue_pair();
    Qp second = device.queue_pair();
    EXPECT_NE(second, nullptr) << "the other device's does not count";
    errno = 0;
    EXPECT_EQ(device.queue_pair(), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(other.queue_pair(), nullptr);
    second.reset();
    EXPECT_NE(device.queue_pair(), nullptr) << "a place is free again";
}

TEST(AdapterDevice, EntriesOfACompletionQueue) {
    const Opened device(0);
    EXPECT_NE(Cq(ibv_create_cq(device.context.get(), 60, nullptr, nullptr, 0)), nullptr);
    errno = 0;
    EXPECT_EQ(ibv_create_cq(device.context.get(), 61, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_resize_cq(device.cq.get(), 61), EINVAL);
}

TEST(AdapterDevice, SharedReceiveQueues) {
    const Opened device(0);
    const Opened without(1);
    ibv_srq_init_attr init{nullptr, {10, 1, 0}};
    Srq only(ibv_create_srq(device.pd.get(), &init));
    ASSERT_NE(only, nullptr);
    errno = 0;
    EXPECT_EQ(ibv_create_srq(device.pd.get(), &init), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    only.reset();
    EXPECT_NE(Srq(ibv_create_srq(device.pd.get(), &init)), nullptr);
    EXPECT_EQ(ibv_create_srq(without.pd.get(), &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(AdapterDevice, PkeyTable) {
    const Opened device(0);
    const std::uint16_t table[] = {0x8001, 0x0002, 0x0003, 0x7fff};
    for (int index = 0; index < 4; ++index) {
        __be16 pkey = 0;
        ASSERT_EQ(ibv_query_pkey(device.context.get(), 1, index, &pkey), 0);
        EXPECT_EQ(ntohs(pkey), table[index]);
        EXPECT_EQ(ibv_get_pkey_index(device.context.get(), 1, pkey), index);
    }
    __be16 pkey = 0;
    EXPECT_NE(ibv_query_pkey(device.context.get(), 1, 4, &pkey), 0) << "behind the table";
    EXPECT_NE(ibv_query_pkey(device.context.get(), 1, -1, &pkey), 0);
    EXPECT_NE(ibv_query_pkey(device.context.get(), 2, 0, &pkey), 0) << "no such port";
    EXPECT_EQ(ibv_get_pkey_index(device.context.get(), 1, htons(0x8002)), -1)
        << "full and limited members are different entries";
    const Qp qp = device.queue_pair();
    EXPECT_EQ(connect(qp.get(), 4, 8, 1), EINVAL) << "behind the table";
}

// IBA vol. 1, 10.9.3: the same partition, and not both limited members.
TEST(AdapterDevice, Partitions) {
    EXPECT_EQ(between(0, 1), IBV_WC_SUCCESS) << "full and limited";
    EXPECT_EQ(between(1, 2), IBV_WC_SUCCESS) << "limited and full";
    EXPECT_EQ(between(2, 3), IBV_WC_RETRY_EXC_ERR) << "both limited";
    EXPECT_EQ(between(0, 2), IBV_WC_RETRY_EXC_ERR) << "another partition";
}

// Writes a megabyte until its third packet is seen before the one at `late_at`. Returns whether
// that happened.
bool packet_is_late(int target, std::size_t late_at, int attempts) {
    constexpr std::size_t kBytes = 1 << 20;
    const Opened from(2);
    const Opened to(target);
    const std::vector<std::uint8_t> data(kBytes, 0xa5);
    std::vector<std::uint8_t> memory(kBytes);
    const Mr local = from.registered(const_cast<std::uint8_t*>(data.data()), kBytes);
    const Mr remote = to.registered(memory.data(), kBytes);
    const std::uint16_t target_pkey = target == 1 ? 1 : 0;
    const Pair pair(from, 0, to, target_pkey);
    std::atomic_ref<std::uint8_t> early(memory[late_at]);
    std::atomic_ref<std::uint8_t> third(memory[2 * kMtu]);
    bool late = false;
    for (int attempt = 0; attempt < attempts && !late; ++attempt) {
        std::fill(memory.begin(), memory.end(), 0);
        pair.post_write(data, *local, *remote);
        while (third.load(std::memory_order_acquire) == 0) {
        }
        late = early.load() == 0;
        EXPECT_EQ(pair.completed(), IBV_WC_SUCCESS);
        EXPECT_EQ(memory, data);
    }
    return late;
}

TEST(AdapterDevice, ScrambledWrites) {
    EXPECT_TRUE(packet_is_late(1, 0, 200)) << "scrambled_writes=1";
    EXPECT_FALSE(packet_is_late(1, kMtu, 20)) << "only the first";
    EXPECT_TRUE(packet_is_late(3, kMtu, 200)) << "scrambled_writes=2";
    EXPECT_FALSE(packet_is_late(3, 0, 20)) << "only the second";
    EXPECT_FALSE(packet_is_late(2, 0, 20)) << "the default";
}

// Writes twice, until the second write is seen before the first one. Returns whether that happened.
bool is_overtaken(int target, int access, int attempts) {
    constexpr std::size_t kBytes = 4 * kMtu;
    const Opened from(2);
    const Opened to(target);
    const std::vector<std::uint8_t> data(kBytes, 0xa5);
    std::vector<std::uint8_t> memory(2 * kBytes);
    const Mr local = from.registered(const_cast<std::uint8_t*>(data.data()), kBytes);
    const Mr remote = to.registered(memory.data(), memory.size(), access);
    const Pair pair(from, 0, to, 0);
    std::atomic_ref<std::uint8_t> first(memory[0]);
    std::atomic_ref<std::uint8_t> second(memory.back());
    bool overtaken = false;
    for (int attempt = 0; attempt < attempts && !overtaken; ++attempt) {
        std::fill(memory.begin(), memory.end(), 0);
        ibv_mr half = *remote;
        pair.post_write(data, *local, half);
        half.addr = memory.data() + kBytes;
        pair.post_write(data, *local, half);
        const auto end = std::chrono::steady_clock::now() + kLong;
        while (second.load(std::memory_order_acquire) == 0) {
            if (std::chrono::steady_clock::now() > end) {
                ADD_FAILURE() << "nothing came";
                return false;
            }
        }
        overtaken = first.load() == 0;
        EXPECT_EQ(pair.completed(), IBV_WC_SUCCESS);
        EXPECT_EQ(pair.completed(), IBV_WC_SUCCESS);
        EXPECT_EQ(std::count(memory.begin(), memory.end(), 0xa5),
                  static_cast<std::ptrdiff_t>(memory.size()));
    }
    return overtaken;
}

TEST(AdapterDevice, WritesOfSeveralPacketsThatOvertake) {
    EXPECT_TRUE(is_overtaken(6, 0, 200)) << "scrambled_order=2";
    EXPECT_FALSE(is_overtaken(2, 0, 20)) << "the default";
}

TEST(AdapterDevice, RelaxedOrderingIsOfTheRegion) {
    EXPECT_TRUE(is_overtaken(7, IBV_ACCESS_RELAXED_ORDERING, 200)) << "allowed";
    EXPECT_FALSE(is_overtaken(7, 0, 20)) << "not allowed";
    EXPECT_FALSE(is_overtaken(2, IBV_ACCESS_RELAXED_ORDERING, 20)) << "allowed, and not done";
}

TEST(AdapterDevice, AnswerAboutTheOrder) {
    const Opened scrambled(1);
    const Opened usual(2);
    EXPECT_EQ(ibv_query_qp_data_in_order(scrambled.queue_pair().get(), IBV_WR_RDMA_WRITE, 0), 0);
    EXPECT_EQ(ibv_query_qp_data_in_order(usual.queue_pair().get(), IBV_WR_RDMA_WRITE, 0), 1);
}

} // namespace
} // namespace adaptib::hca
