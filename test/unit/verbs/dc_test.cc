// SPDX-License-Identifier: BSD-3-Clause
// Dynamically connected queue pairs over mlx5dv: which rails have them, which library calls find
// that out, and refusals of these calls; and when the library itself is loaded.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/rail_text.h"
#include "unit/verbs/dc_fixture.h"

namespace adaptib::test {
namespace {

// -------------------------------------------------------------------------------------------------
// Rails with DC

TEST_F(DcTest, BothEndsAreTried) {
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk) << error_;
    EXPECT_TRUE(has_dc());
    EXPECT_EQ(rail_text(rail().info()), "mlx5_0:1: rc, ud, dc, srq, rdma_read, rdma_write, "
                                        "write_imm, atomic64, migration");
    EXPECT_EQ(rail().info().inline_bytes, 512u);

    ASSERT_EQ(dc_creations().size(), 2u);
    EXPECT_EQ(dc_creations()[0].mlx5.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCI);
    EXPECT_EQ(dc_creations()[1].mlx5.dc_init_attr.dc_type, MLX5DV_DCTYPE_DCT);
    std::vector<int> masks;
    for (const ModifyCall& call : lib_.modified) {
        masks.push_back(call.mask);
    }
    EXPECT_EQ(masks, (std::vector<int>{kInitMask, kInitiatorReadyMask, kInitiatorSendMask,
                                       kInitMask | IBV_QP_ACCESS_FLAGS, kTargetReadyMask}));
    EXPECT_EQ(lib_.modified[3].attributes.qp_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_ATOMIC));
    EXPECT_EQ(lib_.living("qp"), 0);
    EXPECT_EQ(lib_.living("cq"), 0);
    EXPECT_EQ(lib_.living("srq"), 0);
}

TEST_F(DcTest, ATargetSaysForItselfWhetherItPlacesInOrder) {
    for (const bool connected : {false, true}) {
        for (const bool target : {false, true}) {
            lib_.writes_in_order = connected ? 1 : 0;
            lib_.targets_in_order = target ? 1 : 0;
            open_device();
            ASSERT_TRUE(has_dc());
            EXPECT_EQ(rail().info().places_in_order, connected);
            EXPECT_EQ(rail().info().target_places_in_order, target);
        }
    }
}

TEST_F(DcTest, AnotherAdapterHasNone) {
    device_.mlx5 = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: mlx5_0 is not an mlx5 adapter");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutTheLibraryThereIsNone) {
    options_.mlx5 = nullptr;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: mlx5_0 is not an mlx5 adapter");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutSharedReceiveQueuesThereIsNone) {
    device_.limits.max_srq = 0;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: the device has no shared receive queues");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, WithoutConnectionsThereIsNone) {
    device_.rc = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: the device has no connected queue pairs");
    EXPECT_TRUE(dc_creations().empty());
}

TEST_F(DcTest, OneEndIsNotEnough) {
    device_.initiators = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_EQ(refused(), "no DC queue pairs: no DC initiator: Operation not supported");
    end_objects();
    fabric_.reset();

    device_.initiators = true;
    device_.targets = false;
    open_device();
    EXPECT_FALSE(has_dc());
    EXPECT_NE(refused().find("DC target"), std::string::npos) << refused();
    EXPECT_TRUE(rail().info().has(Capability::rc));
}

// A refusal at any step leaves a rail without DC, and no objects.
TEST_F(DcTest, WhateverIsRefusedTheRailGoesOn) {
    struct Case {
        const char* call;
        int nth;
        int error;
    };
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk);
    const int queues = lib_.count("create_cq");
    fabric_.reset();
    for (const Case& c :
         {Case{"mlx5dv_create_qp", 1, ENOMEM}, Case{"mlx5dv_create_qp", 1, EOPNOTSUPP},
          Case{"mlx5dv_create_qp", 2, ENOMEM}, Case{"mlx5dv_create_qp", 2, EOPNOTSUPP},
          Case{"mlx5dv_qp_ex", 1, EINVAL}, Case{"create_cq", queues, ENOMEM},
          Case{"create_srq", 1, ENOMEM}, Case{"modify_qp", 1, EINVAL}, Case{"modify_qp", 2, EINVAL},
          Case{"modify_qp", 3, EIO}, Case{"modify_qp", 4, EOPNOTSUPP},
          Case{"modify_qp", 5, EINVAL}}) {
        SCOPED_TRACE(std::string(c.call) + " " + std::to_string(c.nth));
        lib_.fail(c.call, c.nth, c.error);
        ASSERT_EQ(open(), kOk) << error_;
        EXPECT_TRUE(lib_.failed());
        EXPECT_FALSE(has_dc());
        EXPECT_TRUE(rail().info().has(Capability::rc));
        EXPECT_TRUE(rail().info().has(Capability::ud));
        EXPECT_EQ(rail().info().inline_bytes, 512u) << "who has no DC gives nothing away for it";
        EXPECT_EQ(rail().last_error_text(), "") << "nobody has asked for DC";
        EXPECT_GT(refused().size(), std::strlen("no DC queue pairs: no "));
        EXPECT_EQ(lib_.living("qp"), 0);
        EXPECT_EQ(lib_.living("srq"), 0);
        end_objects();
        fabric_.reset();
        EXPECT_EQ(lib_.living(), 0) << left();
    }
}

TEST_F(DcTest, LimitsAreTried) {
    device_.initiator_inline_bytes = 100;
    device_.initiator_reads = 3;
    open_device();
    ASSERT_TRUE(has_dc());
    EXPECT_EQ(rail().info().inline_bytes, 64u);
    EXPECT_EQ(rail().info().max_reads, 8u) << "of connected ones";
    initiator(); // asks for 5
    EXPECT_EQ(lib_.modified.back().attributes.max_rd_atomic, 2);
}

TEST_F(DcTest, AnAdapterWithoutAtomics) {
    device_.limits.atomic_cap = IBV_ATOMIC_NONE;
    lib_.devices = {device_};
    ASSERT_EQ(open(), kOk);
    ASSERT_TRUE(has_dc());
    EXPECT_EQ(dc_creations()[0].attributes.send_ops_flags, kOperations & ~kAtomicOperations);
    EXPECT_EQ(lib_.modified[3].attributes.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC, 0u);
    QueuePair& from = initiator();
    EXPECT_EQ(from.post_send(work(1, Opcode::fetch_add)), refusal(Reason::not_supported));
}

// -------------------------------------------------------------------------------------------------
// The library itself

TEST(Mlx5Library, IsTakenOnlyWhereItIsInUse) {
    verbs::Mlx5Calls calls{};
    if (dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr) {
        EXPECT_FALSE(verbs::load_mlx5(calls));
    }
    void* const library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL); // as libibverbs does
    if (library == nullptr) {
        GTEST_SKIP() << "this machine has no libmlx5: " << dlerror();
    }
    EXPECT_TRUE(verbs::load_mlx5(calls));
    EXPECT_NE(calls.is_supported, nullptr);
    EXPECT_NE(calls.create_qp, nullptr);
    EXPECT_NE(calls.mlx5_qp_of, nullptr);
    EXPECT_NE(calls.qp_ex_of, nullptr);
}

} // namespace
} // namespace adaptib::test
