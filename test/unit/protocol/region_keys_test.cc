// SPDX-License-Identifier: BSD-3-Clause
// RegionKeys: a description is believed where the target's regions cannot be seen, and corrected
// where they can; an operation that no region covers is refused, which is reported once per peer.
#include "protocol/region_keys.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/messages.h"
#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kBase = 0x10000;
constexpr Bytes kBytes = 0x1000;
constexpr std::uint32_t kRead = OPAL_COMMON_ADAPTIB_REMOTE_READ;
constexpr std::uint32_t kWrite = OPAL_COMMON_ADAPTIB_REMOTE_WRITE;

struct Failures final {
    std::vector<std::string> texts;
};

struct Case {
    explicit Case(bool sees_regions) : rail(sees_regions) {
        remote.base = kBase;
        remote.bytes = kBytes;
        remote.access = kRead;
        remote.key_count = 1;
        remote.keys[0] = kRemoteKey;
        operation.operation = OPAL_COMMON_ADAPTIB_GET;
        operation.remote = &remote;
        operation.remote_address = kBase;
        operation.bytes = 8;
        ends.initiators_qp().find = [this](const RemoteRange& range, std::uint32_t& key) {
            asked = range;
            key = found;
            return found != 0 ? kOk : Status::error(Reason::bad_key);
        };
    }
    Peer& peer() { return *ends.there; }
    bool find() {
        asked = {};
        return keys.find(peer(), operation, remote).ok();
    }

    TwoEnds ends;
    HostRail rail;
    std::vector<Rail*> rails{&rail};
    Counters counters;
    Failures failures;
    RegionKeys keys{rails, counters, messages_into(failures.texts)};
    opal_common_adaptib_remote_t remote{};
    opal_common_adaptib_one_sided_t operation{};
    RemoteRange asked;
    std::uint32_t found = kRemoteKey; // by the target's table; 0: no region covers the range
};

TEST(RegionKeys, ADescriptionHasToCoverAndToAllow) {
    Case with(false);
    EXPECT_TRUE(RegionKeys::allows(with.operation, kRead));
    EXPECT_FALSE(RegionKeys::allows(with.operation, kWrite));
    with.operation.remote_address = kBase + kBytes - 8;
    EXPECT_TRUE(RegionKeys::allows(with.operation, kRead));
    with.operation.remote_address += 1;
    EXPECT_FALSE(RegionKeys::allows(with.operation, kRead));
    with.operation.remote_address = kBase;
    for (const std::uint16_t count : {std::uint16_t{0}, std::uint16_t{kMaxRails + 1}}) {
        with.remote.key_count = count;
        EXPECT_FALSE(RegionKeys::allows(with.operation, kRead));
    }
    with.remote.key_count = 1;
    with.remote.bytes = ~Bytes{0};
    EXPECT_FALSE(RegionKeys::allows(with.operation, kRead)) << "no such range";
}

TEST(RegionKeys, WithoutATableTheDescriptionCounts) {
    Case with(false);
    with.found = 0;
    EXPECT_TRUE(with.find());
    EXPECT_EQ(with.asked.length, 0u) << "not looked up";
    with.operation.remote_address = kBase + kBytes;
    EXPECT_FALSE(with.find());
}

TEST(RegionKeys, WithATableTheRegionOfTheAddressCounts) {
    Case with(true);
    with.operation.remote_address = kBase + kBytes; // not the description's
    with.found = 77;
    EXPECT_TRUE(with.find());
    EXPECT_EQ(with.asked.address, kBase + kBytes);
    EXPECT_EQ(with.asked.length, 8u);
    EXPECT_EQ(with.asked.access, kRemoteRead);
    EXPECT_EQ(with.remote.keys[0], 77u);
    EXPECT_EQ(with.counters.keys_replaced, 1u);
    EXPECT_TRUE(with.find());
    EXPECT_EQ(with.counters.keys_replaced, 1u) << "it was right";
    with.found = 0;
    EXPECT_FALSE(with.find());
    with.remote.bytes = 0;
    with.found = 77;
    EXPECT_FALSE(with.find()) << "an empty region covers nothing";
}

TEST(RegionKeys, AreFoundOnceThereIsAConnection) {
    Case with(true);
    with.peer().session.state = ConnectState::requested;
    with.operation.remote_address = kBase + kBytes;
    EXPECT_TRUE(with.find());
    EXPECT_EQ(with.asked.length, 0u);
    TransferPlan rma;
    rma.describe(with.operation, Opcode::read);
    with.peer().session.state = ConnectState::open;
    with.found = 78;
    EXPECT_TRUE(with.keys.find(with.peer(), rma));
    EXPECT_EQ(rma.remote_keys[0], 78u);
    with.found = 79;
    EXPECT_TRUE(with.keys.find(with.peer(), rma));
    EXPECT_EQ(rma.remote_keys[0], 78u) << "looked up once";
    EXPECT_EQ(rma.status(), OPAL_COMMON_ADAPTIB_SUCCESS);
}

TEST(RegionKeys, ARefusalIsReportedOncePerPeer) {
    Case with(true);
    with.found = 0;
    for (int i = 0; i < 2; ++i) {
        TransferPlan rma;
        rma.describe(with.operation, Opcode::read);
        EXPECT_FALSE(with.keys.find(with.peer(), rma));
        EXPECT_EQ(rma.status(), OPAL_COMMON_ADAPTIB_BAD_PARAM);
    }
    ASSERT_EQ(with.failures.texts.size(), 1u);
    EXPECT_EQ(with.failures.texts[0].find("A get of 8 bytes on memory of process 7 on host"), 0u);
    with.peer().ending.refusal_reported = false;
    with.keys.report_refused(with.peer(), Opcode::fetch_add, 8);
    EXPECT_EQ(with.failures.texts.back().find("An atomic of 8 bytes"), 0u);
}

} // namespace
} // namespace adaptib::test
