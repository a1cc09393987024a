// SPDX-License-Identifier: BSD-3-Clause
// The record that a process publishes: the addresses of its endpoints.
//
// Purpose: a process with one endpoint publishes its address (base/address.h) as it is, one with
// several a record of them.
// Errors: bad_wire for a malformed record.
// May touch: base/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace adaptib {

using AddressBlob = std::vector<std::byte>;

// `addresses`: a power of two, at most kMaxEndpoints.
AddressBlob encode_record(std::span<const AddressBlob> addresses);

// Counts the addresses of a record: a power of two.
Status addresses_in(std::span<const std::byte> record, std::uint32_t& count);

// Copies the address of that endpoint. Errors: also unreachable if the record has no such endpoint.
Status address_in(std::span<const std::byte> record, std::uint32_t endpoint, AddressBlob& out);

} // namespace adaptib
