// SPDX-License-Identifier: BSD-3-Clause
// Rails whose handles can be made or not, and a peer of two such rails, for tests of the parts of a
// core that reach peers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "unit/recovery/two_rails.h"

namespace adaptib::test {

class ReachableRail final : public NamedRail {
public:
    explicit ReachableRail(const std::string& name, LinkLayer link) : NamedRail(name) {
        info_.link_layer = link;
    }

    void offer_inline(Bytes most) { info_.inline_bytes = most; }

    Status obstacle = kOk; // error of creating a handle
    std::size_t tries = 0; // handles asked for
    std::vector<Reason> refused;
    Reach known = Reach::unknown; // of all handles
    bool reachable = false;       // rails of other processes
    RailAddress own;              // of this rail

private:
    struct Memory final : public MemoryRegion {
        Memory(void* address, Bytes length) : MemoryRegion(address, length) {}
    };
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<Memory>(address, length);
        return kOk;
    }
    bool is_reachable_impl(const RailAddress&) const override { return reachable; }
    RailAddress address_impl() const override { return own; }
    Status create_ah_impl(const PathSpec&, std::unique_ptr<AddressHandle>& out) override {
        ++tries;
        if (obstacle.ok()) {
            out = std::make_unique<AddressHandle>();
        }
        return obstacle;
    }
    Reach reach_impl(const AddressHandle&) const override { return known; }
    void refuse_impl(const RailAddress&, Reason why) override { refused.push_back(why); }
};

// The peer's pairs: 0: first to first, 1: second to second, 2 and 3: crosswise.
struct ReachablePeer {
    explicit ReachablePeer(LinkLayer link) : first("m0:1", link), second("m1:1", link) {
        EXPECT_TRUE(DatagramChannel::create(rails, 0, {1, 2}, clock, counters, channel).ok());
        ProcessAddress address;
        address.name = 11;
        address.host = "there";
        address.rails.resize(2);
        address.rails[0].name = "x0:1";
        address.rails[1].name = "x1:1";
        address.rails[0].datagram_qp = address.rails[1].datagram_qp = 7;
        PeerRoute route;
        route.local = route.remote = {0, 2};
        pair_rails(route, true, [](std::uint32_t, std::uint32_t) { return 0; });
        peer = std::make_unique<Peer>(address, route, *channel, 4096, counters);
    }

    ManualClock clock;
    Counters counters;
    ReachableRail first;
    ReachableRail second;
    std::vector<Rail*> rails{&first, &second};
    std::unique_ptr<DatagramChannel> channel;
    std::unique_ptr<Peer> peer;
};

} // namespace adaptib::test
