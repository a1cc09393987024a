// SPDX-License-Identifier: BSD-3-Clause
// LateEndpoints: endpoints of this process that are published now and opened when they are used.
//
// Purpose: a process publishes the addresses of all its endpoints when it starts, though some may
// never be used. A fabric that can do so gives addresses to endpoints that do not exist yet. Where
// a peer looks for one of them, the fabric tells the peer to try again, and this process that the
// endpoint is asked for (asked_for()). Where it can, a thread of the fabric also calls the function
// that listen() was given, since this process may be computing. Once the endpoint is open (a fabric
// of its own that was made for that number), announce() lets peers in.
// Ownership: part of the fabric of the process's first endpoint, Fabric::late_endpoints().
// Threads: any; asked_for() and announce() do not touch the state of that fabric.
// May touch: base/, fabric/rail_address.h.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/invariant.h"
#include "fabric/rail_address.h"

namespace adaptib {

class LateEndpoints {
public:
    // Called by a thread that has little stack, and that others wait for.
    using Asked = std::function<void()>;

    virtual ~LateEndpoints() = default;
    // Address that endpoint number `index`, 1 to 15, will have on that rail.
    RailAddress address(std::uint32_t rail, std::uint32_t index) const {
        ADAPTIB_INVARIANT(index > 0, "the first endpoint is open from the start", rail);
        return address_impl(rail, index);
    }
    // Takes the set of endpoints that peers have looked for since the last call: bit `index`.
    // Usually none; then it costs a load.
    std::uint32_t asked_for() { return asked_for_impl(); }
    // Endpoint number `index` is open, and `address` is what its fabric says of its first rail.
    void announce(std::uint32_t index, const RailAddress& address) {
        announce_impl(index, address);
    }

    // Calls the function whenever a peer asks for an endpoint. Null: no call, and none goes on.
    void listen(Asked asked) { listen_impl(std::move(asked)); }

private:
    virtual RailAddress address_impl(std::uint32_t rail, std::uint32_t index) const = 0;
    virtual std::uint32_t asked_for_impl() = 0;
    virtual void announce_impl(std::uint32_t index, const RailAddress& address) = 0;
    virtual void listen_impl(Asked asked) = 0;
};

} // namespace adaptib
