// SPDX-License-Identifier: BSD-3-Clause
// Messages on their way to the protocol: its time is not the channel's.
#include "core/delivery.h"

#include "unit/core/core_parts.h"

namespace adaptib::test {
namespace {

using namespace std::chrono_literals;

class DeliveryTest : public CoreParts {
protected:
    void hand_over(std::uint32_t sequence) {
        MessageHeader header;
        header.type = MessageType::active;
        header.flags = 5;
        header.sequence = sequence;
        const std::byte none{};
        delivery_.hand_over(*peer_, header, &none);
    }
    void on_active(Peer& peer, std::uint8_t tag) override {
        CoreParts::on_active(peer, tag);
        clock().advance(3us);
    }

    std::unique_ptr<Peer> peer_ = peer(20);
    Delivery delivery_{protocol_, clock()};
};

TEST_F(DeliveryTest, MessagesReachTheProtocol) {
    hand_over(0);
    EXPECT_EQ(arrived_, (std::vector<Arrived>{{peer_.get(), 5}}));
}

TEST_F(DeliveryTest, TheTimeForMessagesAndForReadingTheClockIsAddedUp) {
    Delivery::Stopwatch stopwatch{.clock = 20ns, .aside = 100ns};
    delivery_.time_by(&stopwatch);
    hand_over(0);
    EXPECT_EQ(stopwatch.aside, 100ns + 3us + 20ns);
    hand_over(1);
    EXPECT_EQ(stopwatch.aside, 100ns + 2 * (3us + 20ns));
    delivery_.time_by(nullptr);
    hand_over(2);
    EXPECT_EQ(stopwatch.aside, 100ns + 2 * (3us + 20ns));
    EXPECT_EQ(arrived_.size(), 3u);
}

} // namespace
} // namespace adaptib::test
