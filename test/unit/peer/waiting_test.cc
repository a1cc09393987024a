// SPDX-License-Identifier: BSD-3-Clause
// WaitingTransfers: a transfer is in one list at a time, lists keep their order, and a subchannel
// is blocked exactly while a transfer waits behind it.
#include "peer/waiting.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <vector>

#include "base/random.h"

namespace adaptib::test {
namespace {

constexpr std::uint8_t kInOrder = WaitingTransfers::kInOrder;

TEST(WaitingTransfers, ListsKeepTheirOrder) {
    WaitingTransfers waiting;
    std::array<WaitingTransfer, 3> transfers;
    EXPECT_TRUE(waiting.empty());
    waiting.add(transfers[0], kInOrder);
    waiting.add(transfers[1], kInOrder);
    waiting.add_first(transfers[2], kInOrder);
    EXPECT_FALSE(waiting.empty());
    EXPECT_EQ(waiting.size(kInOrder), 3u);
    for (const std::size_t expected : {2, 0, 1}) {
        ASSERT_EQ(waiting.first(kInOrder), &transfers[expected]);
        waiting.remove(transfers[expected]);
        EXPECT_FALSE(transfers[expected].waits());
    }
    EXPECT_EQ(waiting.first(kInOrder), nullptr);
    EXPECT_TRUE(waiting.empty());
}

TEST(WaitingTransfers, ASubchannelIsBlockedWhileATransferWaitsBehindIt) {
    WaitingTransfers waiting;
    std::array<WaitingTransfer, 3> transfers;
    waiting.add(transfers[0], 0);
    waiting.add(transfers[1], 5);
    waiting.add(transfers[2], 5);
    EXPECT_EQ(waiting.blocked(), 1u << 0 | 1u << 5);
    waiting.remove(transfers[1]);
    EXPECT_TRUE(waiting.is_blocked(5));
    waiting.remove(transfers[2]);
    EXPECT_FALSE(waiting.is_blocked(5));
    EXPECT_TRUE(waiting.is_blocked(0));
    waiting.remove(transfers[0]);
    EXPECT_EQ(waiting.blocked(), 0u);
}

// A transfer behind a disconnect waits for no room: it does not make the peer busy.
TEST(WaitingTransfers, BehindADisconnectNothingIsBlocked) {
    WaitingTransfers waiting;
    WaitingTransfer transfer;
    waiting.add(transfer, WaitingTransfers::kBehindDisconnect);
    EXPECT_TRUE(transfer.waits());
    EXPECT_TRUE(waiting.empty());
    EXPECT_EQ(waiting.blocked(), 0u);
    waiting.remove(transfer);
}

TEST(WaitingTransfers, SubchannelsHaveTheirTurns) {
    WaitingTransfers waiting;
    for (std::uint32_t i = 0; i < 3 * kMaxSubchannels; ++i) {
        EXPECT_EQ(waiting.next_turn(), i % kMaxSubchannels);
    }
}

// The same as a model of plain queues, whatever is done.
TEST(WaitingTransfers, AgreesWithAModel) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random{seed};
        WaitingTransfers waiting;
        std::vector<WaitingTransfer> transfers(40);
        std::array<std::deque<WaitingTransfer*>, WaitingTransfers::kPutGetBalance> model;
        for (int step = 0; step < 2000; ++step) {
            WaitingTransfer& transfer = transfers[random.below(transfers.size())];
            const std::size_t list = random.below(model.size());
            if (transfer.waits()) {
                auto& queue = model[transfer.waits_in];
                std::erase(queue, &transfer);
                waiting.remove(transfer);
            } else if (random.below(4) == 0) {
                waiting.add_first(transfer, list);
                model[list].push_front(&transfer);
            } else {
                waiting.add(transfer, list);
                model[list].push_back(&transfer);
            }
            for (std::size_t each = 0; each < model.size(); ++each) {
                ASSERT_EQ(waiting.size(each), model[each].size());
                ASSERT_EQ(waiting.first(each), model[each].empty() ? nullptr : model[each].front());
                if (each < kMaxSubchannels) {
                    ASSERT_EQ(waiting.is_blocked(each), !model[each].empty());
                }
            }
        }
        for (WaitingTransfer& each : transfers) {
            if (each.waits()) {
                waiting.remove(each);
            }
        }
        EXPECT_TRUE(waiting.empty());
    }
}

} // namespace
} // namespace adaptib::test
