// SPDX-License-Identifier: BSD-3-Clause
// Numbers, acknowledgements and retransmission of one peer's datagrams; then two links joined by a
// wire that loses, doubles and reorders.
#include "channel/datagram_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/random.h"
#include "channel/datagram.h"

namespace adaptib {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class Link : public testing::Test {
protected:
    void acknowledged(std::uint32_t before, std::uint32_t bits, Nanoseconds now) {
        link.acknowledged(before, bits, now,
                          [this](std::uint32_t slot) { released.push_back(slot); });
    }
    std::uint32_t to_repeat(Nanoseconds now) { return link.to_repeat(now, tries); }

    DatagramTarget target;
    DatagramLink link{target};
    std::vector<std::uint32_t> released;
    std::uint32_t tries = 0;
};

TEST_F(Link, KeepsWhatIsNotAcknowledged) {
    const Nanoseconds now{0};
    for (std::uint32_t i = 0; i < DatagramLink::kWindow; ++i) {
        ASSERT_TRUE(link.may_send());
        EXPECT_EQ(link.add(100 + i, now), 1 + i);
    }
    EXPECT_FALSE(link.may_send());
    acknowledged(3, 0, now); // 1 and 2
    EXPECT_EQ(released, (std::vector<std::uint32_t>{100, 101}));
    EXPECT_TRUE(link.may_send());
    acknowledged(3, 0b101, now); // and 4 and 6
    EXPECT_EQ(released, (std::vector<std::uint32_t>{100, 101, 103, 105}));
    acknowledged(3, 0b101, now);
    EXPECT_EQ(released.size(), 4u) << "once";
    acknowledged(7, 0, now);
    EXPECT_EQ(released, (std::vector<std::uint32_t>{100, 101, 103, 105, 102, 104}));
    acknowledged(17, 0, now);
    EXPECT_EQ(released.size(), DatagramLink::kWindow);
    EXPECT_FALSE(link.unacknowledged());
}

TEST_F(Link, APeerThatIsGivenUpIsOwedNothing) {
    link.add(100, Nanoseconds{0});
    EXPECT_TRUE(link.arrived(1, Nanoseconds{0}));
    link.drop_all([this](std::uint32_t slot) { released.push_back(slot); });
    EXPECT_EQ(released, std::vector<std::uint32_t>{100});
    EXPECT_FALSE(link.busy());
    EXPECT_EQ(link.deadline(), Nanoseconds::max());
}

TEST_F(Link, ABufferIsLentForALimitedTime) {
    std::vector<std::uint32_t> copied;
    const auto end_loans = [&](Nanoseconds now) {
        link.end_loans(
            now, [](std::uint32_t slot) { return slot != 101; },
            [&](std::uint32_t slot) { copied.push_back(slot); });
    };
    constexpr Nanoseconds kLater = DatagramLink::kLoan / 2;
    link.add(100, Nanoseconds{0});
    link.lend(Nanoseconds{0});
    EXPECT_EQ(link.deadline(), DatagramLink::kLoan) << "before it is sent again";
    link.add(101, Nanoseconds{0}); // copied
    link.add(102, kLater);
    link.lend(kLater);
    end_loans(DatagramLink::kLoan - Nanoseconds{1});
    EXPECT_TRUE(copied.empty());
    end_loans(DatagramLink::kLoan);
    EXPECT_EQ(copied, std::vector<std::uint32_t>{100});
    EXPECT_EQ(link.deadline(), kLater + DatagramLink::kLoan);
    acknowledged(4, 0, kLater);
    end_loans(kLater + DatagramLink::kLoan);
    EXPECT_EQ(copied.size(), 1u) << "nothing is lent any more";
    link.add(103, 4 * kLater);
    link.lend(4 * kLater);
    EXPECT_EQ(link.deadline(), 6 * kLater);
}

TEST_F(Link, WhatIsOwedLongEnoughIsDueAtOnce) {
    const Nanoseconds now{0};
    for (std::uint32_t i = 1; i < DatagramLink::kAckEvery; ++i) {
        EXPECT_TRUE(link.arrived(i, now));
        EXPECT_GT(link.deadline(), now) << i;
    }
    EXPECT_TRUE(link.arrived(DatagramLink::kAckEvery, now));
    EXPECT_EQ(link.deadline(), Nanoseconds{0});
}

// If nothing has gone to the peer since its previous datagram came, no message is in sight that
// would carry the acknowledgment.
TEST_F(Link, AnAcknowledgementThatFindsNoRoomIsTriedAgainLater) {
    for (std::uint32_t number = 1; number <= DatagramLink::kAckEvery; ++number) {
        EXPECT_TRUE(link.arrived(number, Nanoseconds{0}));
    }
    EXPECT_TRUE(link.ack_due(Nanoseconds{0}));
    link.put_off(Nanoseconds{0});
    EXPECT_FALSE(link.ack_due(DatagramLink::kLeastTimeout - Nanoseconds{1}));
    EXPECT_TRUE(link.ack_due(DatagramLink::kLeastTimeout));
}

TEST_F(Link, OwesAloneWhatNothingElseWillCarry) {
    const Nanoseconds now{0};
    EXPECT_FALSE(link.owes_alone());
    EXPECT_TRUE(link.arrived(1, now));
    EXPECT_TRUE(link.owes_alone()) << "the first contact";
    link.told();
    EXPECT_FALSE(link.owes_alone());
    EXPECT_TRUE(link.arrived(2, now));
    EXPECT_TRUE(link.owes_alone()) << "a stream";
    link.add(7, now);
    link.told();
    EXPECT_TRUE(link.arrived(3, now));
    EXPECT_FALSE(link.owes_alone()) << "they exchange messages: the next carries it";
    EXPECT_TRUE(link.arrived(4, now));
    EXPECT_TRUE(link.owes_alone()) << "no more";
}

// A peer that is known to live but not to listen gets missing datagrams ever more rarely meanwhile.
TEST_F(Link, RestsWhileThePeerDoesNotListen) {
    Nanoseconds now{0};
    link.add(7, now);
    std::vector<Nanoseconds> sent;
    while (now < std::chrono::minutes{10}) {
        now = link.deadline();
        if (to_repeat(now) == 7) {
            sent.push_back(now);
            link.rest(now);
        }
    }
    EXPECT_LT(sent.size(), 100u);
    EXPECT_GT(sent.size(), 60u);
    EXPECT_LE(sent.back() - sent[sent.size() - 2], DatagramLink::kMostRest);
    // Once the peer listens again, it gets what it has not acknowledged without delay.
    link.listens(now);
    EXPECT_LE(link.deadline(), now + DatagramLink::kFirstTimeout);
    link.listens(now + milliseconds(5)); // has no effect a second time
    EXPECT_LE(link.deadline(), now + DatagramLink::kFirstTimeout);
}

TEST_F(Link, NonsenseIsNotTakenForAnAcknowledgement) {
    link.add(1, Nanoseconds{0});
    acknowledged(5, 0, Nanoseconds{0}); // numbers that were never sent
    acknowledged(1, 0xffff'fffeu, Nanoseconds{0});
    EXPECT_TRUE(released.empty());
    EXPECT_TRUE(link.unacknowledged());
}

// It has one bit for each of 32 datagrams.
TEST_F(Link, AnAcknowledgementThatComesLateSaysNothingOfLaterDatagrams) {
    const Nanoseconds now{0};
    for (std::uint32_t i = 1; i < 40; ++i) {
        link.add(i, now);
        acknowledged(i + 1, 0, now);
    }
    link.add(40, now);
    acknowledged(7, 0b1, now); // 8, but not 40
    EXPECT_EQ(released.size(), 39u);
    EXPECT_TRUE(link.unacknowledged());
}

// An acknowledgement that no state of a receiver gives. What it acknowledges has left its slot.
TEST_F(Link, TheOldestIsNotRepeatedOnceItIsAcknowledged) {
    link.add(100, Nanoseconds{0});
    link.add(101, Nanoseconds{0});
    link.add(102, Nanoseconds{0});
    acknowledged(2, 0, Nanoseconds{0});   // 1
    acknowledged(1, 0b1, Nanoseconds{0}); // not 1, but 2
    EXPECT_EQ(released, (std::vector<std::uint32_t>{100, 101}));
    EXPECT_EQ(to_repeat(milliseconds{1000}), 102u);
    acknowledged(1, 0b10, Nanoseconds{0}); // 3
    EXPECT_FALSE(link.unacknowledged());
    EXPECT_EQ(to_repeat(std::chrono::minutes{1}), DatagramLink::kNone);
}

TEST_F(Link, TheOldestIsRepeatedWithGrowingIntervals) {
    link.add(7, Nanoseconds{0});
    link.add(8, Nanoseconds{0});
    EXPECT_EQ(link.deadline(), DatagramLink::kFirstTimeout);
    EXPECT_EQ(to_repeat(DatagramLink::kFirstTimeout - Nanoseconds{1}), DatagramLink::kNone);
    Nanoseconds now = DatagramLink::kFirstTimeout;
    Nanoseconds interval = DatagramLink::kFirstTimeout;
    for (std::uint32_t i = 2; i < 12; ++i) {
        EXPECT_EQ(to_repeat(now), 7u);
        EXPECT_EQ(tries, i);
        interval = std::min(2 * interval, DatagramLink::kMostTimeout);
        EXPECT_EQ(link.deadline(), now + interval);
        now = link.deadline();
    }
    acknowledged(2, 0, now); // an acknowledgment resets the backoff
    EXPECT_EQ(to_repeat(now), 8u);
    EXPECT_EQ(link.deadline(), now + 2 * DatagramLink::kFirstTimeout);
}

// A process that computes has room for few datagrams: what came before the repeat is lost.
TEST_F(Link, AWindowThatIsLostGoesOutAsEachIsAcknowledged) {
    for (std::uint32_t i = 0; i < DatagramLink::kWindow; ++i) {
        link.add(i, Nanoseconds{0});
    }
    Nanoseconds now = DatagramLink::kFirstTimeout;
    for (std::uint32_t i = 0; i < DatagramLink::kWindow; ++i) {
        EXPECT_EQ(to_repeat(now), i);
        EXPECT_EQ(to_repeat(now), DatagramLink::kNone);
        now += milliseconds{1};
        acknowledged(i + 2, 0, now);
    }
    EXPECT_FALSE(link.unacknowledged());
}

// It may still be under way.
TEST_F(Link, WhatWasSentAfterARepeatWaitsForTheTimer) {
    link.add(100, Nanoseconds{0});
    const Nanoseconds now = DatagramLink::kFirstTimeout;
    EXPECT_EQ(to_repeat(now), 100u);
    link.add(101, now);
    acknowledged(2, 0, now);
    EXPECT_EQ(to_repeat(now), DatagramLink::kNone);
}

TEST_F(Link, AGapIsFilledWithoutWaiting) {
    for (std::uint32_t i = 0; i < 3; ++i) {
        link.add(i, Nanoseconds{0});
    }
    acknowledged(1, 0b10, milliseconds{1}); // number 3 has arrived
    EXPECT_EQ(to_repeat(milliseconds{1}), 0u);
    acknowledged(1, 0b11, milliseconds{2});
    EXPECT_EQ(to_repeat(milliseconds{2}), DatagramLink::kNone)
        << "repeated once, now the timer's turn";
}

TEST_F(Link, TheFirstOfTwoIsRepeatedOnceTheSecondIsThere) {
    link.add(100, Nanoseconds{0});
    link.add(101, Nanoseconds{0});
    acknowledged(1, 0b1, milliseconds{1});
    EXPECT_EQ(to_repeat(milliseconds{1}), 100u);
}

TEST_F(Link, TheTimeoutFollowsTheRoundTrip) {
    Nanoseconds now{0};
    for (std::uint32_t i = 0; i < 50; ++i) {
        link.add(i, now);
        now += milliseconds{20};
        acknowledged(i + 2, 0, now);
    }
    link.add(99, now);
    EXPECT_GE(link.deadline() - now, milliseconds{20});
    EXPECT_LE(link.deadline() - now, milliseconds{25});
}

TEST_F(Link, DuplicatesAreToldApart) {
    const Nanoseconds now{0};
    for (const std::uint32_t number : {1u, 3u, 4u, 2u, 6u}) {
        EXPECT_TRUE(link.arrived(number, now)) << number;
        EXPECT_FALSE(link.arrived(number, now)) << number;
    }
    EXPECT_EQ(link.expected(), 5u);
    EXPECT_EQ(link.bits(), 1u);
    EXPECT_FALSE(link.arrived(200, now)) << "too far ahead";
    EXPECT_TRUE(link.arrived(5, now));
    EXPECT_EQ(link.expected(), 7u);
    EXPECT_EQ(link.bits(), 0u);
}

TEST_F(Link, AcknowledgementsWaitForOneAnotherALittle) {
    EXPECT_EQ(link.deadline(), Nanoseconds::max());
    EXPECT_TRUE(link.arrived(1, microseconds{5}));
    EXPECT_FALSE(link.ack_due(microseconds{5}));
    EXPECT_EQ(link.deadline(), microseconds{5} + DatagramLink::kAckDelay);
    EXPECT_TRUE(link.ack_due(microseconds{5} + DatagramLink::kAckDelay));
    link.told();
    EXPECT_EQ(link.deadline(), Nanoseconds::max());
    EXPECT_TRUE(link.arrived(3, microseconds{6}));
    EXPECT_TRUE(link.ack_due(microseconds{6})) << "a gap is told at once";
    link.told();
    EXPECT_FALSE(link.arrived(1, microseconds{7}));
    EXPECT_TRUE(link.ack_due(microseconds{7})) << "the sender does not know";
}

// Sends 2000 datagrams through a bad wire: the link hands each on once, however often it arrives.
TEST(LinkPair, EveryDatagramOnceThroughABadWire) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        Random random(seed);
        DatagramTarget target;
        DatagramLink sender(target);
        DatagramLink receiver(target);
        struct Packet {
            std::uint32_t number;
            std::uint32_t before;
            std::uint32_t bits;
        };
        std::multimap<Nanoseconds, Packet> to_receiver;
        std::multimap<Nanoseconds, Packet> to_sender;
        std::map<std::uint32_t, std::uint32_t> number_of; // datagram number of each slot
        std::vector<std::uint32_t> free;
        for (std::uint32_t i = 0; i < 64; ++i) {
            free.push_back(i);
        }
        Nanoseconds now{0};
        const auto put = [&](auto& wire, const Packet& packet) {
            for (int copies = static_cast<int>(random.below(10)); copies > 0; copies /= 4) {
                if (random.below(10) != 0) {
                    wire.emplace(now + microseconds{2 + random.below(40)}, packet);
                }
            }
        };
        constexpr std::uint32_t kCount = 500;
        std::vector<std::uint32_t> got(kCount + 1, 0);
        std::uint32_t sent = 0;
        std::uint32_t over = 0;
        while (over < kCount && now < std::chrono::seconds{1000}) {
            if (sent < kCount && sender.may_send() && !free.empty()) {
                const std::uint32_t slot = free.back();
                free.pop_back();
                number_of[slot] = sender.add(slot, now);
                put(to_receiver, {number_of[slot], 0, 0});
                ++sent;
                continue;
            }
            Nanoseconds next = std::min(sender.deadline(), receiver.deadline());
            for (const auto* wire : {&to_receiver, &to_sender}) {
                next = wire->empty() ? next : std::min(next, wire->begin()->first);
            }
            ASSERT_NE(next, Nanoseconds::max());
            now = std::max(now, next);
            while (!to_receiver.empty() && to_receiver.begin()->first <= now) {
                const Packet packet = to_receiver.begin()->second;
                to_receiver.erase(to_receiver.begin());
                got[packet.number] += receiver.arrived(packet.number, now) ? 1 : 0;
            }
            if (receiver.ack_due(now)) {
                receiver.told();
                put(to_sender, {0, receiver.expected(), receiver.bits()});
            }
            while (!to_sender.empty() && to_sender.begin()->first <= now) {
                const Packet packet = to_sender.begin()->second;
                to_sender.erase(to_sender.begin());
                sender.acknowledged(packet.before, packet.bits, now, [&](std::uint32_t slot) {
                    free.push_back(slot);
                    ++over;
                });
            }
            std::uint32_t tries = 0;
            if (const std::uint32_t slot = sender.to_repeat(now, tries);
                slot != DatagramLink::kNone) {
                put(to_receiver, {number_of[slot], 0, 0});
            }
        }
        EXPECT_EQ(over, kCount) << "seed " << seed;
        EXPECT_EQ(static_cast<std::uint32_t>(std::count(got.begin() + 1, got.end(), 1u)), kCount)
            << "seed " << seed;
    }
}

} // namespace
} // namespace adaptib
