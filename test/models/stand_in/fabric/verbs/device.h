// SPDX-License-Identifier: BSD-3-Clause
// In place of the core's devices: calls of libibverbs that the model gives.
#pragma once

#include "fabric/verbs/address_handles.h"
#include "fabric/verbs/verbs_calls.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib::verbs {

class Device {
public:
    explicit Device(const Calls& calls) : calls_(calls), handles_(calls, nullptr) {}
    const Calls& calls() const { return calls_; }
    ibv_context* context() const { return nullptr; }
    ibv_pd* pd() const { return nullptr; }
    AddressHandles& handles() const { return handles_; }

private:
    const Calls& calls_;
    mutable AddressHandles handles_;
};

} // namespace adaptib::verbs
