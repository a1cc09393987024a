// SPDX-License-Identifier: BSD-3-Clause
// OneSidedOperations and CopiedOperations, with queue pairs that complete requests when the test
// says: each operation takes its way, and its request ends once.
#include "protocol/one_sided_operations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/messages.h"
#include "unit/protocol/held_flow.h"
#include "unit/protocol/open_peer.h"
#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kSelf = 3;
constexpr Bytes kBlock = 4096;
constexpr Bytes kLength = 1000;
constexpr std::uint32_t kAll = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                               OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;

// The operations of one process, and the messages that they send.
class Process final {
public:
    Process(RailList rails, RailRange fabric, const Clock& clock, Counters& counters,
            const ExposedMemory::Options& options = {0, kBlock})
        : held(counters), fabrics_{fabric},
          memory(options, rails, fabrics_, counters, ignore_message),
          engine({&clock, Nanoseconds{0}, 10}, rails, held.flow, held.losses.events, counters,
                 messages_into(failures)),
          rendezvous_({}, {held.flow, engine, memory, held.completions, held.losses.events},
                      held.losses.peers, counters),
          target_(memory.lent(), nullptr, rendezvous_, counters),
          synchronous_(clock, kBlock, memory, counters, target_),
          operations({kSelf, true, kBlock},
                     {memory, held.pool, engine, synchronous_, held.flow, held.completions},
                     held.losses.peers, counters, messages_into(failures)) {}

    // Returns the only request that has ended since the last call; null: none has.
    UserRequest* ended() { return held.ended(); }
    // Returns the types of all messages to the peer.
    std::vector<MessageType> sent(Peer& peer) {
        for (const HeldMessage& each : held.take(peer)) {
            sent_.push_back(each.type);
            if (each.type == MessageType::region_query) {
                query = read_body<RegionQueryBody>(each.body.data());
            } else if (each.type == MessageType::region_keys) {
                keys = read_body<RegionKeysBody>(each.body.data());
            }
        }
        return sent_;
    }

    std::vector<std::string> failures;
    RegionQueryBody query{}; // the last that sent() has found ...
    RegionKeysBody keys{};   // ... and the last answer
    HeldFlow held;

private:
    std::vector<MessageType> sent_;
    std::vector<RailRange> fabrics_;

public:
    ExposedMemory memory;
    TransferEngine engine;

private:
    Rendezvous rendezvous_;
    RmaTarget target_;
    SynchronousRma synchronous_;

public:
    OneSidedOperations operations;
};

// An operation on memory that the target describes.
struct Operation {
    Operation(opal_common_adaptib_operation_t kind, std::vector<std::byte>& memory, void* local,
              Bytes bytes) {
        remote.base = reinterpret_cast<std::uintptr_t>(memory.data());
        remote.bytes = memory.size();
        remote.access = kAll;
        remote.key_count = 2;
        remote.keys[0] = remote.keys[1] = kRemoteKey;
        what.operation = kind;
        what.local = local;
        what.remote = &remote;
        what.remote_address = remote.base;
        what.bytes = bytes;
    }

    opal_common_adaptib_remote_t remote{};
    opal_common_adaptib_one_sided_t what{};
};

class OneSidedTest : public testing::Test, protected OpenPeer {
protected:
    OneSidedTest() { process.held.hold(*peer); }
    // Errors end no request.
    Status start() {
        return process.operations.start(*peer, put.what, nullptr, request, complete_now);
    }
    void expect_none_under_way() {
        EXPECT_EQ(process.operations.under_way(), 0u);
        EXPECT_EQ(peer->transfers.one_sided, 0u);
        EXPECT_EQ(peer->transfers.users, 0u);
        EXPECT_EQ(peer->transfers.rma_operations, 0u);
        EXPECT_EQ(process.ended(), nullptr);
    }
    // Makes operations go through staging memory.
    void copy() { first.refused = local.data(); }
    // Does what the adapter does with the oldest put or get, and completes it.
    void execute() {
        const std::uint32_t on = used();
        ASSERT_FALSE(qp(on).taken.empty());
        const SendWork& work = qp(on).taken[0];
        const Gather& ours = qp(on).gathers[0];
        auto* const theirs = reinterpret_cast<void*>(work.remote_address);
        std::memcpy(work.opcode == Opcode::write ? theirs : ours.address,
                    work.opcode == Opcode::write ? ours.address : theirs, ours.length);
        OpenPeer::complete(on);
    }

    Process process{rails, {0, 2}, there.clock, there.counters};
    std::vector<std::byte> local = std::vector<std::byte>(3 * kBlock, std::byte{1});
    std::vector<std::byte> target = std::vector<std::byte>(3 * kBlock, std::byte{2});
    Operation put{OPAL_COMMON_ADAPTIB_PUT, target, local.data(), kLength};
    UserRequest request{};
    bool complete_now = false;
};

TEST_F(OneSidedTest, APutEndsWithItsTransfer) {
    ASSERT_TRUE(start().ok());
    EXPECT_FALSE(complete_now);
    EXPECT_EQ(posted(), 1u);
    EXPECT_EQ(process.operations.under_way(), 1u);
    EXPECT_EQ(peer->transfers.one_sided, 1u);
    EXPECT_EQ(process.ended(), nullptr);
    execute();
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(request.bytes, kLength);
    EXPECT_EQ(target[kLength - 1], std::byte{1});
    EXPECT_EQ(target[kLength], std::byte{2});
    expect_none_under_way();
}

TEST_F(OneSidedTest, AnInvalidOperationIsRefused) {
    put.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ;
    EXPECT_EQ(start(), Status::error(Reason::bad_key));
    put.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_WRITE; // no window
    put.what.remote_address += target.size();
    EXPECT_EQ(start(), Status::error(Reason::bad_key));
    put.remote.access = kAll;
    put.what.bytes = 0;
    EXPECT_TRUE(start().ok()) << "its end is that of the memory";
    EXPECT_TRUE(complete_now);
    ++put.what.remote_address;
    EXPECT_EQ(start(), Status::error(Reason::bad_key));
    put.what.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD;
    put.what.bytes = 8;
    put.what.remote_address = put.remote.base + 4;
    EXPECT_EQ(start(), Status::error(Reason::bad_argument));
    EXPECT_EQ(posted(), 0u);
    expect_none_under_way();
}

TEST_F(OneSidedTest, ALostPeerIsReported) {
    peer->session.state = ConnectState::failed;
    EXPECT_EQ(start(), Status::error(Reason::unreachable));
    EXPECT_EQ(process.held.losses.reported.size(), 1u);
    expect_none_under_way();
}

TEST_F(OneSidedTest, TheTargetMayRefuseTheOperation) {
    peer->session.repairable = true;
    put.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_WRITE; // no window
    ASSERT_TRUE(start().ok());
    OpenPeer::complete(used(), WorkStatus::remote_access_error);
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(request.bytes, 0u);
    EXPECT_EQ(process.failures.size(), 1u);
    expect_none_under_way();
}

TEST_F(OneSidedTest, AnOperationThatFindsNoRoomWaits) {
    qp(0).room = qp(1).room = 0;
    ASSERT_TRUE(start().ok());
    EXPECT_EQ(process.operations.under_way(), 1u);
    EXPECT_TRUE(process.engine.any_waits());
    qp(0).room = qp(1).room = 8;
    process.engine.post_waiting();
    ASSERT_EQ(posted(), 1u);
    execute();
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.bytes, kLength);
    EXPECT_EQ(target[0], std::byte{1});
    expect_none_under_way();
}

TEST_F(OneSidedTest, BeyondTheBoundTheCallerTriesAgain) {
    qp(0).room = qp(1).room = 0;
    std::vector<UserRequest> many(OneSidedOperations::kMostUnderWay);
    for (UserRequest& each : many) {
        ASSERT_TRUE(process.operations.start(*peer, put.what, nullptr, each, complete_now).ok());
    }
    EXPECT_EQ(start(), Status::error(Reason::no_memory));
    put.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_WRITE; // of a message
    UserRequest of_a_message{};
    EXPECT_TRUE(
        process.operations.start(*peer, put.what, nullptr, of_a_message, complete_now).ok());
    put.remote.access = kAll;
    qp(0).room = 1;
    qp(1).room = 1;
    process.engine.post_waiting();
    execute();
    EXPECT_EQ(process.ended(), &many[0]);
    EXPECT_EQ(start(), Status::error(Reason::no_memory)) << "that of the message counts, too";
    peer->session.state = ConnectState::failed;
    process.engine.fail_waiting(*peer);
    for (std::size_t i = 1; i <= many.size(); ++i) {
        EXPECT_NE(process.ended(), nullptr);
    }
    expect_none_under_way();
}

TEST_F(OneSidedTest, WithItsPeerAWaitingOperationFails) {
    qp(0).room = qp(1).room = 0;
    ASSERT_TRUE(start().ok());
    peer->session.state = ConnectState::failed;
    process.engine.fail_waiting(*peer);
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    expect_none_under_way();
}

TEST_F(OneSidedTest, MemoryThatCannotBeRegisteredIsCopied) {
    copy();
    const Bytes length = 2 * kBlock + kBlock / 2;
    for (const bool get : {false, true}) {
        std::fill(local.begin(), local.end(), std::byte{3});
        std::fill(target.begin(), target.end(), std::byte{4});
        put.what.operation = get ? OPAL_COMMON_ADAPTIB_GET : OPAL_COMMON_ADAPTIB_PUT;
        put.what.bytes = length;
        ASSERT_TRUE(start().ok());
        for (int block = 0; block < 3; ++block) {
            EXPECT_EQ(process.ended(), nullptr);
            ASSERT_EQ(posted(), 1u) << "one block at a time";
            execute();
        }
        EXPECT_EQ(process.ended(), &request);
        EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(request.bytes, length);
        EXPECT_EQ(std::memcmp(local.data(), target.data(), length), 0);
        EXPECT_EQ((get ? local : target)[length - 1], get ? std::byte{4} : std::byte{3});
        EXPECT_EQ((get ? local : target)[length], get ? std::byte{3} : std::byte{4});
        expect_none_under_way();
    }
}

TEST_F(OneSidedTest, WithoutABlockACopyWaitsForOthersOrIsRefused) {
    copy();
    std::unique_ptr<StagingBlock> of_a_message;
    ASSERT_TRUE(process.memory.staging(0).take(of_a_message).ok());
    first.has_memory = second.has_memory = false;
    EXPECT_EQ(start(), Status::error(Reason::no_memory));
    EXPECT_TRUE(process.failures.empty());
    process.memory.staging(0).give(std::move(of_a_message));
    ASSERT_TRUE(start().ok());
    execute();
    EXPECT_EQ(process.ended(), &request);
    expect_none_under_way();

    Process without{rails, {0, 2}, there.clock, there.counters};
    EXPECT_EQ(without.operations.start(*peer, put.what, nullptr, request, complete_now),
              Status::error(Reason::not_supported));
    EXPECT_EQ(without.failures.size(), 1u);
    EXPECT_EQ(without.operations.under_way(), 0u);
}

TEST_F(OneSidedTest, AnAtomicThatTheTargetExecutesIsAMessage) {
    put.remote.access |= OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED;
    put.what.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD;
    put.what.bytes = 8;
    EXPECT_FALSE(process.operations.try_rma(*peer, put.what, nullptr));
    ASSERT_TRUE(start().ok());
    EXPECT_EQ(process.sent(*peer), std::vector<MessageType>{MessageType::atomic});
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(process.operations.atomics().under_way(), 1u);
    process.operations.atomics().fail(*peer);
    EXPECT_EQ(process.ended(), &request);
    expect_none_under_way();
}

// The description is another window's of the target: osc/rdma may pass such a one on.
class AskedTest : public OneSidedTest {
protected:
    static constexpr std::uint32_t kOwnKey = 77;

    AskedTest() { put.remote.base += kLength; } // does not cover the operation
    RegionKeysBody answer(std::uint32_t key_count) {
        process.sent(*peer);
        RegionKeysBody body{};
        body.id = process.query.id;
        body.key_count = key_count;
        body.keys[0] = body.keys[1] = kOwnKey;
        return body;
    }
    void expect_refused() {
        EXPECT_EQ(process.ended(), &request);
        EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
        EXPECT_EQ(process.failures.size(), 1u);
        expect_none_under_way();
        EXPECT_EQ(process.engine.asking(), 0u);
    }
};

TEST_F(AskedTest, TheTargetsKeysCount) {
    ASSERT_TRUE(start().ok());
    EXPECT_FALSE(complete_now);
    EXPECT_EQ(process.sent(*peer), std::vector<MessageType>{MessageType::region_query});
    EXPECT_EQ(process.query.address, put.what.remote_address);
    EXPECT_EQ(process.query.bytes, kLength);
    EXPECT_EQ(process.query.access, kRemoteWrite);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(process.operations.under_way(), 1u) << "a flush waits for it";
    std::size_t asked = 0;
    process.engine.for_each_asked([&](const Peer& of) { asked += &of == peer.get() ? 1 : 0; });
    EXPECT_EQ(asked, 1u);
    process.engine.on_region_keys(*peer, answer(2));
    ASSERT_EQ(posted(), 1u);
    EXPECT_EQ(qp(used()).taken[0].remote_key, kOwnKey);
    EXPECT_EQ(there.counters.keys_replaced, 2u);
    process.engine.on_region_keys(*peer, answer(2));
    EXPECT_EQ(there.counters.bad_packets, 1u) << "answered already";
    execute();
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    expect_none_under_way();
}

TEST_F(AskedTest, WithoutSuchAWindowTheOperationIsRefused) {
    ASSERT_TRUE(start().ok());
    process.engine.on_region_keys(*peer, answer(0));
    EXPECT_EQ(posted(), 0u);
    expect_refused();
}

TEST_F(AskedTest, ItEndsWithItsPeer) {
    ASSERT_TRUE(start().ok());
    peer->session.state = ConnectState::failed;
    process.engine.fail_asking(*peer);
    EXPECT_EQ(process.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    expect_none_under_way();
    process.engine.on_region_keys(*peer, answer(2));
    EXPECT_EQ(there.counters.bad_packets, 1u);
}

TEST_F(AskedTest, NothingIsAskedDuringADisconnect) {
    peer->session.disconnect_sent = true;
    EXPECT_EQ(start(), Status::error(Reason::no_memory));
    EXPECT_TRUE(process.sent(*peer).empty());
    expect_none_under_way();
}

// Half of the description is a neighbor's: it covers the operation, and its keys are wrong.
TEST_F(AskedTest, ARefusedOperationAsksOnce) {
    put.remote.base -= kLength;
    ASSERT_TRUE(start().ok());
    ASSERT_EQ(posted(), 1u);
    OpenPeer::complete(used(), WorkStatus::remote_access_error);
    EXPECT_EQ(process.ended(), nullptr);
    EXPECT_TRUE(process.failures.empty());
    EXPECT_EQ(process.sent(*peer), std::vector<MessageType>{MessageType::region_query});
    process.engine.on_region_keys(*peer, answer(2));
    ASSERT_EQ(posted(), 1u);
    EXPECT_EQ(qp(used()).taken[0].remote_key, kOwnKey);
    OpenPeer::complete(used(), WorkStatus::remote_access_error);
    EXPECT_EQ(process.sent(*peer).size(), 1u);
    expect_refused();
}

TEST_F(AskedTest, TheTargetAnswersWithTheKeysOfTheWindow) {
    OpenWindow window;
    ASSERT_TRUE(process.memory
                    .open_window(window, target.data(), target.size(),
                                 kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic)
                    .ok());
    const auto base = reinterpret_cast<std::uintptr_t>(target.data());
    for (const Bytes bytes : {Bytes{1}, target.size(), target.size() + 1}) {
        process.operations.on_region_query(*peer, {5, base, bytes, kRemoteWrite, 0}, nullptr);
        process.sent(*peer);
        EXPECT_EQ(process.keys.id, 5u);
        EXPECT_EQ(process.keys.key_count, bytes <= target.size() ? 2u : 0u);
    }
    process.operations.on_region_query(*peer, {5, base, 8, kRemoteWrite, 0}, nullptr);
    process.sent(*peer);
    EXPECT_EQ(process.keys.keys[1], window.memory().remote_key(1));
    window.reset();
    process.operations.on_region_query(*peer, {5, base, 8, kRemoteWrite, 0}, nullptr);
    process.sent(*peer);
    EXPECT_EQ(process.keys.key_count, 0u);
}

TEST_F(OneSidedTest, AdvertisesWhoExecutesAtomics) {
    EXPECT_EQ(process.operations.advertised_access(kAll),
              kAll | OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED);
    EXPECT_EQ(process.operations.advertised_access(OPAL_COMMON_ADAPTIB_REMOTE_READ),
              +OPAL_COMMON_ADAPTIB_REMOTE_READ);
}

// Small operations on memory that is not registered: copied until their buffer is used often.
class BouncedTest : public OneSidedTest {
protected:
    static constexpr std::uint32_t kUses = 4; // from which on a buffer is registered
    static ExposedMemory::Options options() {
        ExposedMemory::Options options{.registration_cache = kGiB, .block_bytes = kBlock};
        options.frequent.mode = FrequentBuffersOptions::Mode::automatic;
        options.frequent.costs = [] {
            GatherCosts costs;
            costs.copy.fill(11);
            costs.lookup = 10;
            costs.handling = 100; // messages never pay
            costs.registration.fill(4 * kUses - 0.5);
            return costs;
        };
        return options;
    }
    Status start() { return start(request); }
    Status start(UserRequest& of) {
        return small.operations.start(*peer, put.what, nullptr, of, complete_now);
    }
    void set(std::byte ours, std::byte theirs) {
        std::fill(local.begin(), local.end(), ours);
        std::fill(target.begin(), target.end(), theirs);
    }
    std::uint64_t bounced() const { return there.counters.one_sided_bounced; }

    Process small{rails, {0, 2}, there.clock, there.counters, options()};
};

TEST_F(BouncedTest, AnUnknownBufferIsCopiedAndAFrequentOneIsNot) {
    for (const bool get : {false, true}) {
        SCOPED_TRACE(get);
        put.what.operation = get ? OPAL_COMMON_ADAPTIB_GET : OPAL_COMMON_ADAPTIB_PUT;
        put.what.local = local.data() + (get ? 2048 : 0);
        for (std::uint32_t use = 1; use <= 2 * kUses; ++use) {
            SCOPED_TRACE(use);
            set(std::byte{3}, std::byte{4});
            ASSERT_TRUE(start().ok());
            ASSERT_EQ(posted(), 1u);
            const void* const from = qp(used()).gathers[0].address;
            EXPECT_EQ(from == put.what.local, use >= kUses);
            execute();
            ASSERT_EQ(small.ended(), &request);
            EXPECT_EQ(request.bytes, kLength);
            const auto* const ours = static_cast<const std::byte*>(put.what.local);
            EXPECT_EQ(std::memcmp(ours, target.data(), kLength), 0);
            EXPECT_EQ(ours[kLength - 1], get ? std::byte{4} : std::byte{3});
            EXPECT_EQ(ours[kLength], std::byte{3});
            EXPECT_EQ(target[kLength], std::byte{4});
        }
    }
    EXPECT_EQ(bounced(), 2 * (kUses - 1));
    EXPECT_EQ(small.operations.under_way(), 0u);
}

TEST_F(BouncedTest, LongOperationsAndThoseBeyondTheBoundAreRegistered) {
    put.what.bytes = BounceBuffers::kBytes + 1;
    target.resize(put.what.bytes);
    put.remote.base = put.what.remote_address = reinterpret_cast<std::uintptr_t>(target.data());
    put.remote.bytes = target.size();
    ASSERT_TRUE(start().ok());
    EXPECT_EQ(qp(used()).gathers[0].address, local.data());
    execute();
    ASSERT_EQ(small.ended(), &request);
    std::vector<BounceBuffer> taken(BounceBuffers::kMost);
    for (BounceBuffer& each : taken) {
        ASSERT_TRUE(small.memory.bounce(0).take(each));
    }
    put.what.bytes = 64;
    ASSERT_TRUE(start().ok());
    EXPECT_EQ(qp(used()).gathers[0].address, local.data());
    EXPECT_EQ(bounced(), 0u);
    execute();
    ASSERT_EQ(small.ended(), &request);
    small.memory.bounce(0).give(taken.back());
    ASSERT_TRUE(start().ok());
    EXPECT_NE(qp(used()).gathers[0].address, local.data());
    EXPECT_EQ(bounced(), 1u);
    execute();
}

TEST_F(BouncedTest, AWaitingOperationKeepsItsCopy) {
    qp(0).room = qp(1).room = 0;
    set(std::byte{5}, std::byte{6});
    ASSERT_TRUE(start().ok());
    std::fill(local.begin(), local.end(), std::byte{9}); // is copied
    qp(0).room = qp(1).room = 8;
    small.engine.post_waiting();
    ASSERT_EQ(posted(), 1u);
    execute();
    EXPECT_EQ(small.ended(), &request);
    EXPECT_EQ(target[0], std::byte{5});
}

TEST_F(BouncedTest, AFailedGetLeavesTheBufferAlone) {
    put.what.operation = OPAL_COMMON_ADAPTIB_GET;
    qp(0).room = qp(1).room = 0;
    set(std::byte{5}, std::byte{6});
    ASSERT_TRUE(start().ok());
    peer->session.state = ConnectState::failed;
    small.engine.fail_waiting(*peer);
    EXPECT_EQ(small.ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(local[0], std::byte{5});
    EXPECT_EQ(small.operations.under_way(), 0u);
}

// A peer whose queue pair executes operations within the call.
class SynchronousTest : public testing::Test {
protected:
    SynchronousTest() {
        peer().transfers.synchronous = true;
        peer().transfers.whole_memory = process.memory.whole(0);
    }
    Peer& peer() { return *ends.there; }
    std::size_t executed() { return ends.initiators_qp().executed.size(); }

    TwoEnds ends;
    std::vector<Rail*> rails{&ends.rail};
    Process process{rails, {0, 1}, ends.clock, ends.counters};
    std::vector<std::byte> local = std::vector<std::byte>(64, std::byte{1});
    std::vector<std::byte> target = std::vector<std::byte>(64, std::byte{2});
    Operation put{OPAL_COMMON_ADAPTIB_PUT, target, local.data(), 64};
};

TEST_F(SynchronousTest, OperationsEndWithinTheCall) {
    EXPECT_TRUE(process.operations.try_rma(peer(), put.what, nullptr));
    EXPECT_EQ(target, local);
    EXPECT_EQ(ends.counters.rdma_write_bytes, 64u);
    Operation add{OPAL_COMMON_ADAPTIB_FETCH_ADD, target, local.data(), 8};
    add.what.operand = 1;
    EXPECT_TRUE(process.operations.try_rma(peer(), add.what, nullptr));
    EXPECT_EQ(target[0], std::byte{2});
    EXPECT_EQ(local[0], std::byte{1});
    EXPECT_EQ(executed(), 2u);
    put.remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ;
    EXPECT_FALSE(process.operations.try_rma(peer(), put.what, nullptr)) << "start() reports why";
    EXPECT_EQ(executed(), 2u);
}

TEST_F(SynchronousTest, NothingIsTriedInVain) {
    peer().transfers.synchronous = false;
    EXPECT_FALSE(process.operations.try_rma(peer(), put.what, nullptr));
    put.what.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD;
    put.what.bytes = 8;
    EXPECT_FALSE(process.operations.try_rma(peer(), put.what, nullptr));
    EXPECT_EQ(executed(), 0u);
}

} // namespace
} // namespace adaptib::test
