// SPDX-License-Identifier: BSD-3-Clause
// Links of the virtual adapter: counts, faults, rates that paths share.
#include "simulator/adapter/links.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "unit/adapter/text_topology.h"

namespace adaptib::hca {
namespace {

class LinksTest : public testing::Test {
protected:
    ~LinksTest() override { unlink(path_.c_str()); }

    // A packet from port 0 to a LID of port 1.
    PacketHeader packet(std::uint16_t lid, std::uint32_t payload) {
        PacketHeader header;
        header.source_port = 0;
        header.target_port = 1;
        header.target_lid = lid;
        header.payload = payload;
        return header;
    }
    LinkState& state(const char* name) {
        return shared_.state().links[static_cast<std::size_t>(topology_.link(name))];
    }

    // Both LIDs of port 1 pass the link "both", which carries 100 bytes in a microsecond.
    const Topology topology_ = parse_topology(TextTopology(R"(host a
    device v0
        port lid=4
host b
    device v0
        port lid=12 lmc=1
    device v1
        port lid=16
link first
link second
link both rate=100
route a/v0:1 12 over=first,both
route a/v0:1 13 over=second,both
link none cut=1
route a/v0:1 16 over=none
)")
                                                  .path());
    const std::string path_ = testing::TempDir() + "adaptib-links-" + std::to_string(getpid());
    Shared shared_{path_};
    Links links_{topology_, shared_};
    std::int64_t due_ = -1;
};

TEST_F(LinksTest, ALinkThatIsCutCarriesNothing) {
    PacketHeader lost = packet(16, 100);
    lost.target_port = 2;
    EXPECT_EQ(links_.send(lost, 1000, due_), Links::Fate::lost);
}

TEST_F(LinksTest, WithoutARouteAPacketPassesNoLink) {
    PacketHeader aside = packet(4, 100);
    aside.source_port = 2;
    aside.target_port = 0;
    EXPECT_EQ(links_.send(aside, 1000, due_), Links::Fate::goes);
    EXPECT_EQ(due_, 0);
}

TEST_F(LinksTest, PathsShareTheRateOfALink) {
    ASSERT_EQ(links_.send(packet(12, 970), 1000, due_), Links::Fate::goes);
    EXPECT_EQ(due_, 1000 + 10'000) << "a thousand bytes with the headers";
    ASSERT_EQ(links_.send(packet(13, 970), 1000, due_), Links::Fate::goes);
    EXPECT_EQ(due_, 1000 + 20'000) << "behind the first";
    ASSERT_EQ(links_.send(packet(13, 970), 500'000, due_), Links::Fate::goes);
    EXPECT_EQ(due_, 500'000 + 10'000) << "the link was idle";
    EXPECT_EQ(state("first").packets, 1u);
    EXPECT_EQ(state("second").packets, 2u);
    EXPECT_EQ(state("both").bytes, 3000u);
}

TEST_F(LinksTest, BeforeAFullLinkPacketsWait) {
    std::uint64_t sent = 0;
    while (links_.send(packet(12, 970), 1000, due_) == Links::Fate::goes) {
        ASSERT_LT(++sent, 1000u);
    }
    EXPECT_EQ(links_.send(packet(12, 970), 1000, due_), Links::Fate::waits);
    EXPECT_EQ(state("both").packets, sent);
    EXPECT_EQ(state("first").packets, sent) << "a packet that waits is on no link";
    EXPECT_EQ(links_.send(packet(12, 970), 1000 + Links::kMostQueued, due_), Links::Fate::goes);
}

TEST_F(LinksTest, OntoALinkThatIsDownPacketsVanish) {
    state("second").down = 1;
    EXPECT_EQ(links_.send(packet(13, 970), 1000, due_), Links::Fate::lost);
    EXPECT_EQ(links_.send(packet(12, 970), 1000, due_), Links::Fate::goes);
    EXPECT_EQ(state("both").packets, 1u);
}

TEST_F(LinksTest, ARouteStaysWhereThePortGetsAnotherLid) {
    shared_.state().ports[1].lid = 40;
    EXPECT_EQ(links_.send(packet(41, 970), 1000, due_), Links::Fate::goes);
    EXPECT_EQ(state("second").packets, 1u);
}

} // namespace
} // namespace adaptib::hca
