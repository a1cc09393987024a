// SPDX-License-Identifier: BSD-3-Clause
// Owners of queue pairs: found by rail and number, alone or together, among few or many peers, as
// long as they have the queue pair.
#include "connect/queue_pair_owners.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "connect/queue_pairs.h"
#include "unit/connect/connections.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kSelf = 1000;

using Peers = std::vector<Peer*>;

// Numbers its queue pairs from 1 on, as any other rail of this kind.
class NumberingRail final : public NamedRail {
public:
    using NamedRail::NamedRail;
    bool works = true;

private:
    Status create_qp_impl(const QpInit&, std::unique_ptr<QueuePair>& out) override {
        if (!works) {
            return Status::error(Reason::not_supported);
        }
        out = std::make_unique<RecordingPair>(++last_);
        return kOk;
    }
    std::uint32_t last_ = 0;
};

class Owners : public Connections {
protected:
    static std::vector<std::unique_ptr<CompletionQueue>>
    queues_of(const std::vector<Rail*>& rails) {
        std::vector<std::unique_ptr<CompletionQueue>> queues;
        for (Rail* rail : rails) {
            EXPECT_TRUE(rail->create_cq(16, queues.emplace_back()).ok());
        }
        return queues;
    }
    std::unique_ptr<Peer> made(std::uint64_t name) {
        std::unique_ptr<Peer> peer = world_.peer(name);
        EXPECT_TRUE(queue_pairs_.make_all(*peer).ok());
        return peer;
    }
    ConnectOptions options() {
        ConnectOptions options;
        options.self = kSelf;
        options.clock = &world_.clock;
        return options;
    }
    static std::uint32_t number_of(const Peer& peer, std::size_t subchannel) {
        return peer.lanes.subchannels[subchannel].qp->number();
    }
    QueuePairOwners& owners() { return queue_pairs_.owners(); }

    NumberingRail first_{"m0:1"};
    NumberingRail second_{"m1:1"};
    std::vector<Rail*> rails_{&first_, &second_};
    std::vector<std::unique_ptr<CompletionQueue>> cqs_ = queues_of(rails_);
    ConnectContext context_{options(), rails_, cqs_, world_.counters, events_.queue, events_};
    ConnectionPool pool_{4, world_.counters};
    QueuePairs queue_pairs_{context_, pool_};
};

TEST_F(Owners, AreFoundByRailAndNumber) {
    const auto one = made(1);
    ASSERT_TRUE(queue_pairs_.make_all(*one).ok()); // has them all
    first_.works = false;
    const auto two = made(2); // without the first rail
    first_.works = true;
    const auto three = made(3);
    ASSERT_EQ(number_of(*three, 0), number_of(*two, 1)) << "the same number on two rails";
    EXPECT_EQ(owners().find(0, number_of(*one, 0)), Peers{one.get()});
    EXPECT_EQ(owners().find(1, number_of(*one, 1)), Peers{one.get()});
    EXPECT_EQ(owners().find(1, number_of(*two, 1)), Peers{two.get()});
    EXPECT_EQ(owners().find(0, number_of(*three, 0)), Peers{three.get()});
    EXPECT_EQ(owners().find(0, 99), Peers{});
    EXPECT_EQ(owners().find(7, 1), Peers{});
}

TEST_F(Owners, AreForgottenWithTheQueuePair) {
    const auto one = made(1);
    const std::uint32_t number = number_of(*one, 0);
    std::unique_ptr<QueuePair> kept = queue_pairs_.take(*one, one->lanes.subchannels[0]);
    EXPECT_EQ(owners().find(0, number), Peers{});
    EXPECT_EQ(owners().size(), 1u);
    queue_pairs_.drop_all(*one);
    EXPECT_EQ(owners().size(), 0u);
    // A kept queue pair may be used again, with its number.
    one->connection.kept.queue_pairs.push_back(std::move(kept));
    ASSERT_TRUE(queue_pairs_.make_all(*one).ok());
    EXPECT_EQ(owners().find(0, number), Peers{one.get()});
    EXPECT_EQ(owners().size(), 2u);
}

TEST_F(Owners, ThisProcessItselfIsNone) {
    const auto self = made(kSelf);
    EXPECT_EQ(owners().size(), 0u);
    queue_pairs_.drop_all(*self);
}

TEST_F(Owners, ThoseOfASharedQueuePairAreFoundTogether) {
    QueuePairOwners owners;
    const auto one = open_peer(1);
    const auto two = open_peer(2);
    for (const auto& peer : {one.get(), two.get()}) {
        for (const Subchannel& subchannel : peer->lanes.subchannels) {
            owners.add(*peer, subchannel);
        }
    }
    Peers found = owners.find(0, 1);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_NE(found[0], found[1]);
    // One of them goes on over another queue pair.
    one->lanes.subchannels[0].qp = std::make_unique<RecordingPair>(9);
    owners.add(*one, one->lanes.subchannels[0]);
    EXPECT_EQ(owners.find(0, 1), Peers{two.get()});
    EXPECT_EQ(owners.find(0, 9), Peers{one.get()});
    EXPECT_EQ(owners.size(), 4u) << "the stale entry is gone";
    owners.remove(*two, two->lanes.subchannels[0]);
    EXPECT_EQ(owners.find(0, 1), Peers{});
    owners.remove(*two, two->lanes.subchannels[0]); // has no effect
    EXPECT_EQ(owners.size(), 3u);
}

TEST_F(Owners, AmongTenThousandPeersOnlyTheOwnerIsVisited) {
    constexpr std::uint64_t kPeers = 10'000;
    std::vector<std::unique_ptr<Peer>> peers;
    for (std::uint64_t i = 0; i < kPeers; ++i) {
        peers.push_back(made(kSelf + 1 + i));
    }
    EXPECT_EQ(owners().size(), 2 * kPeers);
    for (const auto& peer : peers) {
        for (std::uint32_t rail = 0; rail < 2; ++rail) {
            ASSERT_EQ(owners().find(rail, number_of(*peer, rail)), Peers{peer.get()});
        }
    }
    for (const auto& peer : peers) {
        queue_pairs_.drop_all(*peer);
    }
    EXPECT_EQ(owners().size(), 0u);
}

} // namespace
} // namespace adaptib::test
