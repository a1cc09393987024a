// SPDX-License-Identifier: BSD-3-Clause
// MAC addresses of RoCE destinations: who is asked, how long that takes, how long an answer holds.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "simulator/adapter/shared.h"
#include "unit/adapter/opened_device.h"

namespace adaptib::hca {
namespace {

using Ah = Owned<ibv_ah, ibv_destroy_ah>;

// Host a's RoCE device, and the state of its port and of host b's, as faults set it.
class AdapterNeighbours : public testing::Test {
protected:
    static constexpr int kDevice = 8;
    static constexpr std::uint32_t kQkey = 7;

    AdapterNeighbours()
        : topology_(parse_topology(std::getenv("ADAPTIB_HCA_TOPOLOGY"))),
          shared_(std::getenv("ADAPTIB_HCA_FABRIC")) {}
    ~AdapterNeighbours() override {
        peer().silent_arp = peer().down = 0;
        peer().arp_lost = 0;
    }

    PortState& state(const char* port) {
        return shared_.state().ports[static_cast<std::size_t>(topology_.port(port))];
    }
    PortState& peer() { return state("b/r0:1"); }
    static ibv_ah_attr path(const char* address, std::uint8_t gid_index = 1) {
        ibv_ah_attr out{};
        out.port_num = 1;
        out.is_global = 1;
        out.grh.sgid_index = gid_index;
        out.grh.dgid.raw[10] = out.grh.dgid.raw[11] = 0xff;
        inet_pton(AF_INET, address, out.grh.dgid.raw + 12);
        return out;
    }
    // Error of a handle to an address, 0 if there is one; milliseconds_ is how long that took.
    int handle_to(const char* address, std::uint8_t gid_index = 1) {
        ibv_ah_attr attributes = path(address, gid_index);
        const auto begin = std::chrono::steady_clock::now();
        errno = 0;
        const int error = Ah(ibv_create_ah(device_.pd.get(), &attributes)) == nullptr ? errno : 0;
        milliseconds_ =
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                .count();
        return error;
    }
    // A queue pair for datagrams, ready to send.
    Qp datagram_queue() const {
        ibv_qp_init_attr init = device_.usual();
        init.qp_type = IBV_QPT_UD;
        Qp qp(ibv_create_qp(device_.pd.get(), &init));
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = 1;
        attributes.qkey = kQkey;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes,
                                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                  0);
        attributes.qp_state = IBV_QPS_RTR;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE), 0);
        attributes.qp_state = IBV_QPS_RTS;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
        return qp;
    }
    // Sends a datagram to the queue pair itself. Returns whether it arrives.
    bool arrives(ibv_qp* qp, ibv_ah* handle) const {
        ibv_sge place{reinterpret_cast<std::uintptr_t>(memory_.data()), 100, region_->lkey};
        ibv_recv_wr receive{};
        receive.sg_list = &place;
        receive.num_sge = 1;
        ibv_recv_wr* bad_receive = nullptr;
        EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
        ibv_send_wr work{};
        work.opcode = IBV_WR_SEND;
        work.send_flags = IBV_SEND_SIGNALED;
        work.wr.ud = {handle, qp->qp_num, kQkey};
        ibv_send_wr* bad = nullptr;
        EXPECT_EQ(ibv_post_send(qp, &work, &bad), 0);
        bool arrived = false;
        while (const auto wc = completion(device_.cq.get(), std::chrono::milliseconds(100))) {
            EXPECT_EQ(wc->status, IBV_WC_SUCCESS);
            arrived = arrived || wc->opcode == IBV_WC_RECV;
        }
        return arrived;
    }

    const Topology topology_;
    Shared shared_;
    const Opened device_{kDevice};
    std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(100);
    const Mr region_ = device_.registered(memory_.data(), memory_.size());
    double milliseconds_ = 0;
};

TEST_F(AdapterNeighbours, AnAnswerComesAtOnce) {
    EXPECT_EQ(handle_to("10.0.0.2"), 0);
    EXPECT_LT(milliseconds_, 500);
    EXPECT_EQ(handle_to("10.0.0.1"), 0) << "to itself";
}

TEST_F(AdapterNeighbours, SilenceTakesASecondEachTime) {
    peer().silent_arp = 1;
    for (int time = 0; time < 2; ++time) {
        EXPECT_EQ(handle_to("10.0.0.2"), ETIMEDOUT);
        EXPECT_GE(milliseconds_, 950);
        EXPECT_LT(milliseconds_, 1900);
    }
    peer().silent_arp = 0;
    EXPECT_EQ(handle_to("10.0.0.2"), 0) << "a failure is not kept";
}

TEST_F(AdapterNeighbours, WhoIsNotThereIsSilent) {
    EXPECT_EQ(handle_to("10.0.0.9"), ETIMEDOUT) << "nobody's address";
    EXPECT_EQ(handle_to("10.0.0.2", 2), ETIMEDOUT) << "another VLAN";
    peer().down = 1;
    EXPECT_EQ(handle_to("10.0.0.2"), ETIMEDOUT);
}

TEST_F(AdapterNeighbours, OneAnswerIsLost) {
    peer().arp_lost = 1;
    EXPECT_EQ(handle_to("10.0.0.2"), ETIMEDOUT);
    EXPECT_EQ(handle_to("10.0.0.2"), 0);
}

TEST_F(AdapterNeighbours, AConnectionAsksToo) {
    const Qp qp = device_.queue_pair();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp.get(), &attributes,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_256;
    attributes.ah_attr = path("10.0.0.2");
    constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    peer().arp_lost = 1;
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, kMask), ETIMEDOUT);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, kMask), 0) << "its state has not changed";
}

TEST_F(AdapterNeighbours, AHandleKeepsItsAddress) {
    const Qp qp = datagram_queue();
    ibv_ah_attr attributes = path("10.0.0.1");
    const Ah before(ibv_create_ah(device_.pd.get(), &attributes));
    EXPECT_TRUE(arrives(qp.get(), before.get()));
    ++state("a/r0:1").mac;
    EXPECT_FALSE(arrives(qp.get(), before.get()));
    const Ah after(ibv_create_ah(device_.pd.get(), &attributes));
    EXPECT_TRUE(arrives(qp.get(), after.get()));
}

} // namespace
} // namespace adaptib::hca
