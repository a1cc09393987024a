// SPDX-License-Identifier: BSD-3-Clause
// Virtual rail of the shm fabric: creates objects and checks their arguments.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <cstdint>
#include <memory>

#include "fabric/fabric.h"
#include "fabric/shm/context.h"

namespace adaptib::shm {

class ShmMemoryRegion final : public MemoryRegion {
public:
    // `offset`: kPrivate, or the start of the segment's block that the region owns.
    ShmMemoryRegion(Context& context, void* address, Bytes length, std::uint32_t key, Bytes offset);
    ~ShmMemoryRegion() override;

private:
    Status commit_impl(Bytes offset, Bytes length) override;
    bool discard_impl(Bytes offset, Bytes length) override;

    Context& context_;
    Bytes offset_;
};

class ShmRail final : public Rail {
public:
    ShmRail(Context& context, std::uint32_t index, BytesPerSecond rate);

private:
    PortState state_impl() const override;
    RailAddress address_impl() const override;
    bool is_reachable_impl(const RailAddress& remote) const override;
    std::string why_out_of_reach_impl(const RailAddress& remote) const override;
    std::string last_error_text_impl() const override { return context_.last_error_text(); }
    void refuse_impl(const RailAddress& remote, Reason why) override {
        context_.peers().refuse(remote, why);
    }
    Status create_cq_impl(std::uint32_t depth, std::unique_ptr<CompletionQueue>& out) override;
    Status create_srq_impl(std::uint32_t depth, std::unique_ptr<SharedReceiveQueue>& out) override;
    Status create_qp_impl(const QpInit& init, std::unique_ptr<QueuePair>& out) override;
    Status create_ah_impl(const PathSpec& path, std::unique_ptr<AddressHandle>& out) override;
    Reach reach_impl(const AddressHandle& handle) const override;
    Status register_impl(void* address, Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status allocate_impl(Bytes length, std::uint32_t access,
                         std::unique_ptr<MemoryRegion>& out) override;
    Status allocate_sparse_impl(Bytes length, Bytes first, std::uint32_t access,
                                std::unique_ptr<MemoryRegion>& out) override;
    Status allocate(Bytes length, Bytes first, bool sparse, std::uint32_t access,
                    std::unique_ptr<MemoryRegion>& out);
    Status check(const QpInit& init) const;

    Context& context_;
    std::uint32_t index_;
};

} // namespace adaptib::shm
