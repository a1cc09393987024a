// SPDX-License-Identifier: BSD-3-Clause
// In place of the core's devices: calls of libibverbs that the model gives, and address handles
// that are there at once (address_handles.cc has a model of its own).
#pragma once

#include <memory>

#include "fabric/verbs/address_handles.h"
#include "fabric/verbs/verbs_calls.h"
#include "fabric/verbs/verbs_fabric.h"

namespace adaptib::verbs {

class DirectHandles {
public:
    explicit DirectHandles(const Calls& calls) : calls_(calls) {}
    Status find(const ibv_ah_attr& to, bool, SharedAh& out) const {
        ibv_ah_attr attributes = to;
        out = std::make_shared<OwnedAh>(calls_, calls_.create_ah(nullptr, &attributes));
        return kOk;
    }

private:
    const Calls& calls_;
};

class Device {
public:
    explicit Device(const Calls& calls) : calls_(calls), handles_(calls) {}
    const Calls& calls() const { return calls_; }
    ibv_context* context() const { return nullptr; }
    ibv_pd* pd() const { return nullptr; }
    const DirectHandles& handles() const { return handles_; }

private:
    const Calls& calls_;
    const DirectHandles handles_;
};

} // namespace adaptib::verbs
