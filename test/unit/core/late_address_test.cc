// SPDX-License-Identifier: BSD-3-Clause
// Addresses of endpoints that are opened when they are used.
#include "core/late_address.h"

#include <gtest/gtest.h>

#include "base/process_name.h"

namespace adaptib {
namespace {

constexpr std::uint64_t kProcess = std::uint64_t{7} << 32 | 3;

// Gives addresses of two bytes: rail and number.
class Numbers final : public LateEndpoints {
    RailAddress address_impl(std::uint32_t rail, std::uint32_t index) const override {
        return {2,
                {std::byte{static_cast<unsigned char>(rail)},
                 std::byte{static_cast<unsigned char>(index)}}};
    }
    std::uint32_t asked_for_impl() override { return 0; }
    void announce_impl(std::uint32_t, const RailAddress&) override {}
    void listen_impl(Asked) override {}
};

ProcessAddress first_address() {
    ProcessAddress address;
    address.name = kProcess;
    address.key = 99;
    address.host = "host";
    address.rails.resize(2);
    address.rails[1].datagram_qp = 8192;
    address.rails[1].rate = 5;
    return address;
}

TEST(LateAddress, FollowsFromTheFirst) {
    const ProcessAddress first = first_address();
    std::vector<std::byte> blob;
    ASSERT_TRUE(late_address(encode(first), kWireVersion, Numbers(), 6, 1234, blob).ok());
    ProcessAddress late;
    ASSERT_TRUE(decode(blob.data(), blob.size(), late).ok());
    EXPECT_EQ(late.name, endpoint_name(kProcess, 6));
    EXPECT_EQ(late.key, 1234u);
    EXPECT_EQ(late.host, first.host);
    ASSERT_EQ(late.rails.size(), 2u);
    EXPECT_EQ(late.rails[1].datagram_qp, 8192u);
    EXPECT_EQ(late.rails[1].rate, 5u);
    ASSERT_EQ(late.rails[1].size, 2u);
    EXPECT_EQ(late.rails[1].bytes[0], std::byte{1});
    EXPECT_EQ(late.rails[1].bytes[1], std::byte{6});
}

TEST(LateAddress, NeedsOneThatIsWellFormed) {
    std::vector<std::byte> first = encode(first_address());
    std::vector<std::byte> blob{std::byte{5}};
    EXPECT_EQ(late_address(first, kWireVersion + 1, Numbers(), 1, 1, blob).reason(),
              Reason::version);
    first.pop_back();
    EXPECT_EQ(late_address(first, kWireVersion, Numbers(), 1, 1, blob).reason(), Reason::bad_wire);
    EXPECT_EQ(blob.size(), 1u);
}

TEST(LateAddress, IsKeptByAnEndpointWithTheSameQueues) {
    const ProcessAddress published = first_address();
    EXPECT_TRUE(keeps_promise(published, encode(published)));
    ProcessAddress other = published;
    other.rails[0].bytes[0] = std::byte{9}; // where the rail is; peers learn that later
    EXPECT_TRUE(keeps_promise(published, encode(other)));
    other.rails[1].datagram_qp = 8193;
    EXPECT_FALSE(keeps_promise(published, encode(other)));
    other = published;
    other.key = 1;
    EXPECT_FALSE(keeps_promise(published, encode(other)));
    other = published;
    other.rails.pop_back();
    EXPECT_FALSE(keeps_promise(published, encode(other)));
}

} // namespace
} // namespace adaptib
