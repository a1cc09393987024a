// SPDX-License-Identifier: BSD-3-Clause
// await_ah: address handles for programs that have nothing to do until there is one.
// May touch: base/, fabric/.
#pragma once

#include <chrono>
#include <memory>
#include <thread>

#include "fabric/rail.h"

namespace adaptib {

// As Rail::create_ah, but waits until the fabric has made the handle, or failed to.
inline Status await_ah(Rail& rail, const PathSpec& path, std::unique_ptr<AddressHandle>& out) {
    Status status = rail.create_ah(path, out);
    while (status == kNotYet) {
        std::this_thread::sleep_for(std::chrono::microseconds{100});
        status = rail.create_ah(path, out);
    }
    return status;
}

} // namespace adaptib
