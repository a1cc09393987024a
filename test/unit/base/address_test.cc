// SPDX-License-Identifier: BSD-3-Clause
// The published address: encoding round-trips, and malformed input is refused.
#include "base/address.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/random.h"

namespace adaptib {
namespace {

ProcessAddress sample(std::size_t rails) {
    ProcessAddress address;
    address.name = 0x0123456789abcdefu;
    address.key = 0xfedcba9876543210u;
    address.host = "node-17";
    for (std::size_t i = 0; i < rails; ++i) {
        AddressRail rail;
        rail.size = static_cast<std::uint16_t>(i == 0 ? 64 : i * 5);
        for (std::size_t k = 0; k < rail.size; ++k) {
            rail.bytes[k] = static_cast<std::byte>(i * 31 + k);
        }
        rail.datagram_qp = static_cast<std::uint32_t>(0x10000 + i);
        rail.responder_qp = static_cast<std::uint32_t>(0x20000 + i);
        rail.paths = static_cast<std::uint8_t>(1 + i);
        rail.adapter = static_cast<std::uint8_t>(i / 2);
        rail.flags = i % 2 == 0 ? kRailMigrates | kRailShares : 0;
        rail.max_reads = static_cast<std::uint8_t>(16 * i);
        rail.rate = static_cast<std::uint32_t>(i * 12'500);
        rail.name = "mlx" + std::string(i, '5') + ":1";
        address.rails.push_back(rail);
    }
    return address;
}

void expect_equal(const ProcessAddress& a, const ProcessAddress& b) {
    EXPECT_EQ(a.version, b.version);
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.key, b.key);
    EXPECT_EQ(a.host, b.host);
    ASSERT_EQ(a.rails.size(), b.rails.size());
    for (std::size_t i = 0; i < a.rails.size(); ++i) {
        EXPECT_EQ(a.rails[i].size, b.rails[i].size);
        EXPECT_EQ(a.rails[i].bytes, b.rails[i].bytes);
        EXPECT_EQ(a.rails[i].datagram_qp, b.rails[i].datagram_qp);
        EXPECT_EQ(a.rails[i].responder_qp, b.rails[i].responder_qp);
        EXPECT_EQ(a.rails[i].paths, b.rails[i].paths);
        EXPECT_EQ(a.rails[i].adapter, b.rails[i].adapter);
        EXPECT_EQ(a.rails[i].flags, b.rails[i].flags);
        EXPECT_EQ(a.rails[i].max_reads, b.rails[i].max_reads);
        EXPECT_EQ(a.rails[i].rate, b.rails[i].rate);
        EXPECT_EQ(a.rails[i].name, b.rails[i].name);
    }
}

// Decodes a copy of exactly `size` bytes, so that a sanitizer catches every read past its end.
Status decode_exact(const std::vector<std::byte>& blob, std::size_t size, ProcessAddress& out) {
    const auto copy = std::make_unique<std::byte[]>(size);
    std::memcpy(copy.get(), blob.data(), size);
    return decode(copy.get(), size, out);
}

TEST(Address, ComesBackAsItWas) {
    for (std::size_t rails = 1; rails <= kMaxRails; ++rails) {
        const ProcessAddress address = sample(rails);
        ProcessAddress back;
        const std::vector<std::byte> blob = encode(address);
        ASSERT_TRUE(decode_exact(blob, blob.size(), back).ok()) << rails;
        expect_equal(back, address);
    }
}

TEST(Address, HasTheDocumentedLayout) {
    const std::vector<std::byte> blob = encode(sample(1));
    ASSERT_EQ(blob.size(), 4u + 2 + 2 + 8 + 8 + 2 + 7 + 4 + 4 + 4 + 4 + 2 + 64 + 1 + 5);
    std::uint16_t version = 0;
    std::memcpy(&version, blob.data() + 4, sizeof version);
    EXPECT_EQ(std::memcmp(blob.data(), "adab", 4), 0);
    EXPECT_EQ(version, kWireVersion);
    EXPECT_EQ(std::memcmp(blob.data() + 26, "node-17", 7), 0);
}

TEST(Address, NeedsAtLeastOneRailAndAtMostEight) {
    for (const std::size_t rails : {std::size_t{0}, std::size_t{kMaxRails} + 1}) {
        ProcessAddress back;
        const std::vector<std::byte> blob = encode(sample(rails));
        EXPECT_EQ(decode_exact(blob, blob.size(), back), Status::error(Reason::bad_wire)) << rails;
    }
}

TEST(Address, RailsThatCannotBeAreRefused) {
    const auto comes_back = [](auto change) {
        ProcessAddress address = sample(2);
        change(address.rails[1]);
        ProcessAddress back;
        const std::vector<std::byte> blob = encode(address);
        return decode_exact(blob, blob.size(), back).ok();
    };
    EXPECT_TRUE(comes_back([](AddressRail& rail) { rail.paths = kMaxSubchannels; }));
    EXPECT_FALSE(comes_back([](AddressRail& rail) { rail.paths = kMaxSubchannels + 1; }));
    EXPECT_FALSE(comes_back([](AddressRail& rail) { rail.paths = 0; }));
    EXPECT_TRUE(comes_back([](AddressRail& rail) { rail.adapter = 1; }));
    EXPECT_FALSE(comes_back([](AddressRail& rail) { rail.adapter = 2; })) << "there are two";
    EXPECT_FALSE(comes_back([](AddressRail& rail) { rail.flags = 4; }));
}

TEST(Address, LongNamesAreCutAndEmptyOnesKept) {
    ProcessAddress address = sample(1);
    ProcessAddress back;
    address.host = std::string(300, 'h');
    std::vector<std::byte> blob = encode(address);
    ASSERT_TRUE(decode_exact(blob, blob.size(), back).ok());
    EXPECT_EQ(back.host, std::string(255, 'h'));
    address.host.clear();
    address.rails[0].name = std::string(100, 'r');
    blob = encode(address);
    ASSERT_TRUE(decode_exact(blob, blob.size(), back).ok());
    EXPECT_EQ(back.rails[0].name, std::string(kMaxRailName, 'r'));
    address.rails[0].name.clear();
    blob = encode(address);
    ASSERT_TRUE(decode_exact(blob, blob.size(), back).ok());
    EXPECT_EQ(back.host, "");
    EXPECT_EQ(back.rails[0].name, "");
}

TEST(Address, EveryTruncationAndEveryExtensionIsRefused) {
    std::vector<std::byte> blob = encode(sample(3));
    for (std::size_t size = 0; size < blob.size(); ++size) {
        ProcessAddress back;
        back.name = 42;
        EXPECT_EQ(decode_exact(blob, size, back), Status::error(Reason::bad_wire)) << size;
        EXPECT_EQ(back.name, 42u) << "set though refused, size " << size;
    }
    blob.push_back(std::byte{0});
    ProcessAddress back;
    EXPECT_EQ(decode_exact(blob, blob.size(), back), Status::error(Reason::bad_wire));
}

TEST(Address, AnotherVersionIsReportedWithItsNumber) {
    for (const int version : {0, kWireVersion - 1, kWireVersion + 1, 0xffff}) {
        ProcessAddress address = sample(1);
        address.version = static_cast<std::uint16_t>(version);
        std::vector<std::byte> blob = encode(address);
        ProcessAddress back;
        EXPECT_EQ(decode_exact(blob, blob.size(), back), Status::error(Reason::version));
        EXPECT_EQ(back.version, version);
        // In another version the bytes behind the version may have any layout.
        EXPECT_EQ(decode_exact(blob, 6, back), Status::error(Reason::version));
        EXPECT_EQ(back.version, version);
    }
}

TEST(Address, EveryCorruptByteIsRefusedOrHarmless) {
    const std::vector<std::byte> blob = encode(sample(2));
    std::size_t refused = 0;
    for (std::size_t at = 0; at < blob.size(); ++at) {
        for (int value = 0; value < 256; ++value) {
            std::vector<std::byte> bad = blob;
            bad[at] = static_cast<std::byte>(value);
            ProcessAddress back;
            if (decode_exact(bad, bad.size(), back).ok()) {
                EXPECT_EQ(encode(back), bad); // decodes to what the bytes say
            } else {
                ++refused;
            }
        }
    }
    // Refused: all other values of magic, version, rail count and host length; for each rail, all
    // other values of the sizes of its address and name, and impossible values of paths, adapter
    // and flags.
    const std::size_t of_rail = 3 * 255 + (256 - kMaxSubchannels) + 254 + 252;
    EXPECT_EQ(refused, (4u + 2 + 2 + 2) * 255 + 2 * of_rail);
}

TEST(Address, RandomBytesBehindTheMagicStayWithinBounds) {
    Random random(11);
    const std::vector<std::byte> good = encode(sample(1));
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::byte> blob(6 + random.below(200));
        for (std::byte& byte : blob) {
            byte =
                static_cast<std::byte>(random.below(4) == 0 ? random.below(256) : random.below(9));
        }
        std::memcpy(blob.data(), good.data(), 6);
        ProcessAddress back;
        if (decode_exact(blob, blob.size(), back).ok()) {
            EXPECT_EQ(encode(back), blob);
        }
    }
}

} // namespace
} // namespace adaptib
