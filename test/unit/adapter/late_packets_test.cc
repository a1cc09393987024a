// SPDX-License-Identifier: BSD-3-Clause
// LatePackets: order within a path, overtaking between paths, and a bound.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "simulator/adapter/late_packets.h"

namespace adaptib::hca {
namespace {

PacketHeader packet(std::uint16_t lid, std::uint32_t psn, std::uint32_t payload = 0) {
    PacketHeader out;
    out.target_lid = lid;
    out.psn = psn;
    out.payload = payload;
    return out;
}

std::vector<std::uint32_t> released(LatePackets& late, std::int64_t now) {
    std::vector<std::uint32_t> out;
    late.release(
        now, [&](const PacketHeader& header, const std::uint8_t*) { out.push_back(header.psn); });
    return out;
}

TEST(LatePackets, ThoseOfAPathStayInOrder) {
    LatePackets late;
    late.hold(packet(4, 1), nullptr, 100);
    late.hold(packet(4, 2), nullptr, 50);
    late.hold(packet(4, 3), nullptr, 120);
    EXPECT_EQ(late.next_due(), 100);
    EXPECT_TRUE(released(late, 99).empty()) << "the second one waits for the first";
    EXPECT_EQ(released(late, 100), (std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(late.next_due(), 120);
    EXPECT_EQ(released(late, 1000), (std::vector<std::uint32_t>{3}));
    EXPECT_TRUE(late.empty());
}

TEST(LatePackets, ThoseOfAnotherPathOvertake) {
    LatePackets late;
    late.hold(packet(4, 1), nullptr, 100);
    EXPECT_TRUE(late.holds_before(packet(4, 2)));
    EXPECT_FALSE(late.holds_before(packet(5, 2)));
    late.hold(packet(5, 2), nullptr, 10);
    EXPECT_EQ(released(late, 10), (std::vector<std::uint32_t>{2}));
    EXPECT_FALSE(late.holds_before(packet(5, 3)));
    EXPECT_TRUE(late.holds_before(packet(4, 3)));
}

TEST(LatePackets, PayloadsAreCopies) {
    LatePackets late;
    std::vector<std::uint8_t> data{1, 2, 3};
    late.hold(packet(4, 1, 3), data.data(), 0);
    data.assign(3, 9);
    std::vector<std::uint8_t> got;
    late.release(0, [&](const PacketHeader& header, const std::uint8_t* payload) {
        got.assign(payload, payload + header.payload);
    });
    EXPECT_EQ(got, (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST(LatePackets, BeyondTheBoundTheyVanish) {
    LatePackets late;
    for (std::uint32_t psn = 0; psn < LatePackets::kMost + 10; ++psn) {
        late.hold(packet(static_cast<std::uint16_t>(psn % 8), psn), nullptr, 5);
    }
    EXPECT_EQ(released(late, 5).size(), LatePackets::kMost);
    late.hold(packet(4, 1), nullptr, 6);
    EXPECT_EQ(released(late, 6).size(), 1u) << "there is room again";
}

} // namespace
} // namespace adaptib::hca
