// SPDX-License-Identifier: BSD-3-Clause
// Conformance: a rail's description of itself, and the checks of arguments that create objects.
#include <set>
#include <string>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class RailsInfo : public Fixture {};
ADAPTIB_CONFORMANCE(RailsInfo);

TEST_P(RailsInfo, EveryRailDescribesItself) {
    for (std::size_t node = 0; node < nodes(); ++node) {
        std::set<std::string> names;
        for (const auto& r : fabric(node).rails()) {
            const RailInfo& i = r->info();
            EXPECT_FALSE(i.name.empty());
            EXPECT_TRUE(names.insert(i.name).second) << i.name << " is there twice";
            EXPECT_EQ(r->state(), PortState::active);
            EXPECT_GE(i.paths, 1u);
            EXPECT_GE(i.max_gather, 1u);
            EXPECT_GE(i.max_send_depth, 1u);
            EXPECT_GE(i.max_cq_depth, 1u);
            EXPECT_TRUE(i.has(Capability::rc) || i.has(Capability::ud));
            EXPECT_EQ(i.has(Capability::ud), i.datagram_bytes > 0);
            EXPECT_EQ(i.has(Capability::rc), i.max_message_bytes > 0);
            if (i.has(Capability::rdma_read) || i.has(Capability::atomic64)) {
                EXPECT_GE(i.max_reads, 1u);
            }
            if (i.has(Capability::write_imm)) {
                EXPECT_TRUE(i.has(Capability::rdma_write));
            }
            if (i.has(Capability::reliable_ud)) {
                EXPECT_TRUE(i.has(Capability::ud));
            }
        }
    }
}

TEST_P(RailsInfo, AddressesAreStableAndTellRailsApart) {
    std::set<std::string> seen;
    for (std::size_t node = 0; node < nodes(); ++node) {
        for (const auto& r : fabric(node).rails()) {
            const RailAddress address = r->address();
            ASSERT_GT(address.size, 0);
            ASSERT_LE(address.size, RailAddress::kMaxBytes);
            const std::string text(reinterpret_cast<const char*>(address.bytes.data()),
                                   address.size);
            EXPECT_TRUE(seen.insert(text).second) << "two rails have the same address";
            const RailAddress again = r->address();
            EXPECT_EQ(again.size, address.size);
            EXPECT_EQ(again.bytes, address.bytes);
        }
    }
}

TEST_P(RailsInfo, CompletionQueueDepthIsChecked) {
    std::unique_ptr<CompletionQueue> cq;
    EXPECT_EQ(rail(0).create_cq(0, cq), Status::error(Reason::bad_argument));
    EXPECT_EQ(cq, nullptr);
    if (info().max_cq_depth < ~0u) {
        EXPECT_EQ(rail(0).create_cq(info().max_cq_depth + 1, cq),
                  Status::error(Reason::bad_argument));
        EXPECT_EQ(cq, nullptr);
    }
    EXPECT_EQ(rail(0).create_cq(1, cq), kOk);
    EXPECT_NE(cq, nullptr);
}

TEST_P(RailsInfo, QueuePairLimitsAreChecked) {
    ADAPTIB_NEEDS(rc);
    Queue& q = queue(0);
    QpInit good;
    good.send_cq = q.cq.get();
    good.receive_cq = q.cq.get();
    good.send_depth = 16;
    good.receive_depth = 16;
    std::unique_ptr<QueuePair> qp;
    const auto refused = [&](const char* what, auto change) {
        QpInit bad = good;
        change(bad);
        EXPECT_EQ(rail(0).create_qp(bad, qp), Status::error(Reason::bad_argument)) << what;
        EXPECT_EQ(qp, nullptr) << what;
    };
    refused("no send queue", [](QpInit& i) { i.send_cq = nullptr; });
    refused("no receive queue", [](QpInit& i) { i.receive_cq = nullptr; });
    refused("gather", [&](QpInit& i) { i.max_gather = info().max_gather + 1; });
    refused("depth", [&](QpInit& i) { i.send_depth = info().max_send_depth + 1; });
    refused("inline", [&](QpInit& i) { i.inline_bytes = info().inline_bytes + 1; });
    refused("type", [](QpInit& i) { i.type = static_cast<QpType>(77); });

    good.max_gather = info().max_gather;
    good.inline_bytes = info().inline_bytes;
    ASSERT_EQ(rail(0).create_qp(good, qp), kOk);
    EXPECT_EQ(qp->type(), QpType::rc);
    EXPECT_EQ(qp->query().state, QpState::reset);
    EXPECT_FALSE(qp->usable());
    qp.reset();
}

TEST_P(RailsInfo, MissingCapabilitiesAreRefused) {
    Queue& q = queue(0);
    QpInit init;
    init.send_cq = q.cq.get();
    init.receive_cq = q.cq.get();
    init.send_depth = 4;
    init.receive_depth = 4;
    std::unique_ptr<QueuePair> qp;
    const auto check = [&](QpType type, bool present) {
        init.type = type;
        const Status status = rail(0).create_qp(init, qp);
        if (present) {
            EXPECT_EQ(status, kOk);
        } else {
            EXPECT_EQ(status, Status::error(Reason::not_supported));
            EXPECT_EQ(qp, nullptr);
        }
        qp.reset();
    };
    check(QpType::rc, has(Capability::rc));
    check(QpType::ud, has(Capability::ud));
    check(QpType::dc_initiator, has(Capability::dc));
    if (!has(Capability::dc)) {
        check(QpType::dc_target, false);
    }
    std::unique_ptr<SharedReceiveQueue> s;
    if (!has(Capability::srq)) {
        EXPECT_EQ(rail(0).create_srq(4, s), Status::error(Reason::not_supported));
    } else {
        EXPECT_EQ(rail(0).create_srq(0, s), Status::error(Reason::bad_argument));
        EXPECT_EQ(s, nullptr);
        EXPECT_EQ(rail(0).create_srq(4, s), kOk);
    }
}

TEST_P(RailsInfo, QueuePairNumbersAreUniqueAndFit24Bits) {
    ADAPTIB_NEEDS(rc);
    std::set<std::uint32_t> numbers;
    EndOptions options;
    options.send_depth = 4;
    options.receive_depth = 4;
    options.send_queue = &queue(0);
    options.receive_queue = options.send_queue;
    for (int i = 0; i < 100; ++i) {
        const End& e = end(0, options);
        EXPECT_GT(e.qp->number(), 0u);
        EXPECT_LT(e.qp->number(), 1u << 24);
        EXPECT_TRUE(numbers.insert(e.qp->number()).second);
    }
}

TEST_P(RailsInfo, MalformedAddressesAreRefused) {
    PathSpec none;
    std::unique_ptr<AddressHandle> out;
    EXPECT_TRUE(rail(0).create_ah(none, out).is_error());
    EXPECT_EQ(out, nullptr);

    PathSpec garbage = path(1);
    garbage.remote.size = static_cast<std::uint16_t>(RailAddress::kMaxBytes + 1);
    EXPECT_TRUE(rail(0).create_ah(garbage, out).is_error());
    EXPECT_EQ(out, nullptr);

    garbage = path(1);
    garbage.remote.size = 1;
    EXPECT_TRUE(rail(0).create_ah(garbage, out).is_error());
    EXPECT_EQ(out, nullptr);
}

TEST_P(RailsInfo, EveryNodeReachesEveryOther) {
    ADAPTIB_NEEDS(rc);
    for (std::size_t r = 0; r < rail_count(); ++r) {
        for (std::size_t from = 0; from < nodes(); ++from) {
            for (std::size_t to = 0; to < nodes(); ++to) {
                EndOptions options;
                options.rail = r;
                Pair p = rc_pair(from, to, options);
                EXPECT_TRUE(p.a.qp->usable());
                Buffer& source = memory(from, 100, kAllAccess, r);
                Buffer& target = memory(to, 100, kAllAccess, r);
                fill(source.data(), 100, from * 10 + to);
                ASSERT_EQ(post_receive(p.b, 1, {target.gather(0, 100)}), kOk);
                EXPECT_EQ(run(p.a, send_work(2, {source.gather(0, 100)})), WorkStatus::success);
                ASSERT_TRUE(wait_for(*p.b.receive, 1)) << from << " -> " << to << " rail " << r;
                EXPECT_TRUE(holds(target.data(), 100, from * 10 + to));
            }
        }
    }
}

} // namespace
} // namespace adaptib::conformance
