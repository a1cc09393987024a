// SPDX-License-Identifier: BSD-3-Clause
// Rules of real drivers (simulator/adapter/driver_rules.cc): the virtual adapter keeps each of
// them. device_test.cc describes the devices; most have a driver's name.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "simulator/adapter/driver_rules.h"
#include "simulator/adapter/shared.h"
#include "unit/adapter/opened_device.h"

namespace adaptib::hca {
namespace {

using Ah = Owned<ibv_ah, ibv_destroy_ah>;
using Pd = Owned<ibv_pd, ibv_dealloc_pd>;
using Channel = Owned<ibv_comp_channel, ibv_destroy_comp_channel>;

constexpr Driver kReal[] = {Driver::mlx5,    Driver::mlx4,  Driver::hfi1,  Driver::qib,
                            Driver::bnxt_re, Driver::irdma, Driver::rxe,   Driver::siw,
                            Driver::efa,     Driver::hns,   Driver::strict};

const char* name_of(Driver driver) { return kDriverNames[static_cast<std::size_t>(driver)]; }

std::int64_t value(Driver driver, Rule rule) {
    return kRuleTable[static_cast<std::size_t>(rule)].values[static_cast<std::size_t>(driver)];
}

// Calls test(device, driver) for a device of each driver.
template <typename Test> void each_driver(Test test) {
    for (const Driver driver : kReal) {
        SCOPED_TRACE(name_of(driver));
        const Opened device{std::string(name_of(driver))};
        test(device, driver);
    }
}

ibv_device_attr limits_of(const Opened& device) {
    ibv_device_attr out{};
    EXPECT_EQ(ibv_query_device(device.context.get(), &out), 0);
    return out;
}

ibv_port_attr port_of(const Opened& device) {
    ibv_port_attr out{};
    EXPECT_EQ(ibv_query_port(device.context.get(), 1, &out), 0);
    return out;
}

// Error of a call that makes an object, 0 if it made one.
template <typename Object> int error_of(const Object& object) {
    return object != nullptr ? 0 : errno;
}

// Path from a device to its own port, by its last GID if it has no LID.
ibv_ah_attr path_to_self(const Opened& device, std::uint32_t flow_label = 0) {
    ibv_ah_attr out{};
    out.port_num = 1;
    out.dlid = device.lid;
    if (device.lid == 0) {
        int last = 0;
        ibv_gid_entry entry{};
        for (int index = 0; ibv_query_gid_ex(device.context.get(), 1, static_cast<unsigned>(index),
                                             &entry, 0) == 0;
             ++index) {
            last = index;
            out.grh.dgid = entry.gid;
        }
        out.is_global = 1;
        out.grh.sgid_index = static_cast<std::uint8_t>(last);
        out.grh.flow_label = flow_label;
    }
    return out;
}

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

// A queue pair of a device that is connected with itself.
class Loop {
public:
    static constexpr int kRights =
        IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

    explicit Loop(const Opened& device, ibv_qp_init_attr init) : device_(device) {
        qp.reset(ibv_create_qp(device.pd.get(), &init));
        EXPECT_NE(qp, nullptr);
        returned = init.cap;
    }
    explicit Loop(const Opened& device) : Loop(device, device.usual()) {}

    int init() {
        attributes_.qp_state = IBV_QPS_INIT;
        attributes_.port_num = 1;
        attributes_.qp_access_flags = kRights;
        return ibv_modify_qp(qp.get(), &attributes_, kToInit | IBV_QP_ACCESS_FLAGS);
    }
    int rtr(ibv_mtu mtu = IBV_MTU_256, std::uint8_t reads = 1) {
        attributes_.qp_state = IBV_QPS_RTR;
        attributes_.path_mtu = mtu;
        attributes_.dest_qp_num = qp->qp_num;
        attributes_.max_dest_rd_atomic = reads;
        attributes_.min_rnr_timer = 1;
        attributes_.ah_attr = path_to_self(device_);
        return ibv_modify_qp(qp.get(), &attributes_, kToRtr);
    }
    int rts(std::uint8_t reads = 1) {
        attributes_.qp_state = IBV_QPS_RTS;
        attributes_.timeout = 14;
        attributes_.retry_cnt = 7;
        attributes_.rnr_retry = 7;
        attributes_.max_rd_atomic = reads;
        return ibv_modify_qp(qp.get(), &attributes_, kToRts);
    }
    Loop& ready() {
        EXPECT_EQ(init(), 0);
        EXPECT_EQ(rtr(), 0);
        EXPECT_EQ(rts(), 0);
        return *this;
    }

    Qp qp;
    ibv_qp_cap returned{};

private:
    const Opened& device_;
    ibv_qp_attr attributes_{};
};

// Memory of a program, registered with all rights.
struct Memory {
    Memory(const Opened& device, std::size_t size)
        : bytes(size),
          region(device.registered(bytes.data(), size,
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)) {}

    ibv_sge piece(std::size_t offset, std::size_t length) const {
        return {reinterpret_cast<std::uintptr_t>(bytes.data()) + offset,
                static_cast<std::uint32_t>(length), region->lkey};
    }

    std::vector<std::uint8_t> bytes;
    Mr region;
};

ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge& piece, const Memory& target,
                    std::size_t offset = 0) {
    ibv_send_wr out{};
    out.sg_list = &piece;
    out.num_sge = 1;
    out.opcode = opcode;
    out.send_flags = IBV_SEND_SIGNALED;
    out.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(target.bytes.data()) + offset;
    out.wr.rdma.rkey = target.region->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        out.wr.atomic = {out.wr.rdma.remote_addr, 1, 0, target.region->rkey};
    }
    return out;
}

int post(ibv_qp* qp, ibv_send_wr work) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &work, &bad);
}

int post_receive(ibv_qp* qp) {
    ibv_recv_wr work{};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &work, &bad);
}

// Status of the next completion; -1: none comes within some time.
int status_of(ibv_cq* cq, std::chrono::milliseconds limit = kLong) {
    const auto wc = completion(cq, limit);
    return wc.has_value() ? static_cast<int>(wc->status) : -1;
}

class SharedPorts {
public:
    SharedPorts()
        : topology_(parse_topology(std::getenv("ADAPTIB_HCA_TOPOLOGY"))),
          shared_(std::getenv("ADAPTIB_HCA_FABRIC")) {}
    PortState& of(const std::string& device) { return shared_.state().ports[number(device)]; }
    void remove(const std::string& device) {
        ++of(device).removals;
        shared_.raise(number(device), IBV_EVENT_DEVICE_FATAL);
    }
    void give_back(const std::string& device) { ++of(device).removals; }

private:
    unsigned number(const std::string& device) const {
        return static_cast<unsigned>(topology_.port("a/" + device + ":1"));
    }
    const Topology topology_;
    Shared shared_;
};

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// -------------------------------------------------------------------------------------------------
// The table itself

TEST(DriverRules, EachRowIsInItsPlaceAndNamesATest) {
    std::set<std::string> tests;
    for (int suite = 0; suite < testing::UnitTest::GetInstance()->total_test_suite_count();
         ++suite) {
        const auto& found = *testing::UnitTest::GetInstance()->GetTestSuite(suite);
        for (int test = 0; test < found.total_test_count(); ++test) {
            tests.insert(std::string(found.name()) + "." + found.GetTestInfo(test)->name());
        }
    }
    std::set<std::string> names;
    for (std::size_t row = 0; row < kRules; ++row) {
        EXPECT_EQ(static_cast<std::size_t>(kRuleTable[row].rule), row) << kRuleTable[row].name;
        EXPECT_TRUE(names.insert(kRuleTable[row].name).second) << kRuleTable[row].name;
        EXPECT_TRUE(tests.contains(kRuleTable[row].test)) << kRuleTable[row].test;
        EXPECT_NE(std::string(kRuleTable[row].source), "");
    }
}

TEST(DriverRules, ThePageIsTheTable) {
    EXPECT_EQ(read_file(ADAPTIB_TEST_SIM "/../adapter/drivers.md"), rules_page())
        << "adaptib_hca_control rules >simulator/adapter/drivers.md";
}

// -------------------------------------------------------------------------------------------------
// Kinds

TEST(DriverRules, KindsAreAnnounced) {
    each_driver([](const Opened& device, Driver driver) {
        EXPECT_EQ(limits_of(device).vendor_id, value(driver, Rule::vendor));
        const ibv_transport_type transports[] = {IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP,
                                                 IBV_TRANSPORT_UNSPECIFIED};
        EXPECT_EQ(device.context->device->transport_type,
                  transports[value(driver, Rule::transport)]);
    });
}

TEST(DriverRules, QueuePairKinds) {
    each_driver([](const Opened& device, Driver driver) {
        const struct {
            ibv_qp_type type;
            Rule rule;
        } kinds[] = {{IBV_QPT_RC, Rule::rc}, {IBV_QPT_UD, Rule::ud}};
        for (const auto& kind : kinds) {
            ibv_qp_init_attr init = device.usual();
            init.qp_type = kind.type;
            EXPECT_EQ(error_of(Qp(ibv_create_qp(device.pd.get(), &init))),
                      value(driver, kind.rule) != 0 ? 0 : EOPNOTSUPP);
        }
    });
}

TEST(DriverRules, Atomics) {
    each_driver([](const Opened& device, Driver driver) {
        const std::int64_t kind = value(driver, Rule::atomics);
        EXPECT_EQ(limits_of(device).atomic_cap, static_cast<ibv_atomic_cap>(kind));
        if (value(driver, Rule::rc) == 0 || value(driver, Rule::transport) != 0) {
            return;
        }
        Loop loop(device);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 8);
        EXPECT_EQ(post(loop.ready().qp.get(), request(IBV_WR_ATOMIC_FETCH_AND_ADD, piece, memory)),
                  kind == 0 ? EINVAL : 0);
    });
}

TEST(DriverRules, PathMigration) {
    each_driver([](const Opened& device, Driver driver) {
        EXPECT_EQ((limits_of(device).device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG) != 0,
                  value(driver, Rule::apm) != 0);
    });
    const Opened ethernet("mlx5e");
    Loop loop(ethernet);
    ASSERT_EQ(loop.ready().qp->state, IBV_QPS_RTS);
    ibv_qp_attr attributes{};
    attributes.alt_port_num = 1;
    attributes.alt_ah_attr = path_to_self(ethernet);
    EXPECT_EQ(ibv_modify_qp(loop.qp.get(), &attributes, IBV_QP_ALT_PATH), EINVAL);
}

TEST(DriverRules, FilesAreRegistered) {
    const int file = memfd_create("accelerator", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, 4096), 0);
    each_driver([&](const Opened& device, Driver driver) {
        EXPECT_EQ(error_of(Mr(ibv_reg_dmabuf_mr(device.pd.get(), 0, 4096, 0x10000, file,
                                                IBV_ACCESS_LOCAL_WRITE))),
                  value(driver, Rule::dmabuf) != 0 ? 0 : EOPNOTSUPP);
    });
    close(file);
}

TEST(DriverRules, Resizing) {
    each_driver([](const Opened& device, Driver driver) {
        const bool can = value(driver, Rule::resize_cq) != 0;
        ASSERT_EQ(ibv_resize_cq(device.cq.get(), 60), can ? 0 : EOPNOTSUPP);
        const bool busy = value(driver, Rule::resize_busy) != 0;
        EXPECT_EQ(ibv_resize_cq(device.cq.get(), 70), !can ? EOPNOTSUPP : busy ? EBUSY : 0);
        ibv_wc wc{};
        EXPECT_EQ(ibv_poll_cq(device.cq.get(), 1, &wc), 0);
        EXPECT_EQ(ibv_resize_cq(device.cq.get(), 70), can ? 0 : EOPNOTSUPP);
    });
}

// -------------------------------------------------------------------------------------------------
// Limits

// Each of these devices has room for two objects of each kind.
void expect_two_of_each(const std::string& name, Driver driver) {
    SCOPED_TRACE(name);
    const auto error = static_cast<int>(value(driver, Rule::full_error));
    const Opened device(name); // with a domain and a completion queue
    const Pd second_pd(ibv_alloc_pd(device.context.get()));
    EXPECT_EQ(error_of(Pd(ibv_alloc_pd(device.context.get()))), error);
    const auto new_cq = [&] {
        return Cq(ibv_create_cq(device.context.get(), 10, nullptr, nullptr, 0));
    };
    const Cq second_cq = new_cq();
    EXPECT_EQ(error_of(new_cq()), error);
    Qp first_qp = device.queue_pair();
    const Qp second_qp = device.queue_pair();
    EXPECT_EQ(error_of(device.queue_pair()), error);
    first_qp.reset();
    EXPECT_EQ(error_of(device.queue_pair()), 0) << "a place is free again";
    std::array<std::uint8_t, 64> memory{};
    const auto new_mr = [&] { return device.registered(memory.data(), memory.size()); };
    const Mr first_mr = new_mr();
    const Mr second_mr = new_mr();
    EXPECT_EQ(error_of(new_mr()), error);
    ibv_ah_attr path = path_to_self(device);
    const auto new_ah = [&] { return Ah(ibv_create_ah(device.pd.get(), &path)); };
    const Ah first_ah = new_ah();
    const Ah second_ah = new_ah();
    EXPECT_EQ(error_of(new_ah()), error);
    ibv_srq_init_attr init{nullptr, {10, 1, 0}};
    const auto new_srq = [&] { return Srq(ibv_create_srq(device.pd.get(), &init)); };
    const Srq first_srq = new_srq();
    const Srq second_srq = new_srq();
    EXPECT_EQ(error_of(new_srq()),
              driver == Driver::strict && first_srq == nullptr ? EINVAL : error);
}

TEST(DriverRules, ObjectsAreCounted) {
    each_driver([](const Opened& device, Driver driver) {
        const ibv_device_attr limits = limits_of(device);
        EXPECT_EQ(limits.max_qp, value(driver, Rule::max_qp));
        EXPECT_EQ(limits.max_cq, value(driver, Rule::max_cq));
        EXPECT_EQ(limits.max_pd, value(driver, Rule::max_pd));
        EXPECT_EQ(limits.max_mr, value(driver, Rule::max_mr));
        EXPECT_EQ(limits.max_ah, value(driver, Rule::max_ah));
        EXPECT_EQ(limits.max_srq, value(driver, Rule::max_srq));
        ibv_srq_init_attr init{nullptr, {10, 1, 0}};
        EXPECT_EQ(error_of(Srq(ibv_create_srq(device.pd.get(), &init))),
                  limits.max_srq == 0 ? EOPNOTSUPP : 0);
        ibv_ah_attr path = path_to_self(device);
        EXPECT_EQ(error_of(Ah(ibv_create_ah(device.pd.get(), &path))), 0)
            << "also if none are announced";
    });
    expect_two_of_each("full_mlx5", Driver::mlx5);
    expect_two_of_each("full_rxe", Driver::rxe);
    expect_two_of_each("full_strict", Driver::strict);
}

TEST(DriverRules, ControlGroup) {
    const Opened device("group"); // a domain, a completion queue, and two further objects
    const Qp qp = device.queue_pair();
    Qp last = device.queue_pair();
    EXPECT_EQ(error_of(device.queue_pair()), EAGAIN);
    std::uint64_t memory = 0;
    EXPECT_EQ(error_of(device.registered(&memory, sizeof memory)), EAGAIN);
    last.reset();
    EXPECT_EQ(error_of(device.registered(&memory, sizeof memory)), 0);
}

TEST(DriverRules, LimitsOfQueuePairs) {
    each_driver([](const Opened& device, Driver driver) {
        const ibv_device_attr limits = limits_of(device);
        EXPECT_EQ(limits.max_qp_wr, value(driver, Rule::max_qp_wr));
        EXPECT_EQ(limits.max_sge, value(driver, Rule::max_sge));
        const auto try_with = [&](std::uint32_t ibv_qp_cap::*capacity, std::int64_t wanted) {
            ibv_qp_init_attr init = device.usual();
            init.qp_type = value(driver, Rule::rc) != 0 ? IBV_QPT_RC : IBV_QPT_UD;
            init.cap.*capacity = static_cast<std::uint32_t>(wanted);
            return error_of(Qp(ibv_create_qp(device.pd.get(), &init)));
        };
        EXPECT_EQ(try_with(&ibv_qp_cap::max_recv_wr, limits.max_qp_wr), 0);
        EXPECT_EQ(try_with(&ibv_qp_cap::max_recv_wr, limits.max_qp_wr + 1), EINVAL);
        EXPECT_EQ(try_with(&ibv_qp_cap::max_send_wr, std::int64_t{limits.max_qp_wr} + 1), EINVAL);
        for (const auto capacity : {&ibv_qp_cap::max_send_sge, &ibv_qp_cap::max_recv_sge}) {
            EXPECT_EQ(try_with(capacity, limits.max_sge), 0);
            EXPECT_EQ(try_with(capacity, limits.max_sge + 1), EINVAL);
        }
        const std::int64_t most = value(driver, Rule::max_inline);
        EXPECT_EQ(try_with(&ibv_qp_cap::max_inline_data, std::min<std::int64_t>(most, 5000)), 0);
        if (most != kAny) {
            EXPECT_EQ(try_with(&ibv_qp_cap::max_inline_data, most + 1), EINVAL);
        }
    });
}

TEST(DriverRules, EntriesOfReads) {
    const Opened device("strict"); // a read has one entry
    EXPECT_EQ(limits_of(device).max_sge_rd, 1);
    ibv_qp_init_attr init = device.usual();
    init.cap.max_send_sge = 2;
    Loop loop(device, init);
    const Memory memory(device, 64);
    ibv_sge pieces[] = {memory.piece(0, 8), memory.piece(8, 8)};
    ibv_send_wr read = request(IBV_WR_RDMA_READ, pieces[0], memory, 16);
    EXPECT_EQ(post(loop.ready().qp.get(), read), 0);
    read.num_sge = 2;
    EXPECT_EQ(post(loop.qp.get(), read), EINVAL);
    read.opcode = IBV_WR_RDMA_WRITE;
    EXPECT_EQ(post(loop.qp.get(), read), 0);
}

TEST(DriverRules, SharedReceiveQueues) {
    each_driver([](const Opened& device, Driver driver) {
        const ibv_device_attr limits = limits_of(device);
        EXPECT_EQ(limits.max_srq_wr, value(driver, Rule::max_srq_wr));
        EXPECT_EQ(limits.max_srq_sge, value(driver, Rule::max_srq_sge));
        if (limits.max_srq == 0) {
            return;
        }
        const auto wr = static_cast<std::uint32_t>(limits.max_srq_wr);
        const auto sge = static_cast<std::uint32_t>(limits.max_srq_sge);
        const auto made = [&](std::uint32_t depth, std::uint32_t entries) {
            ibv_srq_init_attr init{nullptr, {depth, entries, 0}};
            return error_of(Srq(ibv_create_srq(device.pd.get(), &init)));
        };
        EXPECT_EQ(made(wr, sge), 0);
        EXPECT_EQ(made(wr + 1, sge), EINVAL);
        EXPECT_EQ(made(wr, sge + 1), EINVAL);
    });
}

TEST(DriverRules, Reads) {
    each_driver([](const Opened& device, Driver driver) {
        const ibv_device_attr limits = limits_of(device);
        EXPECT_EQ(limits.max_qp_rd_atom, value(driver, Rule::max_reads));
        EXPECT_EQ(limits.max_qp_init_rd_atom, value(driver, Rule::max_init_reads));
        if (value(driver, Rule::rc) == 0 || value(driver, Rule::transport) != 0) {
            return;
        }
        Loop loop(device);
        EXPECT_EQ(loop.init(), 0);
        const auto served = static_cast<std::uint8_t>(limits.max_qp_rd_atom);
        EXPECT_EQ(loop.rtr(IBV_MTU_256, static_cast<std::uint8_t>(served + 1)), EINVAL);
        EXPECT_EQ(loop.rtr(IBV_MTU_256, served), 0);
        if (limits.max_qp_init_rd_atom < 255) {
            const bool cut = value(driver, Rule::init_reads_cut) != 0;
            EXPECT_EQ(loop.rts(static_cast<std::uint8_t>(limits.max_qp_init_rd_atom + 1)),
                      cut ? 0 : EINVAL);
            if (cut) {
                ibv_qp_attr attributes{};
                ibv_qp_init_attr init{};
                EXPECT_EQ(ibv_query_qp(loop.qp.get(), &attributes, IBV_QP_MAX_QP_RD_ATOMIC, &init),
                          0);
                EXPECT_EQ(attributes.max_rd_atomic, limits.max_qp_init_rd_atom);
                return;
            }
        }
        EXPECT_EQ(loop.rts(static_cast<std::uint8_t>(limits.max_qp_init_rd_atom)), 0);
    });
}

TEST(DriverRules, LongMessages) {
    each_driver([](const Opened& device, Driver driver) {
        const std::int64_t most =
            driver == Driver::rxe ? 65536 : value(driver, Rule::max_message); // as the file says
        EXPECT_EQ(port_of(device).max_msg_sz, most);
    });
    const Opened device("rxe");
    Loop loop(device);
    const Memory memory(device, 2 * 65537);
    ibv_sge piece = memory.piece(65537, 65536);
    EXPECT_EQ(post(loop.ready().qp.get(), request(IBV_WR_RDMA_WRITE, piece, memory)), 0);
    EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS);
    ++piece.length;
    EXPECT_EQ(post(loop.qp.get(), request(IBV_WR_RDMA_WRITE, piece, memory)), 0);
    EXPECT_EQ(status_of(device.cq.get()), IBV_WC_LOC_LEN_ERR);
}

// -------------------------------------------------------------------------------------------------
// What a program gets

TEST(DriverRules, WorkRequestCalls) {
    each_driver([](const Opened& device, Driver driver) {
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = device.cq.get();
        init.cap = {4, 4, 1, 1, 0};
        init.qp_type = value(driver, Rule::rc) != 0 ? IBV_QPT_RC : IBV_QPT_UD;
        init.pd = device.pd.get();
        init.comp_mask = IBV_QP_INIT_ATTR_PD;
        EXPECT_EQ(error_of(Qp(ibv_create_qp_ex(device.context.get(), &init))), 0);
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND;
        EXPECT_EQ(error_of(Qp(ibv_create_qp_ex(device.context.get(), &init))),
                  value(driver, Rule::wr_api) != 0 ? 0 : EOPNOTSUPP);
        init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
        EXPECT_EQ(error_of(Qp(ibv_create_qp_ex(device.context.get(), &init))), EOPNOTSUPP);
    });
}

std::uint32_t returned_inline(const std::string& name, std::uint32_t asked, std::uint32_t sge = 1,
                              ibv_qp_type type = IBV_QPT_RC) {
    const Opened device(name);
    ibv_qp_init_attr init = device.usual();
    init.qp_type = type;
    init.cap.max_inline_data = asked;
    init.cap.max_send_sge = sge;
    const Qp qp(ibv_create_qp(device.pd.get(), &init));
    EXPECT_NE(qp, nullptr) << name;
    return init.cap.max_inline_data;
}

// The sums are those of the drivers' comments on their entries.
TEST(DriverRules, InlineAsReturned) {
    EXPECT_EQ(returned_inline("hfi1", 512), 0u);
    EXPECT_EQ(returned_inline("qib", 64), 0u);
    EXPECT_EQ(returned_inline("strict", 4000), 0u);
    EXPECT_EQ(returned_inline("bnxt_re", 96), 96u);
    EXPECT_EQ(returned_inline("mlx5", 0), 256u - 192 - 4) << "four blocks";
    EXPECT_EQ(returned_inline("mlx5", 61), 320u - 192 - 4) << "five";
    EXPECT_EQ(returned_inline("mlx5", 61, 1, IBV_QPT_UD), 192u - 64 - 4);
    EXPECT_EQ(returned_inline("mlx4", 0), 32u - 4) << "the smallest entry";
    EXPECT_EQ(returned_inline("mlx4", 64), 96u - 2 * 4);
    EXPECT_EQ(returned_inline("rxe", 20, 4), 64u) << "four entries";
    EXPECT_EQ(returned_inline("rxe", 100, 4), 100u);
    EXPECT_EQ(returned_inline("hns", 20), 32u);
}

TEST(DriverRules, InlineIsIgnored) {
    for (const char* name : {"hfi1", "qib", "strict", "mlx5"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool ignored = std::string(name) != "mlx5";
        Loop loop(device);
        const Memory memory(device, 16);
        std::array<std::uint8_t, 8> data{1, 2, 3};
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(data.data()), 8, 0};
        ibv_send_wr work = request(IBV_WR_RDMA_WRITE, piece, memory);
        work.send_flags |= IBV_SEND_INLINE;
        EXPECT_EQ(post(loop.ready().qp.get(), work), ignored ? EINVAL : 0) << "without a key";
        const Mr region = device.registered(data.data(), data.size());
        piece.lkey = region->lkey;
        EXPECT_EQ(post(loop.qp.get(), work), 0);
        EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS);
        EXPECT_EQ(memory.bytes[1], 2);
    }
}

std::uint32_t returned_depth(const std::string& name, std::uint32_t asked, std::uint32_t data = 0) {
    const Opened device(name);
    ibv_qp_init_attr init = device.usual();
    init.qp_type = name == "efa" ? IBV_QPT_UD : IBV_QPT_RC;
    init.cap.max_send_wr = asked;
    init.cap.max_inline_data = data;
    errno = 0;
    const Qp qp(ibv_create_qp(device.pd.get(), &init));
    return qp == nullptr ? 0 : init.cap.max_send_wr;
}

TEST(DriverRules, SendDepth) {
    EXPECT_EQ(returned_depth("hfi1", 100), 100u);
    EXPECT_EQ(returned_depth("siw", 100), 128u);
    EXPECT_EQ(returned_depth("efa", 100), 128u);
    EXPECT_EQ(returned_depth("hns", 100), 128u);
    EXPECT_EQ(returned_depth("rxe", 255), 255u);
    EXPECT_EQ(returned_depth("rxe", 256), 511u);
    EXPECT_EQ(returned_depth("mlx5", 100), 128u) << "of 256 bytes";
    EXPECT_EQ(returned_depth("mlx5", 100, 100), 102u) << "of 320 bytes, in 32768";
    EXPECT_EQ(returned_depth("mlx4", 100), 256u - 33) << "of 64 bytes";
    EXPECT_EQ(returned_depth("irdma", 100), (512u - 258) / 2) << "of 64 bytes";
    EXPECT_EQ(returned_depth("irdma", 100, 101), (1024u - 258) / 4);
    EXPECT_EQ(returned_depth("mlx5", 8192), 8192u) << "all blocks of the queue";
    EXPECT_EQ(returned_depth("mlx5", 8193), 0u);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(returned_depth("mlx5", 8192, 100), 0u) << "of five blocks each";
}

TEST(DriverRules, CompletionQueueDepth) {
    each_driver([](const Opened& device, Driver driver) {
        EXPECT_EQ(limits_of(device).max_cqe, value(driver, Rule::max_cqe));
        const auto made = [&](std::int64_t wanted) {
            errno = 0;
            return Cq(
                ibv_create_cq(device.context.get(), static_cast<int>(wanted), nullptr, nullptr, 0));
        };
        const int sizes[] = {100, 128, 127};
        EXPECT_EQ(made(100)->cqe, sizes[value(driver, Rule::cqe_depth)]);
        EXPECT_EQ(error_of(made(value(driver, Rule::max_cqe))), 0);
        EXPECT_EQ(error_of(made(value(driver, Rule::max_cqe) + 1)), EINVAL);
    });
}

// -------------------------------------------------------------------------------------------------
// Posting and completing

TEST(DriverRules, ResetQueuePairs) {
    each_driver([](const Opened& device, Driver driver) {
        if (value(driver, Rule::rc) == 0) {
            return;
        }
        Loop loop(device);
        loop.ready();
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RESET;
        EXPECT_EQ(ibv_modify_qp(loop.qp.get(), &attributes, IBV_QP_STATE), 0);
        EXPECT_EQ(loop.init(), value(driver, Rule::reset_reuse) != 0 ? 0 : EINVAL);
    });
}

TEST(DriverRules, PostingBeforeReady) {
    for (const char* name : {"mlx5", "mlx4", "hfi1", "bnxt_re", "hns"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool held = std::string(name) == "mlx4" || std::string(name) == "bnxt_re";
        Loop loop(device);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 8);
        const ibv_send_wr work = request(IBV_WR_RDMA_WRITE, piece, memory);
        const bool stays = std::string(name) == "hfi1"; // the rule receives_stay
        EXPECT_EQ(post_receive(loop.qp.get()), stays ? 0 : EINVAL) << "in RESET";
        EXPECT_EQ(loop.init(), 0);
        EXPECT_EQ(post_receive(loop.qp.get()), 0);
        EXPECT_EQ(post(loop.qp.get(), work), held ? 0 : EINVAL) << "in INIT";
        EXPECT_EQ(loop.rtr(), 0);
        EXPECT_EQ(post(loop.qp.get(), work), held ? 0 : EINVAL) << "in RTR";
        EXPECT_EQ(status_of(device.cq.get(), std::chrono::milliseconds(50)), -1);
        EXPECT_EQ(loop.rts(), 0);
        if (held) {
            EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS);
        }
    }
}

TEST(DriverRules, ReceivesThatStay) {
    for (const Driver driver : {Driver::mlx5, Driver::hfi1, Driver::qib}) {
        SCOPED_TRACE(name_of(driver));
        const bool stay = value(driver, Rule::receives_stay) != 0;
        const Opened device{std::string(name_of(driver))};
        Loop loop(device);
        const auto move = [&](ibv_qp_state state) {
            ibv_qp_attr attributes{};
            attributes.qp_state = state;
            EXPECT_EQ(ibv_modify_qp(loop.qp.get(), &attributes, IBV_QP_STATE), 0);
        };
        const auto flushed = [&] {
            int count = 0;
            while (status_of(device.cq.get(), std::chrono::milliseconds(50)) ==
                   IBV_WC_WR_FLUSH_ERR) {
                ++count;
            }
            return count;
        };
        EXPECT_EQ(post_receive(loop.qp.get()), stay ? 0 : EINVAL) << "in RESET";
        loop.ready();
        EXPECT_EQ(post_receive(loop.qp.get()), 0);
        move(IBV_QPS_ERR);
        EXPECT_EQ(flushed(), stay ? 2 : 1);
        EXPECT_EQ(post_receive(loop.qp.get()), 0);
        move(IBV_QPS_ERR);
        EXPECT_EQ(flushed(), stay ? 0 : 1) << "in ERR already";
        move(IBV_QPS_RESET);
        EXPECT_EQ(loop.init(), 0);
        move(IBV_QPS_ERR);
        EXPECT_EQ(flushed(), stay ? 1 : 0) << "over RESET";
    }
}

TEST(DriverRules, TooManyEntries) {
    for (const Driver driver : {Driver::mlx4, Driver::mlx5, Driver::strict}) {
        SCOPED_TRACE(name_of(driver));
        const Opened device{std::string(name_of(driver))};
        Loop loop(device);
        const Memory memory(device, 64);
        ibv_sge pieces[] = {memory.piece(0, 8), memory.piece(8, 8), memory.piece(16, 8)};
        ibv_send_wr write = request(IBV_WR_RDMA_WRITE, pieces[0], memory, 24);
        const auto room = static_cast<int>(loop.returned.max_send_sge);
        EXPECT_EQ(room, driver == Driver::mlx4 ? 2 : 1) << "what an entry holds";
        write.num_sge = room;
        EXPECT_EQ(post(loop.ready().qp.get(), write), 0);
        write.num_sge = room + 1;
        EXPECT_EQ(post(loop.qp.get(), write), value(driver, Rule::entries_error));
    }
}

TEST(DriverRules, KeysAtPost) {
    for (const char* name : {"hfi1", "mlx5"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool checked = std::string(name) == "hfi1";
        Loop loop(device);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 9); // too long by one
        EXPECT_EQ(post(loop.ready().qp.get(), request(IBV_WR_RDMA_WRITE, piece, memory)),
                  checked ? EINVAL : 0);
        EXPECT_EQ(status_of(device.cq.get(), std::chrono::milliseconds(checked ? 50 : 20000)),
                  checked ? -1 : IBV_WC_LOC_PROT_ERR);
    }
}

TEST(DriverRules, PlacesOfSendQueues) {
    for (const char* name : {"hfi1", "rxe", "mlx5"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool at_once = std::string(name) != "mlx5";
        ibv_qp_init_attr init = device.usual();
        init.cap.max_send_wr = 1;
        Loop loop(device, init);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 8);
        ibv_send_wr work = request(IBV_WR_RDMA_WRITE, piece, memory);
        const std::uint32_t depth = loop.returned.max_send_wr;
        loop.ready();
        for (std::uint32_t each = 0; each < depth; ++each) {
            EXPECT_EQ(post(loop.qp.get(), work), 0);
        }
        // Without a look at the completions. What is done takes some time.
        const auto post_within = [&](std::chrono::milliseconds limit) {
            const auto end = std::chrono::steady_clock::now() + limit;
            int error = ENOMEM;
            while (error == ENOMEM && std::chrono::steady_clock::now() < end) {
                error = post(loop.qp.get(), work);
            }
            return error;
        };
        EXPECT_EQ(post_within(at_once ? kLong : kLong / 100), at_once ? 0 : ENOMEM);
        EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS);
        EXPECT_EQ(post_within(kLong), 0);
    }
}

TEST(DriverRules, Overrun) {
    for (const char* name : {"rxe", "hfi1"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool lasting = std::string(name) != "rxe";
        const Cq small(ibv_create_cq(device.context.get(), 1, nullptr, nullptr, 0));
        ibv_qp_init_attr init = device.usual();
        init.send_cq = small.get();
        Loop loop(device, init);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 8);
        const ibv_send_wr work = request(IBV_WR_RDMA_WRITE, piece, memory);
        loop.ready();
        for (int each = 0; each < small->cqe + 1; ++each) {
            EXPECT_EQ(post(loop.qp.get(), work), 0);
        }
        ibv_async_event event{};
        ASSERT_EQ(ibv_get_async_event(device.context.get(), &event), 0);
        EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
        ibv_ack_async_event(&event);
        for (int each = 0; each < small->cqe; ++each) {
            EXPECT_EQ(status_of(small.get()), IBV_WC_SUCCESS);
        }
        EXPECT_EQ(post(loop.qp.get(), work), 0);
        EXPECT_EQ(status_of(small.get(), std::chrono::milliseconds(lasting ? 100 : 20000)),
                  lasting ? -1 : IBV_WC_SUCCESS);
    }
}

TEST(DriverRules, OrderIsTold) {
    for (const char* name : {"v2", "mlx5", "hfi1", "rxe"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        Loop loop(device);
        const auto told = [&] {
            return ibv_query_qp_data_in_order(loop.qp.get(), IBV_WR_RDMA_WRITE, 0);
        };
        const bool always = std::string(name) == "v2";
        EXPECT_EQ(told(), always ? 1 : 0) << "in RESET";
        EXPECT_EQ(loop.init(), 0);
        EXPECT_EQ(loop.rtr(), 0);
        EXPECT_EQ(told(), always ? 1 : 0) << "in RTR";
        EXPECT_EQ(loop.rts(), 0);
        EXPECT_EQ(told(), always || std::string(name) == "mlx5" ? 1 : 0) << "in RTS";
    }
}

// -------------------------------------------------------------------------------------------------
// Paths

TEST(DriverRules, PathMtu) {
    const struct {
        const char* device;
        ibv_mtu wanted;
        int error;
    } cases[] = {
        {"mlx5e", IBV_MTU_4096, 0},                                      // only the range
        {"bnxt_re", IBV_MTU_1024, 0}, {"bnxt_re", IBV_MTU_2048, EINVAL}, // the active one
        {"rxe", IBV_MTU_2048, 0},     {"rxe", IBV_MTU_4096, EINVAL},     // the port's
        {"hfi1", IBV_MTU_4096, 0},                                       // the lesser
    };
    for (const auto& one : cases) {
        SCOPED_TRACE(one.device);
        const Opened device{std::string(one.device)};
        Loop loop(device);
        EXPECT_EQ(loop.init(), 0);
        EXPECT_EQ(loop.rtr(one.wanted), one.error);
    }
    const Opened device("hfi1");
    Loop loop(device);
    const Memory memory(device, 8192);
    ibv_sge piece = memory.piece(4096, 4096);
    EXPECT_EQ(loop.init() + loop.rtr(IBV_MTU_4096) + loop.rts(), 0);
    EXPECT_EQ(post(loop.qp.get(), request(IBV_WR_RDMA_WRITE, piece, memory)), 0);
    EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS) << "in packets of 2048";
}

TEST(DriverRules, Tables) {
    const Opened infiniband("mlx5");
    EXPECT_EQ(port_of(infiniband).pkey_tbl_len, 128);
    __be16 pkey = 1;
    EXPECT_EQ(ibv_query_pkey(infiniband.context.get(), 1, 127, &pkey), 0);
    EXPECT_EQ(pkey, 0) << "an empty entry";
    EXPECT_NE(ibv_query_pkey(infiniband.context.get(), 1, 128, &pkey), 0);

    const Opened ethernet("mlx5e");
    EXPECT_EQ(port_of(ethernet).pkey_tbl_len, 1);
    EXPECT_EQ(port_of(ethernet).gid_tbl_len, 255);
    const std::uint32_t types[] = {IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V1,
                                   IBV_GID_TYPE_ROCE_V2};
    ibv_gid_entry entries[4]{};
    for (std::uint32_t index = 0; index < 4; ++index) {
        ASSERT_EQ(ibv_query_gid_ex(ethernet.context.get(), 1, index, &entries[index], 0), 0);
        EXPECT_EQ(entries[index].gid_type, types[index]);
    }
    EXPECT_EQ(std::memcmp(&entries[2].gid, &entries[3].gid, sizeof(ibv_gid)), 0);
    ibv_gid_entry empty{};
    EXPECT_EQ(ibv_query_gid_ex(ethernet.context.get(), 1, 4, &empty, 0), ENODATA);
    ibv_gid gid{};
    gid.raw[0] = 1;
    EXPECT_EQ(ibv_query_gid(ethernet.context.get(), 1, 4, &gid), 0);
    EXPECT_EQ(gid.raw[0], 0) << "zeros";
    EXPECT_NE(ibv_query_gid(ethernet.context.get(), 1, 255, &gid), 0);
    ibv_ah_attr path = path_to_self(ethernet);
    path.grh.sgid_index = 4;
    EXPECT_EQ(error_of(Ah(ibv_create_ah(ethernet.pd.get(), &path))), ENODATA);
    EXPECT_EQ(ibv_query_gid_table(ethernet.context.get(), entries, 3, 0), -EINVAL);
    EXPECT_EQ(ibv_query_gid_table(ethernet.context.get(), entries, 4, 0), 4);
    EXPECT_EQ(port_of(Opened("rxe")).gid_tbl_len, 1024);
}

// Each handle without a flow label takes another way; a label fixes it.
TEST(DriverRules, SourcePorts) {
    constexpr int kDatagrams = 16;
    SharedPorts ports;
    const auto count = [&](const std::string& name, std::uint32_t label) {
        const Opened device(name);
        ibv_qp_init_attr init = device.usual();
        init.qp_type = IBV_QPT_UD;
        const Qp qp(ibv_create_qp(device.pd.get(), &init));
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = 1;
        attributes.qkey = 7;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, kToInit | IBV_QP_QKEY), 0);
        attributes.qp_state = IBV_QPS_RTR;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE), 0);
        attributes.qp_state = IBV_QPS_RTS;
        EXPECT_EQ(ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
        std::vector<std::uint8_t> memory(40);
        const Mr region = device.registered(memory.data(), memory.size());
        ibv_sge place{reinterpret_cast<std::uintptr_t>(memory.data()), 40, region->lkey};
        for (int each = 0; each < kDatagrams; ++each) {
            ibv_recv_wr receive{};
            receive.sg_list = &place;
            receive.num_sge = 1;
            ibv_recv_wr* bad = nullptr;
            EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad), 0);
        }
        ports.of(name).lost_flows = 500'000;
        std::vector<Ah> handles;
        for (int each = 0; each < kDatagrams; ++each) {
            ibv_ah_attr path = path_to_self(device, label);
            handles.emplace_back(ibv_create_ah(device.pd.get(), &path));
            ibv_send_wr work{};
            work.opcode = IBV_WR_SEND;
            work.wr.ud = {handles.back().get(), qp->qp_num, 7};
            EXPECT_EQ(post(qp.get(), work), 0);
        }
        int arrived = 0;
        while (status_of(device.cq.get(), std::chrono::milliseconds(200)) == IBV_WC_SUCCESS) {
            ++arrived;
        }
        ports.of(name).lost_flows = 0;
        return arrived;
    };
    const int spread = count("mlx5e", 0);
    EXPECT_GT(spread, 0);
    EXPECT_LT(spread, kDatagrams);
    const int fixed = count("mlx5e", 0x12345);
    EXPECT_TRUE(fixed == 0 || fixed == kDatagrams) << fixed;
    const int same = count("irdma", 0);
    EXPECT_TRUE(same == 0 || same == kDatagrams) << same;
}

// -------------------------------------------------------------------------------------------------
// Events

TEST(DriverRules, Events) {
    for (const char* name : {"mlx5", "rxe"}) {
        SCOPED_TRACE(name);
        const Opened device{std::string(name)};
        const bool raised = std::string(name) == "mlx5";
        ibv_srq_init_attr srq_init{nullptr, {10, 1, 0}};
        const Srq srq(ibv_create_srq(device.pd.get(), &srq_init));
        ibv_qp_init_attr init = device.usual();
        init.srq = srq.get();
        Loop target(device, init);
        Loop source(device);
        EXPECT_EQ(source.init() + target.init(), 0);
        // The source's peer is the target, which stays in RTR.
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = IBV_MTU_256;
        attributes.max_dest_rd_atomic = 1;
        attributes.min_rnr_timer = 1;
        attributes.ah_attr = path_to_self(device);
        attributes.dest_qp_num = target.qp->qp_num;
        EXPECT_EQ(ibv_modify_qp(source.qp.get(), &attributes, kToRtr), 0);
        attributes.dest_qp_num = source.qp->qp_num;
        EXPECT_EQ(ibv_modify_qp(target.qp.get(), &attributes, kToRtr), 0);
        EXPECT_EQ(source.rts(), 0);
        const Memory memory(device, 16);
        ibv_sge piece = memory.piece(8, 8);
        EXPECT_EQ(post(source.qp.get(), request(IBV_WR_RDMA_WRITE, piece, memory)), 0);
        EXPECT_EQ(status_of(device.cq.get()), IBV_WC_SUCCESS);
        attributes.qp_state = IBV_QPS_ERR;
        EXPECT_EQ(ibv_modify_qp(target.qp.get(), &attributes, IBV_QP_STATE), 0);
        for (const ibv_event_type type : {IBV_EVENT_COMM_EST, IBV_EVENT_QP_LAST_WQE_REACHED}) {
            pollfd file{device.context->async_fd, POLLIN, 0};
            ASSERT_EQ(poll(&file, 1, 0), raised ? 1 : 0);
            if (raised) {
                ibv_async_event event{};
                ASSERT_EQ(ibv_get_async_event(device.context.get(), &event), 0);
                EXPECT_EQ(event.event_type, type);
                ibv_ack_async_event(&event);
            }
        }
    }
}

// -------------------------------------------------------------------------------------------------
// Removal. What cannot be destroyed any more stays until the process ends.

void expect_gone(const std::string& name, int posting) {
    SCOPED_TRACE(name);
    SharedPorts ports;
    const int devices = [] {
        int count = 0;
        ibv_free_device_list(ibv_get_device_list(&count));
        return count;
    }();
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_device* const device = list[number_of(name)];
    ibv_free_device_list(list);
    ibv_context* const context = ibv_open_device(device);
    ibv_pd* const pd = ibv_alloc_pd(context);
    ibv_comp_channel* const channel = ibv_create_comp_channel(context);
    ibv_cq* const cq = ibv_create_cq(context, 10, nullptr, channel, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr);
    ports.remove(name);

    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    for (int time = 0; time < 2; ++time) {
        pollfd file{channel->fd, POLLIN, 0};
        EXPECT_EQ(poll(&file, 1, 10000), 1);
        EXPECT_EQ(file.revents, POLLERR);
        ibv_cq* its = nullptr;
        void* its_context = nullptr;
        errno = 0;
        EXPECT_EQ(ibv_get_cq_event(channel, &its, &its_context), -1);
        EXPECT_EQ(errno, EIO);
    }
    ibv_device_attr attributes{};
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_device(context, &attributes), EIO);
    EXPECT_EQ(ibv_query_port(context, 1, &port), EIO);
    EXPECT_EQ(error_of(Pd(ibv_alloc_pd(context))), EIO);
    EXPECT_EQ(error_of(Qp(ibv_create_qp(pd, &init))), EIO);
    ibv_qp_attr move{};
    move.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(qp, &move, IBV_QP_STATE), EIO);
    EXPECT_EQ(post(qp, {}), posting);
    EXPECT_EQ(ibv_req_notify_cq(cq, 0), posting);
    EXPECT_EQ(status_of(cq, std::chrono::milliseconds(50)), -1) << "no completion";
    EXPECT_EQ(ibv_destroy_qp(qp), EIO);
    EXPECT_EQ(ibv_destroy_cq(cq), EIO);
    EXPECT_EQ(ibv_dealloc_pd(pd), EIO);
    EXPECT_EQ(number_of(name), -1);
    errno = 0;
    EXPECT_EQ(ibv_open_device(device), nullptr);

    ports.give_back(name);
    int count = 0;
    ibv_free_device_list(ibv_get_device_list(&count));
    EXPECT_EQ(count, devices);
    EXPECT_EQ(ibv_query_port(context, 1, &port), EIO) << "it is another one";
    EXPECT_EQ(port_of(Opened(name)).state, IBV_PORT_ACTIVE);

    ibv_context* const again = ibv_open_device(device);
    ports.remove(name); // once more
    ASSERT_EQ(ibv_get_async_event(again, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    pollfd file{context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&file, 1, 0), 0) << "the first context hears of the first removal alone";
    ports.give_back(name);
    EXPECT_EQ(ibv_close_device(again), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(DriverRules, ARemovedDevice) {
    expect_gone("taken", 0);
    expect_gone("taken_qib", EIO);
}

} // namespace
} // namespace adaptib::hca
