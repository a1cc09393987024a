// SPDX-License-Identifier: BSD-3-Clause
// Address of an endpoint of this process that is opened when it is used (fabric/late_endpoints.h).
//
// Purpose: it follows from the address of the process's first endpoint, since all endpoints have
// the same rails, and number their queue pairs alike.
// Errors: bad_wire if `first` is malformed.
// May touch: base/, fabric/late_endpoints.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/address.h"
#include "base/status.h"
#include "fabric/late_endpoints.h"

namespace adaptib {

// Sets `out` to the address of endpoint number `index` with that key. `first`: the address of the
// first endpoint, of that wire version.
Status late_address(const std::vector<std::byte>& first, std::uint16_t version,
                    const LateEndpoints& late, std::uint32_t index, std::uint64_t key,
                    std::vector<std::byte>& out);

// Returns true if the endpoint that is open now, with the address `own`, is the one that peers
// expect by the address `published`.
bool keeps_promise(const ProcessAddress& published, const std::vector<std::byte>& own);

} // namespace adaptib
