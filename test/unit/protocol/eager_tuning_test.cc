// SPDX-License-Identifier: BSD-3-Clause
// EagerTuning: what timed copies and timed streams teach, and the way that messages then take.
#include "protocol/eager_tuning.h"

#include <gtest/gtest.h>

#include <memory>

#include "unit/protocol/two_ends.h"

namespace adaptib::test {
namespace {

constexpr Bytes kStart = 4096;
constexpr Bytes kMost = 65536;
constexpr Bytes kLong = 16384;

class Tuning : public testing::Test {
protected:
    Tuning() {
        fill_ring();
        begin(Nanoseconds{-1}); // the longer way costs nothing
    }
    // `single`: the time of a message from buffer to buffer.
    void begin(Nanoseconds single) {
        CopyCosts costs;
        costs.single.fill(single);
        peer.flow.learnt_limit = std::make_unique<EagerLimit>(costs, kStart, kMost);
        peer.flow.stream_choices = std::make_unique<StreamChoices>();
        peer.flow.eager_limit = kStart;
    }
    // Writes until the ring begins anew: only then copies are timed.
    void fill_ring() {
        while (!peer.out.ring->lapped()) {
            ASSERT_NE(peer.reserve_in_ring(1000), nullptr);
            MessageHeader header;
            header.type = MessageType::eager;
            header.length = 1000;
            ASSERT_TRUE(peer.commit_in_ring(header).ok());
            ends.look_at_ring();
        }
    }
    void answer() { ++peer.in.next_receive; }
    bool send(Bytes bytes) {
        return tuning.send(peer, bytes, [this] { return has_room; });
    }
    bool send_active(Bytes bytes) {
        return tuning.send_active(peer, bytes, [this] { return has_room; });
    }
    // Sends a stream, which an answer ends; each message takes the time of its way. Returns how
    // many went through the ring.
    int stream(Bytes bytes, Nanoseconds through_ring, Nanoseconds fetched) {
        int through = 0;
        for (int message = 0; message < 12; ++message) {
            const bool now = send(bytes);
            clock.advance(now ? through_ring : fetched);
            through += now ? 1 : 0;
        }
        answer();
        return through;
    }

    TwoEnds ends;
    Peer& peer = *ends.there;
    ManualClock clock; // stands still: a copy into the ring takes no time
    Counters counters;
    EagerTuning tuning{clock, kStart, counters};
    bool has_room = true;
};

TEST_F(Tuning, CheapCopiesRaiseTheLimit) {
    begin(Nanoseconds{1000});
    for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(send(kStart));
        answer();
    }
    EXPECT_GE(counters.copies_timed, 7u);
    EXPECT_EQ(peer.flow.eager_limit, kMost);
    EXPECT_EQ(counters.eager_limit_bytes, kMost);
    EXPECT_EQ(tuning.active_eager(), kMost);
    EXPECT_TRUE(send(kMost));
}

TEST_F(Tuning, DearCopiesLeaveItWhereItIs) {
    int through = 0;
    for (int i = 0; i < 600; ++i) {
        through += send(kLong) ? 1 : 0;
        answer();
    }
    EXPECT_EQ(peer.flow.eager_limit, kStart);
    EXPECT_GT(through, 0) << "some are tried";
    EXPECT_LT(through, 20);
    EXPECT_EQ(counters.copies_timed, static_cast<std::uint64_t>(through));
}

TEST_F(Tuning, ACopyWithoutRoomTeachesNothing) {
    has_room = false;
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(send(kStart));
        EXPECT_FALSE(send_active(kStart));
    }
    EXPECT_EQ(counters.copies_timed, 0u);
}

TEST_F(Tuning, AThirdMessageIsAStream) {
    EXPECT_FALSE(send(kLong));
    EXPECT_FALSE(send(kLong));
    EXPECT_TRUE(send(kLong));
    EXPECT_TRUE(send(kLong));
    answer();
    EXPECT_FALSE(send(kLong)) << "it is over";
    EXPECT_FALSE(send(kLong));
    ++peer.flow.fins_received; // as a FIN is, which says only that a message was fetched
    answer();
    EXPECT_TRUE(send(kLong));
}

TEST_F(Tuning, StreamsGoTheWayThatIsFaster) {
    const Nanoseconds three{3000};
    const Nanoseconds four{4000};
    const auto last_of = [&](Nanoseconds through_ring, Nanoseconds fetched) {
        int last = 0;
        for (int i = 0; i < 60; ++i) {
            last = stream(kLong, through_ring, fetched);
        }
        return last;
    };
    EXPECT_GE(last_of(three, four), 10);
    EXPECT_GE(counters.streams_timed, 8u);
    begin(Nanoseconds{-1});
    EXPECT_LE(last_of(four, three), 2);
    EXPECT_EQ(peer.flow.eager_limit, kStart) << "latency is another matter";
}

TEST_F(Tuning, ADeclinedActiveMessageIsTriedNowAndThen) {
    int declined = 0;
    while (tuning.active_eager() < kLong && declined < 100) {
        tuning.on_active_declined(peer, kLong);
        answer();
        ++declined;
    }
    EXPECT_EQ(tuning.active_eager(), kMost) << "to be tried";
    EXPECT_EQ(declined, 8);
    EXPECT_TRUE(send_active(kLong));
    EXPECT_EQ(counters.copies_timed, 1u);
    EXPECT_EQ(tuning.active_eager(), kStart);
    tuning.on_active_declined(peer, kMost + 1);
    tuning.on_active_declined(peer, kStart);
    EXPECT_EQ(peer.flow.stream.sent, 1u) << "neither can go both ways";
}

TEST_F(Tuning, AStreamRaisesTheActiveLimitUntilItIsOver) {
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(tuning.active_eager(), kStart);
        tuning.on_active_declined(peer, kLong);
    }
    EXPECT_EQ(tuning.active_eager(), kMost);
    EXPECT_TRUE(send_active(kLong));
    EXPECT_EQ(tuning.active_eager(), kMost);
    answer();
    EXPECT_TRUE(send_active(kLong));
    EXPECT_EQ(tuning.active_eager(), kStart);
}

} // namespace
} // namespace adaptib::test
