// SPDX-License-Identifier: BSD-3-Clause
// The shm fabric's rails, switched and slowed from outside, under a clock that only the test moves.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fabric/shm/layout.h"
#include "fabric/shm/segment.h"
#include "unit/fabric_shm/node.h"

namespace adaptib::test {
namespace {

// The state word of a node's rail, as tools/adaptib_rails changes it.
class RailWord {
public:
    RailWord(Node& node, std::uint32_t rail) {
        shm::WireAddress wire{};
        EXPECT_TRUE(shm::PeerSegment::decode(node.rail().address(), wire));
        at_ = mmap(nullptr, shm::kPage, PROT_READ | PROT_WRITE, MAP_SHARED,
                   static_cast<int>(wire.fd), 0);
        EXPECT_NE(at_, MAP_FAILED);
        word_ = &static_cast<shm::Header*>(at_)->rail[rail].word;
    }
    ~RailWord() { munmap(at_, shm::kPage); }
    void set(std::uint64_t value) { word_->store(value); }

private:
    void* at_;
    std::atomic<std::uint64_t>* word_;
};

// Two nodes in this process under a clock that only the test moves.
class Rails : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(a.ok && b.ok);
        add_pair();
    }
    void add_pair() {
        QueuePair* from = a.add_qp(QpType::rc);
        QueuePair* to = b.add_qp(QpType::rc);
        ASSERT_TRUE(Node::connect(*from, b.rail().address(), to->number()));
        ASSERT_TRUE(Node::connect(*to, a.rail().address(), from->number()));
    }
    // Posts a signaled write of `length` bytes of value 0xab to b's shared buffer.
    Status post(Bytes length) {
        std::memset(a.words.data(), 0xab, length);
        const Gather gather{a.words.data(), length, a.own->local_key()};
        SendWork work =
            Node::rdma(Opcode::write, gather, reinterpret_cast<std::uintptr_t>(b.shared->address()),
                       b.shared->remote_key());
        work.flags = kSignaled;
        return a.qps[0]->post_send(work);
    }
    std::size_t poll() { return a.cq->poll({&done, 1}); }
    unsigned first_byte() const { return *static_cast<unsigned char*>(b.shared->address()); }

    ManualClock clock;
    Node a{ShmOptions::SingleCopy::automatic, &clock, 2};
    Node b{ShmOptions::SingleCopy::automatic, &clock, 2};
    WorkCompletion done;
};

TEST_F(Rails, DownEndsWorkAfterTheRetriesAndNotBefore) {
    for (const bool own : {true, false}) {
        RailWord word(own ? a : b, 0);
        word.set(shm::kRailDown);
        EXPECT_FALSE(a.qps[0]->usable());
        ASSERT_TRUE(post(64).ok());
        const Nanoseconds all{2 * (4096ll << 10)}; // one try and one retry
        clock.advance(all - Nanoseconds{1000});
        EXPECT_EQ(poll(), 0u);
        word.set(0); // back in time
        EXPECT_EQ(poll(), 1u);
        EXPECT_EQ(done.status, WorkStatus::success);
        EXPECT_EQ(first_byte(), 0xabu);
        EXPECT_TRUE(a.qps[0]->usable());
    }
    RailWord word(b, 0);
    word.set(shm::kRailDown);
    ASSERT_TRUE(post(64).ok());
    ASSERT_TRUE(post(64).ok());
    EXPECT_EQ(poll(), 0u);
    clock.advance(Nanoseconds{2 * (4096ll << 10)});
    ASSERT_EQ(poll(), 1u);
    EXPECT_EQ(done.status, WorkStatus::retry_exceeded);
    ASSERT_EQ(poll(), 1u);
    EXPECT_EQ(done.status, WorkStatus::flushed);
    EXPECT_EQ(a.qps[0]->query().state, QpState::error);
}

TEST_F(Rails, EventsComeOncePerChangeAndNameTheRail) {
    Event event;
    EXPECT_FALSE(a.fabric->poll_event(event));
    RailWord word(a, 1);
    word.set(shm::kRailDown);
    ASSERT_TRUE(a.fabric->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_error);
    EXPECT_EQ(event.rail, 1u);
    EXPECT_EQ(a.rail(1).state(), PortState::down);
    EXPECT_EQ(a.rail(0).state(), PortState::active);
    EXPECT_FALSE(a.fabric->poll_event(event));
    word.set(0);
    ASSERT_TRUE(a.fabric->poll_event(event));
    EXPECT_EQ(event.kind, EventKind::port_active);
    EXPECT_FALSE(a.fabric->poll_event(event));
    EXPECT_FALSE(b.fabric->poll_event(event));
    EXPECT_TRUE(a.qps[0]->usable()) << "it is on the other rail";
}

TEST_F(Rails, AGuardShutsWithinAPollForOurRailAndWithALookForEventsForAPeers) {
    Event event;
    for (const bool own : {true, false}) {
        for (const std::uint64_t fault : {shm::kRailDown, std::uint64_t{1'000'000}}) {
            const FastPathGuard guard = a.qps[0]->fast_path_guard();
            ASSERT_TRUE(guard.open());
            RailWord word(own ? a : b, 0);
            word.set(fault);
            if (own) {
                poll();
            } else {
                a.fabric->poll_event(event);
            }
            EXPECT_FALSE(guard.open());
            EXPECT_FALSE(a.qps[0]->fast_path_guard().open()) << "nor is a new one";
            word.set(0);
            while (a.fabric->poll_event(event)) {
            }
            EXPECT_TRUE(guard.open());
        }
    }
}

TEST_F(Rails, AGuardShutsWithEitherQueuePair) {
    add_pair();
    const FastPathGuard guard = a.qps[0]->fast_path_guard();
    const FastPathGuard other = a.qps[1]->fast_path_guard();
    QpAttributes attributes;
    attributes.state = QpState::error;
    ASSERT_TRUE(b.qps[0]->modify(attributes, kQpState).ok());
    EXPECT_FALSE(guard.open()) << "the target's says so itself";
    EXPECT_FALSE(a.qps[0]->fast_path_guard().open());
    EXPECT_FALSE(b.qps[0]->fast_path_guard().open()) << "it is in error";
    ASSERT_TRUE(other.open());
    // While one of this process's queue pairs is broken, all of its guards are shut.
    const auto fail_and = [&](QueuePair& qp, auto&& end) {
        attributes.state = QpState::error;
        ASSERT_TRUE(qp.modify(attributes, kQpState).ok());
        EXPECT_FALSE(other.open());
        poll();
        EXPECT_FALSE(other.open());
        EXPECT_TRUE(a.qps[1]->usable());
        end();
        poll();
        EXPECT_TRUE(other.open());
    };
    fail_and(*a.qps[0], [&] {
        attributes.state = QpState::reset;
        ASSERT_TRUE(a.qps[0]->modify(attributes, kQpState).ok());
    });
    add_pair();
    fail_and(*a.qps[2], [&] { a.qps.pop_back(); });
}

TEST_F(Rails, ThePollHintTellsOfWhatHasComeAndOfWhatIsLeft) {
    const PollHint* poll_hint = a.fabric->poll_hint();
    ASSERT_NE(poll_hint, nullptr);
    EXPECT_EQ(poll(), 0u);
    EXPECT_TRUE(poll_hint->idle());
    // A message has come.
    ASSERT_TRUE(a.qps[0]->post_receive({}).ok());
    SendWork send;
    send.opcode = Opcode::send;
    ASSERT_TRUE(b.qps[0]->post_send(send).ok());
    EXPECT_FALSE(poll_hint->idle());
    EXPECT_EQ(poll(), 1u);
    poll();
    EXPECT_TRUE(poll_hint->idle());
    // Two completions are left to take, one by one.
    ASSERT_TRUE(post(64).ok());
    ASSERT_TRUE(post(64).ok());
    EXPECT_FALSE(poll_hint->idle());
    EXPECT_EQ(poll(), 1u);
    EXPECT_FALSE(poll_hint->idle());
    EXPECT_EQ(poll(), 1u);
    poll();
    EXPECT_TRUE(poll_hint->idle());
    // A request waits for a slowed rail.
    RailWord word(b, 0);
    word.set(1'000'000);
    ASSERT_TRUE(post(1000).ok());
    EXPECT_EQ(poll(), 0u);
    EXPECT_FALSE(poll_hint->idle());
    word.set(0);
    EXPECT_EQ(poll(), 1u);
}

TEST_F(Rails, SlowedWorkIsNeitherDoneNorVisibleEarly) {
    RailWord word(b, 0);
    word.set(1'000'000); // bytes per second
    EXPECT_FALSE(a.qps[0]->usable());
    ASSERT_TRUE(post(100'000).ok()); // 100 ms each
    ASSERT_TRUE(post(100'000).ok());
    clock.advance(Nanoseconds{99'999'000});
    EXPECT_EQ(poll(), 0u);
    EXPECT_EQ(first_byte(), 0u);
    clock.advance(Nanoseconds{1'000});
    EXPECT_EQ(poll(), 1u);
    EXPECT_EQ(first_byte(), 0xabu);
    clock.advance(Nanoseconds{99'999'000});
    EXPECT_EQ(poll(), 0u) << "one after the other";
    word.set(0);
    EXPECT_EQ(poll(), 1u) << "no longer slowed";
    EXPECT_EQ(done.status, WorkStatus::success);
}

// Datagrams from a to b.
class Datagrams : public Rails {
protected:
    void SetUp() override {
        Rails::SetUp();
        from_ = a.add_qp(QpType::ud);
        to_ = b.add_qp(QpType::ud);
        QpAttributes attributes;
        attributes.access_key = 4;
        for (QueuePair* qp : {from_, to_}) {
            attributes.state = QpState::init;
            ASSERT_TRUE(qp->modify(attributes, kQpState | kQpKey).ok());
            attributes.state = QpState::ready_to_receive;
            ASSERT_TRUE(qp->modify(attributes, kQpState).ok());
            attributes.state = QpState::ready_to_send;
            ASSERT_TRUE(qp->modify(attributes, kQpState | kQpSendPsn).ok());
        }
        ASSERT_TRUE(a.rail().create_ah({b.rail().address()}, a.ah).ok());
    }
    Status send(std::uint32_t number, const Gather& gather, std::uint32_t flags = 0) {
        SendWork work = Node::rdma(Opcode::send_imm, gather, 0, 0);
        work.flags = kSignaled | flags;
        work.immediate = number;
        work.address_handle = a.ah.get();
        work.remote_qp = to_->number();
        work.remote_access_key = 4;
        return from_->post_send(work);
    }
    bool sent() { return poll() == 1 && done.status == WorkStatus::success; }
    // Posts a receive; returns true if a datagram comes into it.
    bool receive() {
        const Gather room{b.words.data(), 4096, b.own->local_key()};
        return to_->post_receive({1, &room, 1}).ok() && b.cq->poll({&done, 1}) == 1;
    }
    bool receives() { return b.cq->poll({&done, 1}) == 1; }

    QueuePair* from_ = nullptr;
    QueuePair* to_ = nullptr;
};

TEST_F(Datagrams, VanishOnARailThatIsDown) {
    const Gather gather{a.words.data(), 8, a.own->local_key()};
    RailWord word(b, 0);
    word.set(shm::kRailDown);
    EXPECT_TRUE(send(1, gather).ok() && sent());
    word.set(0);
    EXPECT_TRUE(send(2, gather).ok() && sent());
    ASSERT_TRUE(receive());
    EXPECT_EQ(done.immediate, 2u);
    EXPECT_FALSE(receives());
}

TEST_F(Datagrams, ThatWaitKeepTheBytesThatTheyWerePostedWith) {
    RailWord word(b, 0);
    word.set(1'000'000); // bytes per second
    std::vector<std::uint64_t> bytes{5, 6};
    ASSERT_TRUE(send(1, {bytes.data(), 16, 0}, kInline).ok());
    bytes = {0, 0};
    EXPECT_FALSE(receive());
    clock.advance(Nanoseconds{16'000});
    EXPECT_TRUE(sent());
    ASSERT_TRUE(receives());
    EXPECT_EQ(done.length, 16u);
    EXPECT_EQ(b.words[0], 5u);
    EXPECT_EQ(b.words[1], 6u);
}

// They wait for the receiver's queue as for the rail, and arrive once each.
TEST_F(Datagrams, ThatWaitGoOnceThereIsRoom) {
    const Gather gather{a.words.data(), 2048, a.own->local_key()};
    std::uint32_t count = 0;
    while (send(count, gather).ok()) {
        ASSERT_TRUE(sent());
        ASSERT_LT(++count, 10'000u);
    }
    RailWord word(b, 0);
    word.set(1'000'000'000);
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(send(count + i, gather).ok());
    }
    clock.advance(kLong);
    EXPECT_FALSE(sent()) << "there is no room yet";
    for (std::uint32_t next = 0; next < count + 3; ++next) {
        ASSERT_TRUE(receive() || (sent() && receives())) << next << " of " << count;
        ASSERT_EQ(done.immediate, next);
    }
    EXPECT_FALSE(receive());
}

} // namespace
} // namespace adaptib::test
