// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of a process that have no segment until they are used (fabric/late_endpoints.h).
//
// Purpose: the address of such an endpoint is that of the process's first segment, except for the
// endpoint's number and the keys of its own segment, which follow from both. In the header of
// the first segment a peer finds the descriptor and the server of the endpoint's segment, in one
// word, or sets the endpoint's bit in a word that the owner reads, and wakes the owner's server.
// Threads: any, since all that changes is atomic words of the header.
// May touch: base/, fabric/late_endpoints.h, layout.h, opening.h, segment.h, the system.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "fabric/late_endpoints.h"
#include "fabric/shm/obstacle.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {

// Cookie, or answer key, of the segment of endpoint number `index`, of a process whose first
// segment has `first`.
constexpr std::uint64_t late_key(std::uint64_t first, std::uint32_t index) {
    return first + index * 0x9e37'79b9'7f4a'7c15u;
}

// The owner's side.
class OwnLateEndpoints final : public LateEndpoints {
public:
    // `segment`: of the process's first endpoint; it must outlive this.
    explicit OwnLateEndpoints(OwnSegment& segment) : segment_(segment) {}

private:
    RailAddress address_impl(std::uint32_t rail, std::uint32_t index) const override;
    std::uint32_t asked_for_impl() override;
    void announce_impl(std::uint32_t index, const RailAddress& address) override;
    void listen_impl(Asked asked) override;

    OwnSegment& segment_;
};

// A peer's side: turns the address of a late endpoint into that of its segment. Errors: again if
// the endpoint is not open yet, after its process was asked to open it; as PeerSegment::open.
Status find_late_endpoint(const WireAddress& late, WireAddress& out, Obstacle& obstacle);

} // namespace adaptib::shm
