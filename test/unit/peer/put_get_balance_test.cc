// SPDX-License-Identifier: BSD-3-Clause
// PutGetBalance: while both directions wait, none gets more than a turn ahead; alone, none is held.
#include "peer/put_get_balance.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace adaptib::test {
namespace {

TEST(PutGetBalance, ReadsHaveHalfAWindowMore) {
    PutGetBalance balance;
    balance.window = 1000;
    EXPECT_EQ(balance.most(Direction::write), 1000u);
    EXPECT_EQ(balance.most(Direction::read), 1500u);
    EXPECT_EQ(balance.round(), 250u);
}

TEST(PutGetBalance, ADirectionAloneIsNeverOver) {
    PutGetBalance balance;
    balance.window = 1000;
    for (int i = 0; i < 100; ++i) {
        balance.posted(Direction::write, 500);
        EXPECT_FALSE(balance.is_over(Direction::write));
        EXPECT_EQ(balance.ahead, 0);
    }
}

TEST(PutGetBalance, DirectionsThatBothWaitTakeTurns) {
    PutGetBalance balance;
    balance.window = 1000;
    WaitingTransfer put;
    WaitingTransfer get;
    balance.of(Direction::write).push_back(put);
    balance.of(Direction::read).push_back(get);
    EXPECT_TRUE(balance.has_queued());
    std::int64_t sent[2] = {0, 0};
    Direction direction = Direction::write;
    for (int i = 0; i < 1000; ++i) {
        if (balance.is_over(direction)) {
            direction = other(direction);
            ASSERT_FALSE(balance.is_over(direction)) << "one of both may go on";
        }
        balance.posted(direction, 100);
        sent[static_cast<std::size_t>(direction)] += 100;
        EXPECT_LE(std::abs(sent[0] - sent[1]), static_cast<std::int64_t>(balance.round()) + 100);
    }
    balance.of(Direction::write).remove(put);
    balance.of(Direction::read).remove(get);
    EXPECT_FALSE(balance.has_queued());
}

} // namespace
} // namespace adaptib::test
