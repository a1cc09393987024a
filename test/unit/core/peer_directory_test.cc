// SPDX-License-Identifier: BSD-3-Clause
// First contact with processes: each is looked up once, and one that cannot be reached is reported
// to the user, or left to another transport.
#include "core/peer_directory.h"

#include "unit/core/known_peers.h"

namespace adaptib::test {
namespace {

using Why = PeerDirectory::Why;

class PeerDirectoryTest : public KnownPeers {
protected:
    explicit PeerDirectoryTest(const PartsOptions& options = {}) : KnownPeers(options) {}

    Status get(std::uint64_t name, Why why = Why::user) {
        peer_ = nullptr;
        return directory_.get(name, peer_, why);
    }
    std::size_t failures() const { return count(Severity::failure); }
    std::size_t notices() const { return count(Severity::notice); }
    std::size_t count(Severity severity) const {
        return static_cast<std::size_t>(
            std::count_if(messages_.begin(), messages_.end(),
                          [=](const auto& each) { return each.first == severity; }));
    }
    bool last_message_has(const std::string& text) const {
        return !messages_.empty() && messages_.back().second.find(text) != std::string::npos;
    }

    Peer* peer_ = nullptr;
};

class PeerDirectoryOfAHost : public PeerDirectoryTest {
protected:
    PeerDirectoryOfAHost() : PeerDirectoryTest({.link = LinkLayer::memory}) {}
};

TEST_F(PeerDirectoryTest, FirstContactMakesThePeerAndLaterOnesFindIt) {
    publish(7);
    ASSERT_TRUE(get(7).ok());
    Peer* const made = peer_;
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->contact.name, 7u);
    EXPECT_EQ(made->contact.datagram.key, kKey);
    EXPECT_NE(made->contact.datagram.handle, nullptr);
    EXPECT_TRUE(fabrics_[0].used);
    EXPECT_EQ(counters().peers, 1u);
    table_.blobs.clear(); // is not looked up again
    ASSERT_TRUE(get(7).ok());
    EXPECT_EQ(peer_, made);
    EXPECT_EQ(directory_.find(7), made);
    EXPECT_TRUE(messages_.empty());
}

TEST_F(PeerDirectoryTest, ThisProcessHasALoopbackInstead) {
    ASSERT_TRUE(get(kSelf).ok());
    EXPECT_EQ(peer_, nullptr);
    EXPECT_EQ(directory_.peers().size(), 0u);
}

TEST_F(PeerDirectoryTest, AProcessWithoutAnAddressIsReported) {
    EXPECT_EQ(get(7), Status::error(Reason::unreachable));
    EXPECT_EQ(failures(), 1u);
    EXPECT_TRUE(last_message_has("missing or malformed"));
    EXPECT_EQ(directory_.find(7), nullptr);
    publish(7); // too late for that try only
    EXPECT_TRUE(get(7).ok());
}

TEST_F(PeerDirectoryTest, AnAddressOfAnotherProcessOrVersionIsRefused) {
    table_.blobs[7] = encode(address_of(8));
    EXPECT_EQ(get(7), Status::error(Reason::bad_wire));
    ProcessAddress newer = address_of(7);
    newer.version = kWireVersion + 1;
    table_.blobs[7] = encode(newer);
    EXPECT_EQ(get(7), Status::error(Reason::version));
    EXPECT_TRUE(last_message_has("Install the same release"));
    EXPECT_EQ(failures(), 2u);
}

TEST_F(PeerDirectoryTest, WithoutARouteTheUserIsToldEachTimeAndAnotherTransportOnce) {
    world_.first.reachable = world_.second.reachable = false;
    for (const std::uint64_t name : {7u, 8u}) {
        publish(name);
        EXPECT_EQ(get(name, Why::offer), Status::error(Reason::unreachable));
    }
    EXPECT_EQ(notices(), 1u) << "one notice stands for all";
    EXPECT_EQ(failures(), 0u);
    for (const std::uint64_t name : {7u, 8u}) {
        EXPECT_EQ(get(name), Status::error(Reason::unreachable));
    }
    EXPECT_EQ(failures(), 2u);
    EXPECT_TRUE(last_message_has("no rail of one process can talk to a rail of the other"));
    EXPECT_EQ(directory_.peers().size(), 0u);
}

TEST_F(PeerDirectoryTest, AProcessThatHasEndedIsNotReached) {
    publish(7);
    ended_.report(7);
    ended_.take([](std::uint64_t) {});
    EXPECT_EQ(get(7), Status::error(Reason::peer_gone));
    EXPECT_EQ(failures(), 1u);
    EXPECT_EQ(world_.first.tries, 0u);
}

TEST_F(PeerDirectoryOfAHost, APeerForWhichTheSystemLacksMemoryIsTriedAgain) {
    publish(7);
    world_.first.obstacle = world_.second.obstacle = Status::error(Reason::no_memory);
    ASSERT_TRUE(get(7).ok());
    ASSERT_NE(peer_, nullptr);
    EXPECT_TRUE(peer_->contact.datagram.coming);
    EXPECT_FALSE(contacts_.empty());
    const std::size_t tries = world_.first.tries;
    ASSERT_TRUE(get(7).ok());
    EXPECT_EQ(world_.first.tries, tries) << "but not by each operation";
    world_.first.obstacle = kOk;
    clock().advance(Contacts::kFirstPause);
    contacts_.retry(clock().now());
    EXPECT_NE(peer_->contact.datagram.handle, nullptr);
    EXPECT_TRUE(messages_.empty());
}

TEST_F(PeerDirectoryTest, APeerThatHasLeftIsReachedAgain) {
    publish(7);
    ASSERT_TRUE(get(7).ok());
    Peer* const made = peer_;
    made->contact.datagram.handle.reset();
    ProcessAddress later = address_of(7); // a process with another key
    later.key = kKey + 1;
    table_.blobs[7] = encode(later);
    ASSERT_TRUE(get(7).ok());
    EXPECT_EQ(peer_, made);
    EXPECT_NE(made->contact.datagram.handle, nullptr);
    EXPECT_EQ(made->contact.datagram.key, kKey + 1);
}

TEST_F(PeerDirectoryTest, AFailedPeerIsNotReachedAgain) {
    Peer& peer = meet(7);
    lost_.lose(peer, "test");
    protocol_.end_lost_peers();
    peer.contact.datagram.handle.reset();
    ASSERT_TRUE(get(7).ok());
    EXPECT_EQ(peer_, &peer);
    EXPECT_EQ(peer.contact.datagram.handle, nullptr);
}

TEST_F(PeerDirectoryTest, ADatagramIsTakenFromItsSenderOnly) {
    publish(7);
    Peer* const sender = directory_.sender_of(0, 7, kKey);
    ASSERT_NE(sender, nullptr);
    EXPECT_EQ(sender, directory_.find(7));
    EXPECT_EQ(directory_.sender_of(0, 7, kKey + 1), nullptr) << "somebody else's";
    EXPECT_EQ(directory_.sender_of(0, 8, kKey), nullptr) << "unknown";
    EXPECT_EQ(counters().bad_packets, 2u);
}

TEST_F(PeerDirectoryTest, WithOneFabricAPeerDoesAtomicsItself) {
    Peer& peer = meet(7);
    Peer* atomics = nullptr;
    ASSERT_TRUE(directory_.get_for_atomics(peer, atomics).ok());
    EXPECT_EQ(atomics, &peer);
    EXPECT_EQ(directory_.find_amo_peer(7), nullptr);
}

// Each rail is a fabric of its own: the first is nearer, and atomics go over the second.
class PeerDirectoryOfTwoFabrics : public PeerDirectoryTest {
protected:
    PeerDirectoryOfTwoFabrics() : PeerDirectoryTest({.fabrics = {{0, 1}, {1, 1}}}) {}
};

TEST_F(PeerDirectoryOfTwoFabrics, AtomicsHaveARecordOfTheirOwn) {
    publish(7);
    ASSERT_TRUE(get(7).ok());
    EXPECT_EQ(peer_->contact.route.fabric, 0u);
    Peer* atomics = nullptr;
    ASSERT_TRUE(directory_.get_for_atomics(*peer_, atomics).ok());
    ASSERT_NE(atomics, peer_);
    EXPECT_EQ(atomics->contact.route.fabric, 1u);
    EXPECT_EQ(directory_.find(7, 0), peer_);
    EXPECT_EQ(directory_.find(7, 1), atomics);
    EXPECT_EQ(directory_.find_amo_peer(7), atomics);
    Peer* again = nullptr;
    ASSERT_TRUE(directory_.get_for_atomics(*peer_, again).ok());
    EXPECT_EQ(again, atomics);
    std::vector<Peer*> all;
    directory_.for_each([&](Peer& peer) { all.push_back(&peer); });
    EXPECT_EQ(all, (std::vector<Peer*>{peer_, atomics}));
    EXPECT_EQ(directory_.peers().size(), 1u);
}

TEST_F(PeerDirectoryOfTwoFabrics, WhereTheLastFabricDoesNotReachThePeerItDoesThemItself) {
    world_.second.reachable = false;
    publish(7);
    ASSERT_TRUE(get(7).ok());
    Peer* atomics = nullptr;
    ASSERT_TRUE(directory_.get_for_atomics(*peer_, atomics).ok());
    EXPECT_EQ(atomics, peer_);
}

TEST_F(PeerDirectoryOfTwoFabrics, ADatagramOverTheOtherFabricIsForTheOtherRecord) {
    publish(7);
    Peer* const sender = directory_.sender_of(1, 7, kKey);
    ASSERT_NE(sender, nullptr);
    EXPECT_EQ(sender, directory_.find_amo_peer(7));
    EXPECT_EQ(directory_.sender_of(0, 7, kKey), directory_.find(7));
}

} // namespace
} // namespace adaptib::test
