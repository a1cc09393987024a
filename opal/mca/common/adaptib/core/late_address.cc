// SPDX-License-Identifier: BSD-3-Clause
#include "core/late_address.h"

#include <algorithm>

#include "base/process_name.h"

namespace adaptib {

Status late_address(const std::vector<std::byte>& first, std::uint16_t version,
                    const LateEndpoints& late, std::uint32_t index, std::uint64_t key,
                    std::vector<std::byte>& out) {
    ProcessAddress address;
    if (const Status status = decode(first.data(), first.size(), address, version); !status.ok()) {
        return status;
    }
    address.name = endpoint_name(process_of(address.name), index);
    address.key = key;
    for (std::uint32_t rail = 0; rail < address.rails.size(); ++rail) {
        const RailAddress at = late.address(rail, index);
        address.rails[rail].size = at.size;
        address.rails[rail].bytes = at.bytes;
    }
    out = encode(address);
    return kOk;
}

bool keeps_promise(const ProcessAddress& published, const std::vector<std::byte>& own) {
    ProcessAddress open;
    return decode(own.data(), own.size(), open, published.version).ok() &&
           open.name == published.name && open.key == published.key &&
           std::equal(open.rails.begin(), open.rails.end(), published.rails.begin(),
                      published.rails.end(), [](const AddressRail& a, const AddressRail& b) {
                          return a.datagram_qp == b.datagram_qp && a.paths == b.paths &&
                                 a.flags == b.flags;
                      });
}

} // namespace adaptib
