// SPDX-License-Identifier: BSD-3-Clause
// Messages of a ring that the device gathers: they come out as copied ones do; until their write is
// complete they can be sent again from the user's buffer, and afterwards they have arrived.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "channel/gathered_messages.h"
#include "unit/channel/ring_pair.h"

namespace adaptib::test {
namespace {

// A message with a buffer of its own.
struct Sent : GatheredMessage {
    std::vector<std::byte> payload_bytes;
};

// A ring that is posted to, and a sender that copies or gathers.
class Sender : GatherListener {
public:
    explicit Sender(std::uint64_t units, Bytes inline_bytes = 0)
        : ring(units, false, inline_bytes) {}

    // Returns false if there is no room.
    bool gather(std::size_t size) {
        complete();
        if (ring.writer->reserve(size) == nullptr || !ring.writer->gathers(size)) {
            return false;
        }
        auto sent = std::make_unique<Sent>();
        sent->payload_bytes = payload_of(ring.sequence, size);
        MessageHeader header;
        header.type = MessageType::eager;
        header.flags = static_cast<std::uint8_t>(size);
        header.length = static_cast<std::uint32_t>(size);
        header.sequence = ring.sequence;
        if (!ring.writer->commit_gathered(header, {sent->payload_bytes.data(), size, 0}).ok()) {
            return false;
        }
        sent->payload = sent->payload_bytes.data();
        sent->sequence = ring.sequence++;
        sent->write = ring.writer->poster().signaled();
        list.add(*sent, *this);
        under_way[sent->sequence] = std::move(sent);
        return true;
    }
    bool copy(std::size_t size) {
        complete();
        return ring.send(payload_of(ring.sequence, size));
    }
    // Hands over the completions that are there.
    void complete() {
        for (std::size_t left = ring.qp.completions(); left > 0; --left) {
            ring.writer->poster().on_completion();
        }
        list.on_written(ring.writer->poster().completed());
    }

    Ring ring;
    GatheredMessages list;
    std::map<std::uint32_t, std::unique_ptr<Sent>> under_way;

private:
    // The buffer is the user's again: uses it for something else.
    void on_gathered(GatheredMessage& message, GatherEnd) override {
        under_way.erase(message.sequence);
    }
};

TEST(RingGather, HeaderAndTailComeFromTheMirrorAndThePayloadFromTheBuffer) {
    for (const std::size_t size : {1u, 7u, 8u, 128u, 1000u, 4001u}) {
        SCOPED_TRACE(size);
        Sender sender(1024);
        ASSERT_TRUE(sender.gather(size));
        EXPECT_EQ(sender.ring.qp.hidden(), ring_posted_bytes(size, RingFormat::posted));
        std::vector<std::byte> payload;
        std::uint32_t number = 1;
        sender.ring.qp.show(sender.ring.qp.hidden() - 1);
        EXPECT_EQ(sender.ring.take(payload, number), RingReader::Found::nothing) << "not whole yet";
        sender.ring.qp.show(1);
        ASSERT_EQ(sender.ring.take(payload, number), RingReader::Found::message);
        EXPECT_EQ(number, 0u);
        EXPECT_EQ(payload, payload_of(0, size));
        EXPECT_EQ(sender.under_way.size(), 1u);
        sender.complete();
        EXPECT_TRUE(sender.under_way.empty());
    }
}

TEST(RingGather, NothingIsGatheredThatIsStoredOrGoesInline) {
    Ring mapped(64, true);
    ASSERT_NE(mapped.writer->reserve(200), nullptr);
    EXPECT_FALSE(mapped.writer->gathers(200));
    Sender sender(64, kRingInline);
    ASSERT_NE(sender.ring.writer->reserve(96), nullptr);
    EXPECT_FALSE(sender.ring.writer->gathers(96));
    ASSERT_NE(sender.ring.writer->reserve(97), nullptr);
    EXPECT_TRUE(sender.ring.writer->gathers(97));
}

TEST(RingGather, AMessageThatTheQueuePairRefusesIsNotThere) {
    Sender sender(64);
    sender.ring.qp.post_result = Status::again(Reason::queue_full);
    EXPECT_FALSE(sender.gather(200));
    sender.ring.qp.post_result = kOk;
    ASSERT_TRUE(sender.copy(200));
    sender.ring.qp.show(sender.ring.qp.hidden());
    std::vector<std::byte> payload;
    std::uint32_t number = 1;
    ASSERT_EQ(sender.ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(0, 200));
    EXPECT_TRUE(sender.ring.writer->for_each_in_doubt(
        [](const MessageHeader&, const std::byte* body) { EXPECT_NE(body, nullptr); }));
}

// Sends copied and gathered messages until the connection breaks at a random byte. Each buffer is
// freed when its message is complete. What the reader lacks is repeated as the protocol does.
void break_at_random(std::uint64_t seed, std::size_t& arrived_unseen, std::size_t& repeated) {
    Random random(seed);
    const std::uint64_t units = 2 * (16 + random.below(90));
    Sender sender(units, random.below(2) == 0 ? kRingInline : 0);
    const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
    std::vector<std::size_t> sizes;
    std::uint32_t received = 0;
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const auto take = [&] {
        const RingReader::Found found = sender.ring.take(payload, number);
        ASSERT_NE(found, RingReader::Found::garbage);
        if (found == RingReader::Found::message) {
            ASSERT_EQ(number, received);
            ASSERT_EQ(payload, payload_of(received, sizes[received]));
            ++received;
        }
    };
    for (auto steps = 50 + random.below(400); steps > 0; --steps) {
        const std::size_t size = 1 + random.below(longest);
        if (random.below(3) == 0 ? sender.copy(size) : sender.gather(size)) {
            sizes.push_back(size);
        }
        sender.ring.qp.show(random.below(800));
        ASSERT_NO_FATAL_FAILURE(take());
    }
    sender.ring.qp.lose();
    for (std::uint32_t before = received + 1; before != received;) {
        before = received;
        ASSERT_NO_FATAL_FAILURE(take());
    }
    std::uint32_t next = received;
    ASSERT_TRUE(sender.ring.writer->for_each_in_doubt(
        [&](const MessageHeader& header, const std::byte* body) {
            const GatheredMessage* const gathered = sender.list.find(header.sequence);
            if (body == nullptr && gathered == nullptr) {
                EXPECT_LT(header.sequence, received) << "it was complete, so it has arrived";
                ++arrived_unseen;
                return;
            }
            body = body == nullptr ? gathered->payload : body;
            const auto sent = payload_of(header.sequence, sizes[header.sequence]);
            ASSERT_EQ(header.length, sent.size());
            ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
            if (header.sequence >= received) {
                ASSERT_EQ(header.sequence, next++);
                ++repeated;
            }
        }));
    ASSERT_EQ(next, sizes.size()) << "some are lost";
}

TEST(RingGather, NothingIsLostWhereverTheConnectionBreaks) {
    std::size_t arrived_unseen = 0;
    std::size_t repeated = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        SCOPED_TRACE(seed);
        ASSERT_NO_FATAL_FAILURE(break_at_random(seed, arrived_unseen, repeated));
    }
    EXPECT_GT(arrived_unseen, 100u);
    EXPECT_GT(repeated, 100u);
}

} // namespace
} // namespace adaptib::test
