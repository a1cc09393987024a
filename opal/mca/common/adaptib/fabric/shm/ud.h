// SPDX-License-Identifier: BSD-3-Clause
// Datagram queue pairs and address handles.
//
// Purpose: a datagram is one record in the target's queue. It is neither lost nor duplicated nor
// reordered while both rails are up; post_send says again(queue_full) when there is no room. On a
// rail that is down datagrams vanish; on a slowed one they wait in ops_.
// Threads: one thread at a time uses the whole fabric.
// May touch: base/, fabric/fabric.h and this folder.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/shm/local_qp.h"

namespace adaptib::shm {

class ShmAddressHandle final : public AddressHandle {
public:
    ShmAddressHandle(std::shared_ptr<PeerSegment> target, std::uint32_t target_rail,
                     std::uint32_t own_rail)
        : peer(std::move(target)), peer_rail(target_rail), rail(own_rail) {}

    const std::shared_ptr<PeerSegment> peer;
    const std::uint32_t peer_rail;
    const std::uint32_t rail;

private:
    bool shares_processor_impl() const override;
    Status standing_impl(std::string& text) const override;
};

class UdQueuePair final : public LocalQueuePair {
public:
    UdQueuePair(Context& context, std::uint32_t rail, const QpInit& init)
        : LocalQueuePair(context, rail, init), ops_(init.send_depth) {}
    ~UdQueuePair() override;

private:
    struct Op {
        SendWork work;
        std::array<Gather, kMaxGather> gather;
        Bytes length = 0;
        std::uint64_t release = 0;
        Nanoseconds ready_at{0};
        std::shared_ptr<PeerSegment> peer;
        std::uint32_t peer_rail = 0;
        std::vector<std::byte> inline_data;
    };
    enum class Sent : std::uint8_t { yes, full, no_memory, gone, bad_key };

    Status post_send_impl(const SendWork& work) override;
    bool usable_impl() const override;
    bool accepts(const RecordView& record) const override {
        return record.fields.type == RecordType::datagram;
    }
    Status connect(const QpAttributes&) override { return kOk; }
    void disconnect() override {}
    void serve(const RecordView&) override {}
    bool progress_sends() override;
    void flush_sends() override;
    void drop_sends() override { ops_.clear(); }

    Sent send(const SendWork& work, Bytes length, PeerSegment& peer, std::uint32_t peer_rail);
    std::uint64_t rails_word(const PeerSegment& peer, std::uint32_t peer_rail) const {
        return context_.rails().word(rail_) |
               peer.header()->rail[peer_rail].word.load(std::memory_order_acquire);
    }
    void enqueue(const SendWork& work, Bytes length, const ShmAddressHandle& handle);
    void conclude(const SendWork& work, Sent sent, std::uint64_t release);

    GrowingRing<Op> ops_;
    std::uint32_t found_full_ = 0;
};

} // namespace adaptib::shm
