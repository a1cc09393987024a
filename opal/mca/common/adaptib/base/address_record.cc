// SPDX-License-Identifier: BSD-3-Clause
// The record of several addresses as bytes (base/address_record.h).
//
//     u32 magic | u32 number of addresses | per address: u32 size | the addresses
#include "base/address_record.h"

#include <bit>
#include <cstring>

#include "base/process_name.h"

namespace adaptib {

namespace {

constexpr std::uint32_t kRecordMagic = 0x72616461; // "adar" read as little endian; not an address's

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t index) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
}

void append(AddressBlob& out, std::uint32_t word) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&word);
    out.insert(out.end(), bytes, bytes + sizeof word);
}

bool is_record(std::span<const std::byte> bytes) {
    return bytes.size() >= 2 * sizeof(std::uint32_t) && word_at(bytes, 0) == kRecordMagic;
}

// Finds the part of a record that is the address of `endpoint`; checks the whole record.
Status find(std::span<const std::byte> record, std::uint32_t endpoint,
            std::span<const std::byte>& found, std::uint32_t& count) {
    constexpr std::size_t kWord = sizeof(std::uint32_t);
    count = word_at(record, 1);
    if (!std::has_single_bit(count) || count > kMaxEndpoints ||
        record.size() < (2 + count) * kWord) {
        return Status::error(Reason::bad_wire);
    }
    std::size_t at = (2 + count) * kWord;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::size_t size = word_at(record, 2 + i);
        if (size > record.size() - at) {
            return Status::error(Reason::bad_wire);
        }
        if (i == endpoint) {
            found = record.subspan(at, size);
        }
        at += size;
    }
    return at == record.size() ? kOk : Status::error(Reason::bad_wire);
}

} // namespace

AddressBlob encode_record(std::span<const AddressBlob> addresses) {
    if (addresses.size() == 1) {
        return addresses.front();
    }
    AddressBlob record;
    append(record, kRecordMagic);
    append(record, static_cast<std::uint32_t>(addresses.size()));
    for (const AddressBlob& address : addresses) {
        append(record, static_cast<std::uint32_t>(address.size()));
    }
    for (const AddressBlob& address : addresses) {
        record.insert(record.end(), address.begin(), address.end());
    }
    return record;
}

Status addresses_in(std::span<const std::byte> record, std::uint32_t& count) {
    std::span<const std::byte> found;
    count = 1;
    return is_record(record) ? find(record, 0, found, count) : kOk;
}

Status address_in(std::span<const std::byte> record, std::uint32_t endpoint, AddressBlob& out) {
    std::span<const std::byte> found = record;
    std::uint32_t count = 1;
    if (is_record(record)) {
        if (const Status status = find(record, endpoint, found, count); !status.ok()) {
            return status;
        }
    }
    if (endpoint >= count) {
        return Status::error(Reason::unreachable);
    }
    out.assign(found.begin(), found.end());
    return kOk;
}

} // namespace adaptib
