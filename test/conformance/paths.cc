// SPDX-License-Identifier: BSD-3-Clause
// Conformance: the paths between two rails.
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "conformance/harness.h"

namespace adaptib::conformance {
namespace {

class Paths : public Fixture {
protected:
    RailAddress address(std::size_t node, std::size_t index = 0) {
        return rail(node, index).address();
    }
    // Makes a pair and connects its ends over the path of that index.
    Pair pair_over(std::uint32_t index) {
        Pair p{end(0), end(1)};
        for (const auto& [self, peer] : {std::pair<End&, End&>{p.a, p.b}, {p.b, p.a}}) {
            for (const auto& [state, mask] : {std::pair{QpState::init, kRcInit},
                                              {QpState::ready_to_receive, kRcReceive},
                                              {QpState::ready_to_send, kRcSend}}) {
                QpAttributes a = rc_attributes(self, peer, state);
                a.path = rail(self.node).path_to(address(peer.node), index);
                EXPECT_EQ(self.qp->modify(a, mask), kOk) << "path " << index;
            }
        }
        return p;
    }
};
ADAPTIB_CONFORMANCE(Paths);

TEST_P(Paths, BothEndsKnowAsMany) {
    for (std::size_t i = 0; i < rail_count(); ++i) {
        const std::uint32_t count = rail(0, i).paths_to(address(1, i));
        EXPECT_GE(count, 1u);
        EXPECT_EQ(count, rail(1, i).paths_to(address(0, i)));
        EXPECT_EQ(count, rail(0, i).paths_to(address(0, i))) << "to itself, like to its like";
    }
}

// Its flow label may fix the route there, which an address alone leaves to the driver.
TEST_P(Paths, TheFirstLeadsWhereAnAddressAloneLeads) {
    const PathSpec first = rail(0).path_to(address(1), 0);
    EXPECT_EQ(first.remote.size, address(1).size);
    EXPECT_EQ(first.remote.bytes, address(1).bytes);
    EXPECT_EQ(first.lid_offset, 0);
    EXPECT_EQ(first.source_path_bits, 0);
    EXPECT_EQ(first.gid_index, 0);
}

TEST_P(Paths, EachIsAnotherOneAndCarriesWrites) {
    ADAPTIB_NEEDS(rc);
    constexpr Bytes kLength = 5000;
    Buffer& source = memory(0, kLength);
    Buffer& target = memory(1, kLength);
    const std::uint32_t count = rail(0).paths_to(address(1));
    std::set<std::pair<std::uint32_t, std::uint32_t>> ways;
    for (std::uint32_t index = 0; index < count; ++index) {
        const PathSpec path = rail(0).path_to(address(1), index);
        EXPECT_TRUE(ways.insert({path.lid_offset, path.flow_label}).second) << index;
        Pair p = pair_over(index);
        EXPECT_EQ(p.a.qp->query().path.lid_offset, path.lid_offset);
        EXPECT_EQ(p.a.qp->query().path.flow_label, path.flow_label);
        fill(source.data(), kLength, index);
        const std::vector<Gather> gather{source.gather(0, kLength)};
        ASSERT_EQ(run(p.a, rdma_work(index, Opcode::write, gather, target.remote(), target.key())),
                  WorkStatus::success)
            << index;
        EXPECT_TRUE(holds(target.data(), kLength, index)) << index;
        destroy(p.a);
        destroy(p.b);
    }
}

} // namespace
} // namespace adaptib::conformance
