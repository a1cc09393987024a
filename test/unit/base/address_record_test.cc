// SPDX-License-Identifier: BSD-3-Clause
// The record of several endpoints' addresses, and names of endpoints: round trips, and every
// truncation of a record.
#include "base/address_record.h"

#include <gtest/gtest.h>

#include "base/process_name.h"

namespace adaptib {
namespace {

AddressBlob blob(std::size_t size, int first) {
    AddressBlob bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    }
    return bytes;
}

TEST(AddressRecord, OfOneEndpointIsItsAddress) {
    const std::vector<AddressBlob> one{blob(114, 3)};
    const AddressBlob record = encode_record(one);
    EXPECT_EQ(record, one[0]);
    std::uint32_t count = 0;
    ASSERT_TRUE(addresses_in(record, count).ok());
    EXPECT_EQ(count, 1u);
    AddressBlob out;
    ASSERT_TRUE(address_in(record, 0, out).ok());
    EXPECT_EQ(out, one[0]);
    EXPECT_EQ(address_in(record, 1, out).reason(), Reason::unreachable);
}

TEST(AddressRecord, HasTheAddressOfEachEndpoint) {
    std::vector<AddressBlob> addresses;
    for (std::uint32_t i = 0; i < kMaxEndpoints; ++i) {
        addresses.push_back(blob(100 + i, static_cast<int>(i)));
    }
    const AddressBlob record = encode_record(addresses);
    std::uint32_t count = 0;
    ASSERT_TRUE(addresses_in(record, count).ok());
    EXPECT_EQ(count, kMaxEndpoints);
    for (std::uint32_t i = 0; i < kMaxEndpoints; ++i) {
        AddressBlob out;
        ASSERT_TRUE(address_in(record, i, out).ok());
        EXPECT_EQ(out, addresses[i]);
    }
    AddressBlob out;
    EXPECT_EQ(address_in(record, kMaxEndpoints, out).reason(), Reason::unreachable);
}

TEST(AddressRecord, RefusesWhatIsCutOrTooLong) {
    AddressBlob record = encode_record(std::vector<AddressBlob>{blob(7, 1), blob(9, 2)});
    AddressBlob out;
    std::uint32_t count = 0;
    for (std::size_t size = 2 * sizeof(std::uint32_t); size < record.size(); ++size) {
        const std::span<const std::byte> cut(record.data(), size);
        EXPECT_EQ(address_in(cut, 1, out).reason(), Reason::bad_wire) << size;
        EXPECT_EQ(addresses_in(cut, count).reason(), Reason::bad_wire) << size;
    }
    record.push_back(std::byte{0});
    EXPECT_EQ(address_in(record, 1, out).reason(), Reason::bad_wire);
}

TEST(AddressRecord, RefusesSenselessNumbersOfEndpoints) {
    AddressBlob record = encode_record(std::vector<AddressBlob>{blob(7, 1), blob(9, 2)});
    AddressBlob out;
    for (const int number : {0, 3, static_cast<int>(kMaxEndpoints) + 1, 255}) {
        record[4] = static_cast<std::byte>(number);
        EXPECT_EQ(address_in(record, 0, out).reason(), Reason::bad_wire) << number;
    }
}

TEST(ProcessName, KeepsJobRankAndEndpointApart) {
    const std::uint64_t process = 0xfedc000100000000u | (kMaxRanks - 1);
    for (std::uint32_t i = 0; i < kMaxEndpoints; ++i) {
        const std::uint64_t name = endpoint_name(process, i);
        EXPECT_EQ(endpoint_of(name), i);
        EXPECT_EQ(process_of(name), process);
        EXPECT_EQ(rank_of(name), kMaxRanks - 1);
        EXPECT_EQ(job_of(name), 0xfedc0001u);
        EXPECT_EQ(endpoint_name(name, 0), process);
    }
}

} // namespace
} // namespace adaptib
