// SPDX-License-Identifier: BSD-3-Clause
// Rails that create nothing: NullRail, base of test rails that need only part of the interface;
// FreeRail, which registers memory; and DescribedRail, whose description is the test's.
#pragma once

#include <memory>

#include "fabric/rail.h"

namespace adaptib::test {

class NullRail : public Rail {
private:
    PortState state_impl() const override { return PortState::active; }
    RailAddress address_impl() const override { return {}; }
    bool is_reachable_impl(const RailAddress&) const override { return false; }
    Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>&) override {
        return Status::error(Reason::not_supported);
    }
    Status create_srq_impl(std::uint32_t, std::unique_ptr<SharedReceiveQueue>&) override {
        return Status::error(Reason::not_supported);
    }
    Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>&) override {
        return Status::error(Reason::not_supported);
    }
    Status create_ah_impl(const PathSpec&, std::unique_ptr<AddressHandle>&) override {
        return Status::error(Reason::not_supported);
    }
    Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) override {
        return Status::error(Reason::not_supported);
    }
    Status allocate_impl(Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) override {
        return Status::error(Reason::not_supported);
    }
};

// Registers memory, without a system call.
class FreeRail final : public NullRail {
    Status register_impl(void* memory, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        struct Region final : MemoryRegion {
            Region(void* at, Bytes bytes) : MemoryRegion(at, bytes) {}
        };
        out = std::make_unique<Region>(memory, length);
        return kOk;
    }
};

class DescribedRail final : public NullRail {
public:
    explicit DescribedRail(const RailInfo& info) { info_ = info; }
};

} // namespace adaptib::test
