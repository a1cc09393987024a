// SPDX-License-Identifier: BSD-3-Clause
// Two rails that carry nothing, and peers of two rails each, for tests of code that
// tracks or probes paths.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "peer/peer.h"
#include "unit/null_rail.h"

namespace adaptib::test {

class NamedRail : public NullRail {
public:
    explicit NamedRail(const std::string& name) {
        info_.name = name;
        info_.capabilities = static_cast<std::uint32_t>(Capability::ud);
        info_.datagram_bytes = 512;
    }

    bool reaches_all = false;

private:
    bool is_reachable_impl(const RailAddress&) const override { return reaches_all; }
    // Enough for the datagram channel that each peer here must have.
    class Region final : public MemoryRegion {
    public:
        explicit Region(Bytes length)
            : MemoryRegion(nullptr, length), bytes_(new std::byte[length]) {
            address_ = bytes_.get();
        }

    private:
        std::unique_ptr<std::byte[]> bytes_;
    };
    class Queue final : public CompletionQueue {
        std::size_t poll_impl(std::span<WorkCompletion>) override { return 0; }
    };
    class Pair final : public QueuePair {
    public:
        Pair() : QueuePair(QpType::ud) {}

    private:
        Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
        QpAttributes query_impl() const override { return {}; }
        Status post_send_impl(const SendWork&) override { return kOk; }
        Status post_receive_impl(const ReceiveWork&) override { return kOk; }
        Status rma_now_impl(const RmaWork&) override { return kOk; }
        void* map_impl(std::uint64_t, Bytes, std::uint32_t) override { return nullptr; }
        bool usable_impl() const override { return true; }
    };
    Status allocate_impl(Bytes length, std::uint32_t, std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Region>(length);
        return kOk;
    }
    Status create_cq_impl(std::uint32_t, std::unique_ptr<CompletionQueue>& out) override {
        out = std::make_unique<Queue>();
        return kOk;
    }
    Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>& out) override {
        out = std::make_unique<Pair>();
        return kOk;
    }
};

struct TwoRails {
    TwoRails() {
        EXPECT_TRUE(DatagramChannel::create(first, {1, 2}, clock, counters, channel).ok());
    }
    // Makes a peer of two rails: two connected pairs, and two more.
    std::unique_ptr<Peer> peer(std::uint64_t name) {
        ProcessAddress address;
        address.name = name;
        address.host = "there";
        address.rails.resize(2);
        address.rails[0].name = "x0:1";
        address.rails[1].name = "x1:1";
        PeerRoute route;
        route.local = route.remote = {0, 2};
        pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 0; });
        return std::make_unique<Peer>(address, route, *channel, 4096, counters);
    }

    ManualClock clock;
    Counters counters;
    NamedRail first{"m0:1"};
    NamedRail second{"m1:1"};
    std::vector<Rail*> rails{&first, &second};
    std::unique_ptr<DatagramChannel> channel;
};

} // namespace adaptib::test
