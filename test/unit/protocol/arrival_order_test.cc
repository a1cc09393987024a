// SPDX-License-Identifier: BSD-3-Clause
// ArrivalOrder: in whatever order and however often messages arrive, each is handled once, in the
// order of their numbers.
#include "protocol/arrival_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "unit/protocol/losses.h"
#include "unit/recovery/two_rails.h"

namespace adaptib::test {
namespace {

using Numbers = std::vector<std::uint32_t>;

class Arrivals : public testing::Test {
protected:
    ~Arrivals() override {
        order.forget(*peer);
        EXPECT_EQ(peer->in.early, nullptr);
    }

    // A message arrives, as over any channel. Its body is its number.
    void arrive(std::uint32_t number) {
        MessageHeader header;
        header.type = MessageType::eager;
        header.length = sizeof number;
        header.sequence = number;
        std::byte body[sizeof number];
        std::memcpy(body, &number, sizeof number);
        if (!ArrivalOrder::has_its_turn(*peer, number)) {
            order.on_unordered(*peer, header, body);
            return;
        }
        ArrivalOrder::begin_turn(*peer);
        handle(header, body);
        run_early();
    }
    // Handles the kept messages whose turn it is.
    void run_early() {
        while (EarlyMessage* const message = ArrivalOrder::take_next(*peer)) {
            handle(message->header, message->body());
            order.release(*peer, *message);
        }
    }
    static Numbers up_to(std::uint32_t count) {
        Numbers numbers(count);
        std::iota(numbers.begin(), numbers.end(), 0u);
        return numbers;
    }

    TwoRails there;
    std::unique_ptr<Peer> peer = there.peer(9);
    BlockPool pool;
    Losses losses{there.counters};
    ArrivalOrder order{pool, losses.peers, there.counters};
    Numbers handled;
    std::function<void(std::uint32_t)> on_handled = [](std::uint32_t) {};

private:
    void handle(const MessageHeader& header, const std::byte* body) {
        EXPECT_EQ(peer->in.next_receive, header.sequence + 1) << "its turn has begun";
        std::uint32_t number = 0;
        std::memcpy(&number, body, sizeof number);
        EXPECT_EQ(number, header.sequence);
        handled.push_back(number);
        on_handled(number);
    }
};

TEST_F(Arrivals, NothingOfALostPeerIsHandled) {
    on_handled = [this](std::uint32_t number) {
        if (number == 1) {
            losses.peers.lose(*peer, "test");
        }
    };
    arrive(2);
    arrive(0);
    arrive(1);
    arrive(3);
    EXPECT_EQ(handled, up_to(2));
}

TEST_F(Arrivals, InOrderNothingIsKept) {
    for (const std::uint32_t number : up_to(4)) {
        arrive(number);
    }
    EXPECT_EQ(handled, up_to(4));
    EXPECT_EQ(there.counters.early, 0u);
}

TEST_F(Arrivals, EachPermutationIsPutInOrder) {
    Numbers numbers = up_to(5);
    do {
        peer->in.next_receive = 0;
        handled.clear();
        for (const std::uint32_t number : numbers) {
            arrive(number);
        }
        EXPECT_EQ(handled, up_to(5));
        EXPECT_EQ(peer->in.early, nullptr);
    } while (std::next_permutation(numbers.begin(), numbers.end()));
    EXPECT_EQ(there.counters.duplicates, 0u);
}

TEST_F(Arrivals, AMessageThatArrivesAgainIsDropped) {
    for (const std::uint32_t number : {0u, 0u, 2u, 2u, 1u, 2u, 1u}) {
        arrive(number);
    }
    EXPECT_EQ(handled, up_to(3));
    EXPECT_EQ(there.counters.duplicates, 4u);
    EXPECT_EQ(there.counters.early, 1u);
}

TEST_F(Arrivals, NumbersWrapAround) {
    peer->in.next_receive = 0xffff'fffe;
    for (const std::uint32_t number : {1u, 0xffff'ffffu, 0u, 0xffff'fffeu}) {
        arrive(number);
    }
    EXPECT_EQ(handled, (Numbers{0xffff'fffe, 0xffff'ffff, 0, 1}));
}

TEST_F(Arrivals, AfterTheDisconnectMessagesWaitForTheTeardown) {
    on_handled = [this](std::uint32_t number) { peer->in.teardown_pending = number == 1; };
    for (const std::uint32_t number : {3u, 2u, 1u, 0u, 4u}) {
        arrive(number);
    }
    arrive(0); // once more: nothing may wait behind it
    EXPECT_EQ(there.counters.duplicates, 1u);
    EXPECT_EQ(handled, up_to(2)) << "the second one was the disconnect";
    run_early();
    EXPECT_EQ(handled, up_to(2));
    peer->in.teardown_pending = false;
    run_early();
    EXPECT_EQ(handled, up_to(5));
}

// Looking for the place of each message takes no time to speak of, whichever end it is near.
TEST_F(Arrivals, ManyEarlyMessagesCostWhatFewDo) {
    constexpr std::uint32_t kMany = 150'000;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t number = kMany; number < 2 * kMany; ++number) {
        arrive(number);
    }
    for (std::uint32_t number = kMany; number-- > 1;) { // each before the first
        arrive(number);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_EQ(peer->in.early_bytes, (2 * kMany - 1) * (sizeof(EarlyMessage) + sizeof kMany));
    EXPECT_TRUE(ArrivalOrder::keeps_enough(*peer));
    arrive(0);
    EXPECT_EQ(handled, up_to(2 * kMany));
    EXPECT_EQ(peer->in.early_bytes, 0u);
    EXPECT_EQ(peer->in.last_early, nullptr);
}

TEST_F(Arrivals, APeerThatHasFailedIsNotHeard) {
    peer->in.unheard = true;
    arrive(0);
    arrive(1);
    EXPECT_TRUE(handled.empty());
    EXPECT_EQ(peer->in.early, nullptr);
}

} // namespace
} // namespace adaptib::test
