// SPDX-License-Identifier: BSD-3-Clause
// EmulatedAtomics: an atomic is executed once, by the target, if its word lies in a window; its
// request ends once, whatever becomes of the peer.
#include "protocol/emulated_atomics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "unit/messages.h"
#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kTarget = 7; // TwoEnds' name of the process that `there` and `here` mean
constexpr std::uint64_t kInitiator = 8;

// A process: its atomics, and the messages that it has sent to a peer.
class Process final {
public:
    Process(std::uint64_t self, Peer& to)
        : to_(to), held_(counters), atomics(self, windows, held_.pool, epochs, keys_, held_.flow,
                                            held_.completions, counters) {
        held_.hold(to);
    }

    // The messages that have not been delivered.
    std::vector<HeldMessage>& sent() {
        for (HeldMessage& each : held_.take(to_)) {
            sent_.push_back(std::move(each));
        }
        return sent_;
    }
    UserRequest* ended() { return held_.ended(); }

    std::vector<std::string> failures;
    Counters counters;
    WindowTable windows;
    FlushEpochs epochs;

private:
    Peer& to_;
    std::vector<HeldMessage> sent_;
    RegionKeys keys_{{}, counters, messages_into(failures)};
    HeldFlow held_;

public:
    EmulatedAtomics atomics;
};

class Atomics : public testing::Test {
protected:
    Atomics() {
        EXPECT_TRUE(
            target.windows.open(window, rails, words, sizeof words, kLocalWrite | kRemoteAtomic)
                .ok());
        remote.base = reinterpret_cast<std::uintptr_t>(words);
        remote.bytes = sizeof words;
        remote.access = OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC | OPAL_COMMON_ADAPTIB_ATOMICS_EMULATED;
        window.memory().copy_remote_keys(remote.keys);
        remote.key_count = window.memory().key_count();
        add.operation = OPAL_COMMON_ADAPTIB_FETCH_ADD;
        add.local = &old;
        add.remote = &remote;
        add.remote_address = reinterpret_cast<std::uintptr_t>(&words[1]);
        add.bytes = sizeof old;
        add.operand = 5;
    }
    Peer& peer() { return *ends.there; }
    // Delivers what one process has sent to the other.
    void deliver(Process& from, Process& to) {
        for (const HeldMessage& message : std::exchange(from.sent(), {})) {
            if (message.type == MessageType::atomic) {
                to.atomics.on_atomic(*ends.here, read_body<AtomicBody>(message.body.data()));
            } else {
                ASSERT_EQ(message.type, MessageType::atomic_done);
                to.atomics.on_atomic_done(peer(), read_body<AtomicDoneBody>(message.body.data()));
            }
        }
    }
    void exchange() {
        deliver(initiator, target);
        deliver(target, initiator);
    }
    bool start() {
        bool complete = true;
        EXPECT_TRUE(
            initiator.atomics.start(peer(), add, Opcode::fetch_add, request, complete).ok());
        return complete;
    }
    // Returns the only request that has ended since the last call; null: none has.
    UserRequest* ended() { return initiator.ended(); }

    TwoEnds ends;
    HostRail rail;
    std::vector<Rail*> rails{&rail};
    Process initiator{kInitiator, *ends.there};
    Process target{kTarget, *ends.here};
    OpenWindow window;
    alignas(8) std::uint64_t words[3] = {100, 200, 300};
    std::uint64_t old = 0;
    opal_common_adaptib_remote_t remote{};
    opal_common_adaptib_one_sided_t add{};
    UserRequest request{};
};

TEST_F(Atomics, TheTargetExecutesAndAnswers) {
    EXPECT_FALSE(start());
    EXPECT_EQ(initiator.atomics.under_way(), 1u);
    EXPECT_EQ(initiator.epochs.under_way(), 1u);
    EXPECT_EQ(peer().transfers.one_sided, 1u);
    std::size_t peers = 0;
    initiator.atomics.for_each_peer([&](const Peer& each) { peers += &each == &peer() ? 1 : 0; });
    EXPECT_EQ(peers, 1u);
    exchange();
    EXPECT_EQ(words[1], 205u);
    EXPECT_EQ(old, 200u);
    EXPECT_EQ(ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(request.bytes, 8u);
    EXPECT_EQ(initiator.atomics.under_way() + initiator.epochs.under_way() +
                  peer().transfers.one_sided,
              0u);
    EXPECT_EQ(target.counters.operations_served, 1u);
}

TEST_F(Atomics, AWordOutsideEveryWindowIsRefused) {
    add.remote_address += sizeof words;
    EXPECT_FALSE(start());
    exchange();
    EXPECT_EQ(ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(target.counters.bad_packets, 1u);
    EXPECT_EQ(initiator.failures.size(), 1u);
}

TEST_F(Atomics, AnAnswerCountsOnce) {
    EXPECT_FALSE(start());
    deliver(initiator, target);
    target.sent().push_back(target.sent().front());
    deliver(target, initiator);
    EXPECT_EQ(ended(), &request);
    EXPECT_EQ(ended(), nullptr);
    EXPECT_EQ(initiator.counters.bad_packets, 1u);
}

TEST_F(Atomics, IsSentWhenTheDisconnectIsOver) {
    peer().session.disconnect_sent = true;
    EXPECT_FALSE(start());
    EXPECT_TRUE(initiator.sent().empty());
    peer().session.disconnect_sent = false;
    initiator.atomics.send_queued(peer());
    initiator.atomics.send_queued(peer());
    EXPECT_EQ(initiator.sent().size(), 1u);
    exchange();
    EXPECT_EQ(ended(), &request);
}

TEST_F(Atomics, APeerThatIsLostEndsIt) {
    EXPECT_FALSE(start());
    initiator.atomics.fail(*ends.here); // another peer
    EXPECT_EQ(ended(), nullptr);
    initiator.atomics.fail(peer());
    EXPECT_EQ(ended(), &request);
    EXPECT_EQ(request.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    exchange();
    EXPECT_EQ(ended(), nullptr);
}

TEST_F(Atomics, OnesOwnMemoryNeedsNoMessage) {
    bool complete = false;
    ASSERT_TRUE(target.atomics.start(peer(), add, Opcode::fetch_add, request, complete).ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(words[1], 205u);
    EXPECT_EQ(old, 200u);
    add.compare = 205;
    add.operand = 7;
    add.operation = OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    EXPECT_TRUE(target.atomics.execute_here(add, Opcode::compare_swap));
    EXPECT_EQ(words[1], 7u);
    window.reset();
    EXPECT_FALSE(target.atomics.execute_here(add, Opcode::compare_swap));
    EXPECT_EQ(target.atomics.start(peer(), add, Opcode::compare_swap, request, complete),
              Status::error(Reason::bad_key));
    EXPECT_TRUE(target.sent().empty());
}

} // namespace
} // namespace adaptib::test
