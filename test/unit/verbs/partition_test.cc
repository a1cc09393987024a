// SPDX-License-Identifier: BSD-3-Clause
// Choice of the P_Key: full memberships first, one that both ends have, the same at both ends.
#include <array>

#include "unit/verbs/verbs_fixture.h"

namespace adaptib::test {
namespace {

using Keys = std::vector<std::uint16_t>;

class Partition : public VerbsTest {
protected:
    // Two ports of one device, each with P_Keys of its own; their rails are 0 and 1.
    void open_with(const Keys& here, const Keys& there) {
        lib_.devices = {ib_device("mlx5_0", 2, 0)};
        lib_.devices[0].ports[0].pkeys = here;
        lib_.devices[0].ports[1].pkeys = there;
        ASSERT_EQ(open(), kOk) << error_;
        ASSERT_EQ(fabric_->rails().size(), 2u);
    }
    // Connects a queue pair of each rail with the other rail; returns the P_Keys that they use.
    std::array<std::uint16_t, 2> connected() {
        std::array<std::uint16_t, 2> keys{};
        for (std::size_t i = 0; i < 2; ++i) {
            QueuePair& pair = qp(init(QpType::rc, cq(i)), i);
            EXPECT_EQ(pair.modify(attributes(QpState::init, rail(i)), kRcInit), kOk);
            EXPECT_EQ(pair.modify(attributes(QpState::ready_to_receive, rail(1 - i)), kRcReceive),
                      kOk)
                << rail(i).last_error_text();
            keys[i] = lib_.devices[0].ports[i].pkeys.at(index_of(pair.number()));
        }
        return keys;
    }
    // The table index that the queue pair got last.
    std::uint16_t index_of(std::uint32_t number) const {
        std::uint16_t index = 0xffff;
        for (const ModifyCall& call : lib_.modified) {
            index = call.qp_number == number && (call.mask & IBV_QP_PKEY_INDEX) != 0
                        ? call.attributes.pkey_index
                        : index;
        }
        return index;
    }
    Status datagrams(std::size_t from) {
        std::unique_ptr<AddressHandle> handle;
        return await_ah(rail(from), path_to(rail(1 - from)), handle);
    }
    std::string refusal_text() {
        QueuePair& pair = qp(init(QpType::rc, cq()));
        EXPECT_EQ(pair.modify(attributes(QpState::init, rail(0)), kRcInit), kOk);
        EXPECT_EQ(pair.modify(attributes(QpState::ready_to_receive, rail(1)), kRcReceive),
                  refusal(Reason::unreachable));
        return rail().last_error_text();
    }
};

// The usual table of a site with partitions: everybody is a limited member of the default one.
TEST_F(Partition, AFullMembershipGoesBeforeALimitedOne) {
    open_with({0x7fff, 0x8001}, {0x7fff, 0x8001});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8001, 0x8001}));
    EXPECT_EQ(datagrams(0), kOk) << rail(0).last_error_text();
    QueuePair& pair = qp(init(QpType::ud, cq()));
    ASSERT_EQ(pair.modify(attributes(QpState::init, rail()), kQpState | kQpKey), kOk);
    EXPECT_EQ(index_of(pair.number()), 1);
}

TEST_F(Partition, EachPairTakesOneThatBothHave) {
    open_with({0x8001, 0x8002, 0x8003}, {0x8004, 0x8003});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8003, 0x8003}));
}

TEST_F(Partition, TwoFullMembersGoBeforeAFullAndALimitedOne) {
    open_with({0xffff, 0x8005}, {0x7fff, 0x8005});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8005, 0x8005}));
}

// Both ends see the same choice, whatever the order of their tables.
TEST_F(Partition, TablesInOppositeOrder) {
    open_with({0x8001, 0x8002, 0x8003}, {0x8003, 0x8002, 0x8001});
    const std::array<std::uint16_t, 2> keys = connected();
    EXPECT_EQ(keys[0], keys[1]);
}

TEST_F(Partition, TheFirstOfEqualOnes) {
    open_with({0xffff, 0x8001}, {0xffff, 0x8001});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0xffff, 0xffff}));
}

TEST_F(Partition, ALimitedAndAFullMember) {
    open_with({0x0007}, {0x8009, 0x8007});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x0007, 0x8007}));
}

TEST_F(Partition, LimitedMembersAloneAreNamed) {
    open_with({0x0007, 0x8001}, {0x0007, 0x8002});
    const std::string text = refusal_text();
    EXPECT_NE(text.find("limited"), std::string::npos) << text;
    EXPECT_NE(text.find("0x0007, "), std::string::npos) << text;
    EXPECT_NE(text.find("0x8001"), std::string::npos) << text;
    EXPECT_NE(text.find("0x8002"), std::string::npos) << text;
}

// A datagram queue has one P_Key. The text says which value of the parameter helps.
TEST_F(Partition, DatagramsInDifferentPartitions) {
    open_with({0x8001, 0x8003}, {0x8002, 0x8003});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8003, 0x8003}));
    for (std::size_t from : {0u, 1u}) {
        EXPECT_EQ(datagrams(from), refusal(Reason::unreachable));
        const std::string text = rail(from).last_error_text();
        EXPECT_NE(text.find("0x8001"), std::string::npos) << text;
        EXPECT_NE(text.find("0x8002"), std::string::npos) << text;
        EXPECT_NE(text.find("opal_common_adaptib_partition to 0x8003"), std::string::npos) << text;
    }
}

TEST_F(Partition, TheParameterDecides) {
    options_.partition = 0x8002;
    open_with({0x8001, 0x8002, 0x8003}, {0x8003, 0x8002});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8002, 0x8002}));
    EXPECT_EQ(datagrams(0), kOk);
}

// An address has room for 13; full memberships are kept.
TEST_F(Partition, MoreThanAnAddressCanName) {
    Keys many;
    for (std::uint16_t key = 1; key <= 40; ++key) {
        many.push_back(key);
    }
    many.push_back(0x8123);
    open_with(many, {0x0001, 0x8123});
    EXPECT_EQ(connected(), (std::array<std::uint16_t, 2>{0x8123, 0x8123}));
}

} // namespace
} // namespace adaptib::test
