// SPDX-License-Identifier: BSD-3-Clause
// Peers whose rails take shorter datagrams: the other MTU of two ports.
#include <memory>
#include <vector>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

constexpr Bytes kShort = 1024;

// Node 0 sends to a peer whose rail takes datagrams of kShort bytes; longer ones vanish.
struct ShortDatagrams {
    ShortDatagrams() {
        Options options;
        options.parameters.connect_threshold = 1000; // datagrams only
        options.parameters.shm_rails = 2;            // with numbers, as over a network
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                             : std::move(fabric);
        };
        plan.peers_datagram_bytes = kShort;
        world = std::make_unique<Cores>(2, options);
    }
    // Sends that many bytes, and returns true if they arrive soon.
    bool arrives(std::size_t bytes, bool synchronous = false) {
        PatternMessage message(0, bytes, bytes);
        EXPECT_TRUE(world->receive(1, 0, 9, contiguous(message.got), message.receive).ok());
        EXPECT_TRUE(world->send(0, 1, 9, contiguous(message.sent), message.send, synchronous).ok());
        for (int turn = 0; turn < 5000 && !(message.receive.done && message.send.done); ++turn) {
            world->progress();
            world->clock.advance(Nanoseconds{10'000});
        }
        return message.receive.done && message.send.done && message.got == message.sent;
    }

    fault::FaultPlan plan;
    fault::FaultLog log;
    std::unique_ptr<Cores> world;
};

TEST(DatagramLength, MessagesOfAnyLengthReachAPeerWithAShorterOne) {
    ShortDatagrams two;
    for (const std::size_t bytes : {0, 8, 900, 960, 961, 1024, 2000, 4000, 100000}) {
        ASSERT_TRUE(two.arrives(bytes)) << bytes;
        ASSERT_TRUE(two.arrives(bytes, true)) << bytes << " bytes, synchronous";
    }
    EXPECT_EQ(two.world->counters(0).datagram_repeated, 0u);
}

TEST(DatagramLength, TheCapacityIsThatOfThePeer) {
    ShortDatagrams two;
    ASSERT_TRUE(two.arrives(8));
    Peer& peer = *two.world->peer(0, 1);
    EXPECT_EQ(peer.contact.datagram_capacity(),
              kShort - sizeof(DatagramHeader) - sizeof(MessageHeader));
    EXPECT_EQ(two.world->peer(1, 0)->contact.datagram_capacity(), peer.contact.channel.capacity());
}

} // namespace
} // namespace adaptib::test
