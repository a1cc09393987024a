// SPDX-License-Identifier: BSD-3-Clause
// Queue pairs that connect through rdma_cm (cm_connect): the order of calls, their arguments, and
// which attributes come from the service and which from the fabric; every way in which a connect
// can fail, and the next attempt.
//
// Rails 0 and 1 are ports of two devices in one fabric; their queue pairs connect to each other.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>

#include "fabric/verbs/port.h"
#include "unit/verbs/rdma_cm_stand_in.h"
#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

// Makes it the address of a rail that connects by datagrams.
void drop_service(RailAddress& address) {
    address.size = sizeof(verbs::WireAddress);
    address.bytes[offsetof(verbs::WireAddress, cm)] = std::byte{0};
}

class CmConnectTest : public VerbsTest {
protected:
    CmConnectTest() {
        options_.rdma_cm = &RdmaCmStandIn::calls();
        token_.fill(std::byte{0x5a});
    }
    ~CmConnectTest() override {
        end_objects();
        fabric_.reset();
        EXPECT_EQ(cm_.living(), 0) << "ids or channels are not given back";
    }
    void SetUp() override {
        lib_.devices = {roce_device("rxe0"), roce_device("rxe1")};
        for (std::uint32_t i : {2u, 3u}) {
            lib_.devices[1].ports[0].gids[i] =
                gid("::ffff:10.0.0.2", i == 2 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2, i);
        }
        cm_.add_address("192.168.1.1", nullptr);
        cm_.add_address("10.0.0.2", "rxe1");
        cm_.add_address("10.0.0.1", "rxe0");
    }
    void open_rails() {
        ASSERT_EQ(open(), kOk) << error_;
        ASSERT_EQ(fabric_->rails().size(), 2u) << error_;
    }
    // Makes two queue pairs in INIT, the one of rail 0 first.
    void make_pairs() {
        for (std::size_t i : {0u, 1u}) {
            pairs_[i] = &qp(init(QpType::rc, cq(i)), i);
            ASSERT_EQ(pairs_[i]->modify(attributes(QpState::init, rail(i)), kRcInit), kOk);
        }
    }
    Status cm_connect(std::size_t index, bool initiates, std::uint32_t path = 0) {
        QpAttributes a = attributes(QpState::ready_to_send, rail(1 - index));
        a.path = rail(index).path_to(rail(1 - index).address(), path);
        a.remote_qp = pairs_[1 - index]->number();
        CmConnectParams params;
        params.initiates = initiates;
        params.token = token_;
        return pairs_[index]->cm_connect(a, kCmConnectRequired, params);
    }
    // Queue pair 1 waits passively, queue pair 0 connects actively.
    void both_connect() {
        ASSERT_EQ(cm_connect(1, false), kOk);
        ASSERT_EQ(cm_connect(0, true), kOk);
    }
    // Runs all pending steps; returns the events that they cause, with the rail's
    // error text at each.
    struct Notice {
        Event event;
        std::string why;
    };
    std::vector<Notice> run() {
        std::vector<Notice> out;
        for (int idle = 0; idle < 3;) { // a few rounds more, in case reading events has failed
            Event event;
            while (fabric_->poll_event(event)) {
                out.push_back({event, rail(event.rail).last_error_text()});
            }
            idle = cm_.step() ? 0 : idle + 1;
        }
        return out;
    }
    void expect_cm_connected(const std::vector<Notice>& notices) {
        ASSERT_EQ(notices.size(), 1u) << (notices.empty() ? "" : notices[0].why);
        EXPECT_EQ(notices[0].event.kind, EventKind::cm_connected) << notices[0].why;
        EXPECT_EQ(notices[0].event.rail, 0u);
        EXPECT_EQ(notices[0].event.qp_number, pairs_[0]->number());
        for (QueuePair* pair : pairs_) {
            EXPECT_EQ(pair->query().state, QpState::ready_to_send);
            EXPECT_EQ(fake(*pair).state, IBV_QPS_RTS);
        }
    }
    void expect_cm_failed(const std::vector<Notice>& notices, const std::string& why) {
        ASSERT_EQ(notices.size(), 1u);
        EXPECT_EQ(notices[0].event.kind, EventKind::cm_failed);
        EXPECT_EQ(notices[0].event.qp_number, pairs_[0]->number());
        EXPECT_NE(notices[0].why.find(why), std::string::npos) << notices[0].why;
        EXPECT_TRUE(notices[0].why.starts_with("rdma_cm: ")) << notices[0].why;
    }
    // Calls of modify that move a queue pair to that state.
    std::vector<ModifyCall> moves(const QueuePair& pair, ibv_qp_state to) const {
        std::vector<ModifyCall> out;
        for (const ModifyCall& call : lib_.modified) {
            if (call.qp_number == pair.number() && call.attributes.qp_state == to) {
                out.push_back(call);
            }
        }
        return out;
    }

    RdmaCmStandIn cm_;
    std::array<QueuePair*, 2> pairs_{};
    std::array<std::byte, sizeof(CmConnectParams::token)> token_{};
};

// -------------------------------------------------------------------------------------------------
// Opening

// Adaptive routing belongs to a service level, which rdma_cm chooses for each path of InfiniBand.
TEST_F(CmConnectTest, AConnectXThatIsNotToldTheServiceLevelMayPlaceInAnyOrder) {
    cm_.add_address("10.0.0.3", "mlx5_0");
    const auto in_order = [&](const FakeDevice& device, std::uint8_t level, std::uint32_t vendor) {
        lib_.devices = {device};
        lib_.devices[0].limits.vendor_id = vendor;
        options_.service_level = level;
        EXPECT_EQ(open(), kOk) << error_;
        return rail().info().places_in_order;
    };
    EXPECT_FALSE(in_order(ib_device("mlx5_0", 1, 0), 0, 0x2c9));
    EXPECT_TRUE(in_order(ib_device("mlx5_0", 1, 0), 3, 0x2c9)) << "all paths have that";
    EXPECT_TRUE(in_order(ib_device("mlx5_0", 1, 0), 0, 0x1425));
    EXPECT_TRUE(in_order(roce_device("rxe0"), 0, 0x2c9));
}

TEST_F(CmConnectTest, ARailListensAtItsOwnAddress) {
    open_rails();
    EXPECT_EQ(cm_.listener(0).ip, "10.0.0.1");
    EXPECT_EQ(cm_.listener(1).ip, "10.0.0.2");
    for (std::size_t i : {0u, 1u}) {
        EXPECT_TRUE(rail(i).info().has(Capability::cm_connects));
        const RailAddress address = rail(i).address();
        ASSERT_EQ(address.size, 60);
        EXPECT_EQ(address.bytes[40], std::byte{4});
        EXPECT_EQ(address.bytes[44], std::byte{10});
        EXPECT_EQ(address.bytes[47], std::byte(i + 1));
        std::uint16_t port = 0;
        std::memcpy(&port, address.bytes.data() + 42, sizeof port);
        EXPECT_EQ(port, cm_.listener(i).tcp_port);
        EXPECT_TRUE(rail(1 - i).is_reachable(address));
    }
    EXPECT_EQ(lib_.count("bind_addr"), 2) << "the address of the GID goes first";
}

TEST_F(CmConnectTest, WithoutTheOptionNothingIsAsked) {
    options_.rdma_cm = nullptr;
    open_rails();
    EXPECT_FALSE(rail().info().has(Capability::cm_connects));
    EXPECT_EQ(rail().address().size, 40);
    EXPECT_EQ(lib_.count("create_event_channel") + lib_.count("get_cm_event"), 0);
    make_pairs();
    EXPECT_EQ(cm_connect(0, true), refusal(Reason::not_supported));
}

TEST_F(CmConnectTest, TheAddressOfAPortIsFoundAmongAllOfTheHost) {
    lib_.devices = {ib_device("mlx5_0", 2, 0)};
    cm_.add_address("10.1.0.1", "mlx5_0", 2);
    cm_.add_address("fd00::7", "mlx5_0", 1);
    open_rails();
    EXPECT_EQ(cm_.listener(0).ip, "fd00::7");
    EXPECT_EQ(cm_.listener(1).ip, "10.1.0.1");
    EXPECT_EQ(rail(0).address().bytes[40], std::byte{6});
    EXPECT_EQ(rail(0).address().bytes[59], std::byte{7});
}

// Peers over RoCE know the port by its GID.
TEST_F(CmConnectTest, TheAddressOfTheGidGoesBeforeOthersOfThePort) {
    lib_.devices = {roce_device("rxe0")};
    lib_.devices[0].ports[0].gids[3] = gid("fd00::7", IBV_GID_TYPE_ROCE_V2, 3);
    cm_.addresses.clear();
    cm_.add_address("10.0.0.1", "rxe0");
    cm_.add_address("fd00::7", "rxe0");
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_EQ(cm_.listener(0).ip, "fd00::7");
}

TEST_F(CmConnectTest, APortWithoutAnAddressIsLeftOutAndSaysSo) {
    cm_.addresses.pop_back();
    ASSERT_EQ(open(), kOk) << error_;
    ASSERT_EQ(fabric_->rails().size(), 1u);
    ASSERT_EQ(fabric_->notices().size(), 1u);
    EXPECT_NE(fabric_->notices()[0].find("rxe0:1 has no IP address"), std::string::npos);
    EXPECT_EQ(rail().info().name, "rxe1:1");
    fabric_.reset();
    cm_.addresses.clear();
    EXPECT_EQ(open(), refusal(Reason::no_device));
    EXPECT_NE(error_.find("rxe0:1 has no IP address"), std::string::npos) << error_;
    EXPECT_NE(error_.find("IPoIB"), std::string::npos) << error_;
}

TEST_F(CmConnectTest, AKernelWithoutTheModuleIsNamed) {
    lib_.devices.pop_back();
    lib_.fail("create_event_channel", 1, ENODEV);
    EXPECT_EQ(open(), refusal(Reason::no_device));
    EXPECT_NE(error_.find("rdma_ucm"), std::string::npos) << error_;
}

TEST_F(CmConnectTest, BothEndsHaveToChooseTheSame) {
    open_rails();
    const PathSpec with = path_to(rail(1));
    PathSpec without = with;
    drop_service(without.remote);
    std::unique_ptr<AddressHandle> handle;
    EXPECT_EQ(await_ah(rail(), with, handle), kOk);
    handle.reset();
    EXPECT_EQ(await_ah(rail(), without, handle), refusal(Reason::unreachable));
    EXPECT_NE(rail().last_error_text().find("by rdma_cm here, by datagrams there"),
              std::string::npos);
    EXPECT_NE(rail().last_error_text().find("connect_method"), std::string::npos);
    fabric_.reset();
    options_.rdma_cm = nullptr;
    open_rails();
    EXPECT_EQ(await_ah(rail(), with, handle), refusal(Reason::unreachable));
    EXPECT_NE(rail().last_error_text().find("by rdma_cm there, by datagrams here"),
              std::string::npos);
}

TEST_F(CmConnectTest, AMalformedTailIsNoAddress) {
    open_rails();
    const RailAddress good = rail(1).address();
    for (const auto& [at, value] :
         std::map<std::size_t, std::byte>{{40, std::byte{5}}, {41, std::byte{1}}}) {
        RailAddress bad = good;
        bad.bytes[at] = value;
        EXPECT_FALSE(rail().is_reachable(bad)) << at;
    }
    RailAddress bad = good;
    bad.bytes[42] = bad.bytes[43] = std::byte{0};
    EXPECT_FALSE(rail().is_reachable(bad)) << "no port";
    bad = good;
    bad.size = 59;
    EXPECT_FALSE(rail().is_reachable(bad));
}

// -------------------------------------------------------------------------------------------------
// Connecting

TEST_F(CmConnectTest, CallsAreInOrderAndBothAreReady) {
    open_rails();
    make_pairs();
    both_connect();
    expect_cm_connected(run());
    EXPECT_EQ(cm_.log, (std::vector<std::string>{"resolve_addr", "resolve_route", "connect",
                                                 "accept", "establish"}));
    EXPECT_EQ(cm_.active().size(), 2u);
    EXPECT_TRUE(run().empty()) << "it is told once";
}

TEST_F(CmConnectTest, TheServiceFindsThePathAndWeKeepTheTimers) {
    options_.traffic_class = 0x20;
    open_rails();
    make_pairs();
    both_connect();
    expect_cm_connected(run());
    for (std::size_t i : {0u, 1u}) {
        const FakeId& id = *cm_.active()[i];
        const auto ready = moves(*pairs_[i], IBV_QPS_RTR);
        ASSERT_EQ(ready.size(), 1u);
        const ibv_qp_attr& r = ready[0].attributes;
        EXPECT_EQ(ready[0].mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER);
        EXPECT_EQ(r.ah_attr.dlid, 77);
        EXPECT_EQ(r.ah_attr.sl, 3);
        EXPECT_EQ(r.ah_attr.grh.flow_label, rail(i).path_to(rail(1 - i).address(), 0).flow_label);
        EXPECT_EQ(r.ah_attr.grh.traffic_class, 0x20) << "the option's";
        EXPECT_EQ(r.path_mtu, IBV_MTU_1024);
        EXPECT_EQ(r.dest_qp_num, pairs_[1 - i]->number());
        EXPECT_EQ(r.rq_psn, id.psn);
        EXPECT_EQ(r.min_rnr_timer, 9);
        EXPECT_EQ(r.max_dest_rd_atomic, 5)
            << "no more than the other end wants, which is 5 of our 6";
        const auto sending = moves(*pairs_[i], IBV_QPS_RTS);
        ASSERT_EQ(sending.size(), 1u);
        const ibv_qp_attr& s = sending[0].attributes;
        EXPECT_EQ(s.sq_psn, id.partner->psn);
        EXPECT_EQ(s.timeout, 13);
        EXPECT_EQ(s.retry_cnt, 4);
        EXPECT_EQ(s.rnr_retry, 3);
        EXPECT_EQ(s.max_rd_atomic, 5);
        const QpAttributes now = pairs_[i]->query();
        EXPECT_EQ(now.remote_qp, pairs_[1 - i]->number());
        EXPECT_EQ(now.send_psn, id.partner->psn);
        EXPECT_EQ(now.receive_psn, id.psn);
    }
    const rdma_conn_param& said = cm_.active()[0]->said;
    EXPECT_EQ(said.retry_count, 4);
    EXPECT_EQ(said.rnr_retry_count, 3);
    EXPECT_EQ(said.responder_resources, 6);
    EXPECT_EQ(said.initiator_depth, 5);
}

TEST_F(CmConnectTest, APathKeepsItsFlowLabel) {
    open_rails();
    make_pairs();
    ASSERT_EQ(cm_connect(1, false, 2), kOk);
    ASSERT_EQ(cm_connect(0, true, 2), kOk);
    expect_cm_connected(run());
    const std::uint32_t label = rail(0).path_to(rail(1).address(), 2).flow_label;
    ASSERT_NE(label, 0u);
    for (QueuePair* pair : pairs_) {
        EXPECT_EQ(moves(*pair, IBV_QPS_RTR)[0].attributes.ah_attr.grh.flow_label, label);
    }
}

TEST_F(CmConnectTest, ATrafficClassOfTheServiceIsTaken) {
    for (const int says : {9, 0}) {
        cm_.traffic_class = static_cast<std::uint8_t>(says);
        open_rails();
        make_pairs();
        both_connect();
        expect_cm_connected(run());
        EXPECT_EQ(moves(*pairs_[0], IBV_QPS_RTR)[0].attributes.ah_attr.grh.traffic_class,
                  says != 0 ? says : 106);
        end_objects();
        fabric_.reset();
    }
}

TEST_F(CmConnectTest, WhatIsWrongFromTheBeginningIsRefused) {
    open_rails();
    make_pairs();
    const QpAttributes a = attributes(QpState::ready_to_send, rail(1));
    EXPECT_EQ(pairs_[0]->cm_connect(a, kCmConnectRequired | kQpState, {}),
              refusal(Reason::bad_argument));
    EXPECT_EQ(pairs_[0]->cm_connect(a, kCmConnectRequired & ~kQpPath, {}),
              refusal(Reason::bad_argument));
    QpAttributes wrong = a;
    wrong.max_reads = 1000;
    EXPECT_EQ(pairs_[0]->cm_connect(wrong, kCmConnectRequired, {}), refusal(Reason::bad_argument));
    wrong = a;
    drop_service(wrong.path.remote);
    EXPECT_EQ(pairs_[0]->cm_connect(wrong, kCmConnectRequired, {}), refusal(Reason::unreachable));
    EXPECT_EQ(qp(init(QpType::rc, cq())).cm_connect(a, kCmConnectRequired, {}),
              refusal(Reason::bad_state));
    EXPECT_EQ(qp(init(QpType::ud, cq())).cm_connect(a, kCmConnectRequired, {}),
              refusal(Reason::not_supported));
    EXPECT_TRUE(cm_.active().empty());
}

// One end has an IPv4 and the other an IPv6 address: rdma_cm cannot even be asked.
TEST_F(CmConnectTest, KindsOfAddressesHaveToAgree) {
    cm_.addresses.pop_back();
    cm_.add_address("fd00::1", "rxe0");
    open_rails();
    make_pairs();
    both_connect();
    expect_cm_failed(run(), "IPv4");
}

// -------------------------------------------------------------------------------------------------
// Attempts that fail

struct Failure {
    RdmaCmStandIn::Instead instead;
    const char* why;
};
const Failure kFailures[] = {
    {{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT}, "address cannot be"},
    {{RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_DEVICE_REMOVAL, 0}, "being removed"},
    {{RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, -ENETUNREACH}, "no route"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}, "does not answer"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_REJECTED, 8}, "no process listens"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_REJECTED, 10}, "an earlier connection"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_REJECTED, 28},
     "does not expect this connection"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_REJECTED, 31}, "reason 31"},
    {{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL}, "could not be made"},
    // The passive end has accepted, and is in RTS: it has to begin again.
    {{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}, "does not answer"},
    {{RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_DISCONNECTED, 0}, "has disconnected"},
};

TEST_F(CmConnectTest, EachFailureIsReportedAndTheNextTryConnects) {
    open_rails();
    for (const Failure& failure : kFailures) {
        SCOPED_TRACE(failure.why);
        make_pairs();
        cm_.instead = failure.instead;
        both_connect();
        expect_cm_failed(run(), failure.why);
        EXPECT_FALSE(cm_.instead) << "it has not happened";
        EXPECT_LE(cm_.active().size(), 1u) << "the asker's id is gone";
        ASSERT_EQ(cm_connect(0, true), kOk);
        expect_cm_connected(run());
        if (HasFailure()) {
            return;
        }
        end_objects();
        EXPECT_TRUE(cm_.active().empty());
    }
}

TEST_F(CmConnectTest, TheEndThatIsAskedBeginsAgainForALaterTry) {
    open_rails();
    make_pairs();
    cm_.instead = {RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT};
    both_connect();
    expect_cm_failed(run(), "does not answer");
    EXPECT_EQ(fake(*pairs_[1]).state, IBV_QPS_RTS);
    ASSERT_EQ(cm_connect(0, true), kOk);
    expect_cm_connected(run());
    EXPECT_EQ(moves(*pairs_[1], IBV_QPS_RESET).size(), 1u);
    const auto begun = moves(*pairs_[1], IBV_QPS_INIT);
    ASSERT_EQ(begun.size(), 2u);
    EXPECT_EQ(begun[1].attributes.qp_access_flags, begun[0].attributes.qp_access_flags);
    EXPECT_EQ(cm_.active().size(), 2u);
}

// The active end has seen both ends ready; losing the message that tells the passive
// end changes nothing.
TEST_F(CmConnectTest, TheLastMessageMayBeLost) {
    open_rails();
    make_pairs();
    cm_.instead = {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT};
    both_connect();
    expect_cm_connected(run());
}

TEST_F(CmConnectTest, WhatFollowsACmConnectIsNoEvent) {
    open_rails();
    make_pairs();
    both_connect();
    expect_cm_connected(run());
    FakeId& asker = *cm_.active()[0];
    cm_.raise(asker, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    cm_.raise(asker, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    EXPECT_TRUE(run().empty());
    cm_.raise(asker, RDMA_CM_EVENT_DISCONNECTED, 0);
    EXPECT_TRUE(run().empty());
    EXPECT_EQ(fake(*pairs_[0]).state, IBV_QPS_RTS) << "queue pairs are not rdma_cm's";
}

TEST_F(CmConnectTest, AQueuePairMayEndAtAnyPoint) {
    open_rails();
    for (std::size_t which : {0u, 1u}) {
        for (int steps = 0; steps < 6; ++steps) {
            SCOPED_TRACE(std::to_string(which) + " after " + std::to_string(steps));
            make_pairs();
            both_connect();
            Event event;
            for (int i = 0; i < steps; ++i) {
                cm_.step();
                EXPECT_EQ(fabric_->poll_event(event), i == 3) << "both are ready then";
            }
            const std::uint32_t number = pairs_[which]->number();
            std::erase_if(qps_, [&](const auto& each) { return each.get() == pairs_[which]; });
            for (const Notice& notices : run()) {
                EXPECT_NE(notices.event.qp_number, number) << "of a queue pair that is gone";
            }
            end_objects();
            EXPECT_TRUE(cm_.active().empty());
        }
    }
}

// Destroying a connected id sends a message.
TEST_F(CmConnectTest, IdsAreKeptWhileTheirPortIsDown) {
    open_rails();
    make_pairs();
    both_connect();
    expect_cm_connected(run());
    lib_.devices[0].ports[0].attributes.state = IBV_PORT_DOWN;
    lib_.raise_port(0, IBV_EVENT_PORT_ERR, 1);
    ASSERT_EQ(run().size(), 1u);
    end_objects();
    const auto left = cm_.active();
    ASSERT_EQ(left.size(), 1u) << "that of the other port is gone";
    EXPECT_EQ(left[0]->ip, "10.0.0.1");
    cm_.raise(*left[0], RDMA_CM_EVENT_DISCONNECTED, 0);
    EXPECT_TRUE(run().empty());
    EXPECT_EQ(cm_.active().size(), 1u);
    lib_.devices[0].ports[0].attributes.state = IBV_PORT_ACTIVE;
    lib_.raise_port(0, IBV_EVENT_PORT_ACTIVE, 1);
    ASSERT_EQ(run().size(), 1u);
    EXPECT_TRUE(cm_.active().empty());
}

TEST_F(CmConnectTest, ADeviceThatGoesTakesItsListenerAlong) {
    open_rails();
    cm_.raise(cm_.listener(1), RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    const auto notices = run();
    ASSERT_EQ(notices.size(), 1u);
    EXPECT_EQ(notices[0].event.kind, EventKind::device_fatal);
    EXPECT_EQ(notices[0].event.rail, 1u);
    EXPECT_EQ(rail(1).state(), PortState::down);
    EXPECT_THROW(cm_.listener(1), std::runtime_error);
}

// -------------------------------------------------------------------------------------------------
// Unexpected requests

struct Request {
    std::uint32_t magic = 0xad1b7ec0;
    std::uint32_t try_number = 1;
    std::uint32_t target_qp = 0;
    std::uint32_t zero = 0;
    std::array<std::byte, sizeof(CmConnectParams::token)> token{};
};

TEST_F(CmConnectTest, StrangersAreRejected) {
    open_rails();
    make_pairs();
    ASSERT_EQ(cm_connect(1, false), kOk);
    ASSERT_TRUE(run().empty());
    Request good;
    good.target_qp = pairs_[1]->number();
    good.token = token_;
    const std::uint32_t from = pairs_[0]->number();
    const auto rejected = [&](const Request& request, std::uint32_t source) {
        const std::size_t before = cm_.rejections.size();
        FakeId& id = cm_.request(cm_.listener(1), source, &request, sizeof request);
        EXPECT_TRUE(run().empty());
        EXPECT_FALSE(id.alive && id.state == IdState::over);
        return cm_.rejections.size() == before + 1 && !id.alive;
    };
    Request bad = good;
    bad.magic = 1;
    EXPECT_TRUE(rejected(bad, from));
    bad = good;
    bad.target_qp += 100;
    EXPECT_TRUE(rejected(bad, from)) << "no such queue pair";
    bad.target_qp = from;
    EXPECT_TRUE(rejected(bad, from)) << "one that waits for nobody";
    bad = good;
    bad.token[31] = std::byte{0};
    EXPECT_TRUE(rejected(bad, from));
    EXPECT_TRUE(rejected(good, from + 1)) << "another queue pair than agreed on";
    bad = good;
    bad.try_number = 0;
    EXPECT_TRUE(rejected(bad, from));
    for (const auto& data : cm_.rejections) {
        EXPECT_EQ(data, std::vector<std::byte>{std::byte{1}});
    }
    EXPECT_EQ(fake(*pairs_[1]).state, IBV_QPS_INIT) << "untouched";

    bad = good;
    bad.try_number = 5;
    EXPECT_FALSE(rejected(bad, from));
    EXPECT_EQ(fake(*pairs_[1]).state, IBV_QPS_RTS);
    EXPECT_TRUE(rejected(bad, from)) << "the same once more";
    EXPECT_TRUE(rejected(good, from)) << "an earlier try, late";
    EXPECT_EQ(moves(*pairs_[1], IBV_QPS_RESET).size(), 0u);
}

TEST_F(CmConnectTest, AQueuePairThatHasFailedIsNotRevived) {
    open_rails();
    make_pairs();
    ASSERT_EQ(cm_connect(1, false), kOk);
    QpAttributes error;
    error.state = QpState::error;
    ASSERT_EQ(pairs_[1]->modify(error, kQpState), kOk);
    ASSERT_EQ(cm_connect(0, true), kOk);
    expect_cm_failed(run(), "does not expect this connection");
    EXPECT_EQ(fake(*pairs_[1]).state, IBV_QPS_ERR);
}

// -------------------------------------------------------------------------------------------------
// Calls that fail

const std::vector<std::string> kCmCalls{
    "create_event_channel",
    "cm_set_nonblocking",
    "create_id",
    "bind_addr",
    "listen",
    "resolve_addr",
    "resolve_route",
    "connect",
    "accept",
    "reject",
    "establish",
    "init_qp_attr",
    "get_cm_event",
    "destroy_id",
};

class CmConnectCallsFail : public CmConnectTest {
protected:
    // Opens, connects, and gets a stranger's request. An active end that hears of a failure
    // tries again, once.
    void scenario() {
        outcome_ = {};
        cm_.actions.clear();
        outcome_.opened = open().ok() && fabric_->rails().size() == 2;
        if (outcome_.opened) {
            make_pairs();
            both_connect();
            for (const Notice& notices : run()) {
                outcome_.why += notices.why;
                outcome_.cm_connected =
                    outcome_.cm_connected || notices.event.kind == EventKind::cm_connected;
            }
            if (!outcome_.cm_connected) {
                ASSERT_FALSE(outcome_.why.empty()) << "nobody was told";
                ASSERT_EQ(cm_connect(0, true), kOk);
                outcome_.tried_again = true;
                expect_cm_connected(run());
            }
            const Request request;
            cm_.request(cm_.listener(0), 7, &request, sizeof request);
            EXPECT_TRUE(run().empty());
        }
        end_objects();
        fabric_.reset();
        EXPECT_EQ(cm_.living(), 0);
    }
    struct Outcome {
        bool opened = false;
        bool cm_connected = false;
        bool tried_again = false;
        std::string why;
    };
    Outcome outcome_;
};

TEST_F(CmConnectCallsFail, EachOnceAtEachPlace) {
    scenario();
    ASSERT_TRUE(outcome_.cm_connected && !outcome_.tried_again);
    std::map<std::string, int> counts;
    for (const std::string& call : kCmCalls) {
        counts[call] = lib_.count(call);
        ASSERT_GT(counts[call], 0) << call;
    }
    // Includes the moves of the queue pairs: 2 to INIT, 2 to RTR, 2 to RTS.
    counts["modify_qp"] = lib_.count("modify_qp");
    for (const auto& [call, count] : counts) {
        for (int nth = call == "modify_qp" ? 3 : 1; nth <= count; ++nth) {
            for (const int error : {ENOMEM, EINVAL, EIO, ENODEV}) {
                SCOPED_TRACE(call + " number " + std::to_string(nth) + " of " +
                             std::to_string(count) + ": " + std::strerror(error));
                lib_.fail(call, nth, error);
                scenario();
                EXPECT_TRUE(lib_.failed()) << "the call was not made";
                const bool silent =
                    call == "destroy_id" || call == "reject" || call == "get_cm_event";
                // A rail that cannot listen is left out when opening.
                EXPECT_TRUE(silent || outcome_.tried_again || !outcome_.opened);
                if (outcome_.tried_again) {
                    EXPECT_TRUE(outcome_.why.starts_with("rdma_cm: ")) << outcome_.why;
                    EXPECT_TRUE(outcome_.why.find("rdma_" + call + ": ") == std::string::npos ||
                                outcome_.why.find(std::strerror(error)) != std::string::npos)
                        << outcome_.why;
                }
                if (HasFailure()) {
                    return;
                }
            }
        }
    }
}

} // namespace
} // namespace adaptib::test
