// SPDX-License-Identifier: BSD-3-Clause
// In place of the core's rails: what a responder's port uses of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/fabric.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/port.h"
#include "unit/null_rail.h"

namespace adaptib::verbs {

constexpr Bytes kGrhBytes = 40;

class VerbsRail final : public test::NullRail {
public:
    VerbsRail(const Device& device, const Port& port, std::uint32_t index)
        : device_(device), port_(port), index_(index) {
        info_.capabilities = static_cast<std::uint32_t>(Capability::ud);
    }
    const Device& device() const { return device_; }
    const Calls& calls() const { return device_.calls(); }
    const Port& port() const { return port_; }
    const VerbsOptions& options() const { return options_; }
    std::uint32_t index() const { return index_; }

private:
    struct Region final : MemoryRegion {
        Region(void* at, Bytes length) : MemoryRegion(at, length) {}
    };
    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Region>(memory_.data(), length);
        return length <= memory_.size() ? kOk : Status::error(Reason::no_memory);
    }

    const Device& device_;
    const Port port_;
    const VerbsOptions options_;
    const std::uint32_t index_;
    std::array<std::byte, std::size_t{64} * 1024> memory_;
};

} // namespace adaptib::verbs
