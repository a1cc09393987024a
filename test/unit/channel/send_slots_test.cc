// SPDX-License-Identifier: BSD-3-Clause
// The slots that a datagram channel sends from (channel/send_slots.h).
#include "channel/send_slots.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "unit/channel/datagram_rail.h"

namespace adaptib::test {
namespace {

class Slots : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(slots.open(rails, 500).ok()); }
    // Takes a slot that both ports send.
    std::uint32_t sent() {
        const std::uint32_t slot = slots.next();
        slots.put(slot, 9, DatagramHeader{});
        slots.on_posted(slot, 0);
        slots.on_posted(slot, 1);
        slots.take();
        return slot;
    }

    Gather piece(std::uint32_t slot, std::uint32_t port) const {
        SendSlots::Pieces memory;
        const auto pieces = slots.pieces(slot, port, memory);
        EXPECT_EQ(pieces.size(), 1u);
        return pieces[0];
    }

    Counters counters;
    DatagramRail first{"d0:1"};
    DatagramRail second{"d1:1"};
    std::array<Rail*, 2> rails{&first, &second};
    SendSlots slots{counters};
};

TEST_F(Slots, AreAPlaceEachInOneBlock) {
    EXPECT_EQ(counters.buffers, 1u);
    EXPECT_EQ(counters.buffers_bytes, SendSlots::kBlock * 512u);
    std::set<const std::byte*> places;
    for (std::uint32_t i = 0; i < SendSlots::kBlock; ++i) {
        ASSERT_FALSE(slots.none_free());
        places.insert(slots.at(slots.next()));
        slots.take();
    }
    EXPECT_TRUE(slots.none_free());
    EXPECT_EQ(places.size(), SendSlots::kBlock);
    EXPECT_EQ(*places.rbegin() - *places.begin(), (SendSlots::kBlock - 1) * 512);
}

TEST_F(Slots, ADatagramIsItsHeadersAndItsData) {
    DatagramHeader prefix;
    prefix.number = 5;
    MessageHeader header;
    header.length = 30;
    const std::uint32_t slot = slots.next();
    slots.put(slot, 9, prefix, header);
    EXPECT_EQ(slots.target_of(slot), 9u);
    const Gather at_first = piece(slot, 0);
    const Gather at_second = piece(slot, 1);
    EXPECT_EQ(at_first.length, sizeof prefix + sizeof header + 30);
    EXPECT_EQ(at_first.address, slots.at(slot));
    EXPECT_EQ(at_second.address, slots.at(slot));
    EXPECT_EQ(at_first.local_key, 1u);
    EXPECT_EQ(at_second.local_key, 1000u) << "of the same memory, registered there";
    slots.put(slot, 9, prefix);
    EXPECT_EQ(piece(slot, 0).length, sizeof prefix);
}

TEST_F(Slots, ASlotIsFreeWhenNoPortSendsItAnyMore) {
    const std::uint32_t slot = sent();
    EXPECT_NE(slots.next(), slot);
    slots.on_ended(slot, 0);
    EXPECT_NE(slots.next(), slot);
    EXPECT_FALSE(slots.posted_on(slot, 0));
    EXPECT_TRUE(slots.posted_on(slot, 1));
    EXPECT_TRUE(slots.posted(slot));
    slots.on_ended(slot, 1);
    EXPECT_FALSE(slots.posted(slot));
    EXPECT_EQ(slots.next(), slot);
}

TEST_F(Slots, ARetainedSlotIsFreeWhenItIsDroppedToo) {
    const std::uint32_t early = sent();
    slots.retain(early);
    slots.drop(early);
    EXPECT_NE(slots.next(), early) << "it is still being sent";
    slots.on_ended(early, 0);
    slots.on_ended(early, 1);
    EXPECT_EQ(slots.next(), early);

    const std::uint32_t late = sent();
    slots.retain(late);
    slots.on_ended(late, 0);
    slots.on_ended(late, 1);
    EXPECT_NE(slots.next(), late);
    slots.drop(late);
    EXPECT_EQ(slots.next(), late);
}

TEST_F(Slots, ASlotThatIsTakenBackIsFreeOnce) {
    const std::uint32_t slot = slots.next();
    slots.put(slot, 9, DatagramHeader{});
    slots.retain(slot);
    slots.take_back(slot);
    EXPECT_EQ(slots.next(), slot);
    slots.take();
    EXPECT_NE(slots.next(), slot);
}

TEST_F(Slots, AnOverdueSendIsFound) {
    const std::uint32_t slot = sent();
    EXPECT_FALSE(slots.has_overdue(0, Nanoseconds{1000}, Nanoseconds{10})) << "its time is unknown";
    slots.set_posted_at(slot, Nanoseconds{100});
    EXPECT_FALSE(slots.has_overdue(0, Nanoseconds{110}, Nanoseconds{10}));
    EXPECT_TRUE(slots.has_overdue(0, Nanoseconds{111}, Nanoseconds{10}));
    slots.on_ended(slot, 0);
    EXPECT_FALSE(slots.has_overdue(0, Nanoseconds{111}, Nanoseconds{10}));
    EXPECT_TRUE(slots.has_overdue(1, Nanoseconds{111}, Nanoseconds{10}));
}

TEST_F(Slots, GrowUpToABound) {
    second.memory_result = Status::error(Reason::no_memory);
    EXPECT_FALSE(slots.add_block().ok());
    EXPECT_EQ(slots.size(), SendSlots::kBlock);
    second.memory_result = kOk;
    while (slots.can_grow()) {
        ASSERT_TRUE(slots.add_block().ok());
        ASSERT_LT(slots.size(), 100'000u);
    }
    EXPECT_EQ(slots.size(), 64 * SendSlots::kBlock);
    EXPECT_EQ(slots.next(), slots.size() - 1);
    EXPECT_NE(piece(slots.next(), 0).local_key, piece(0, 0).local_key);
}

// Payloads in a user's buffer, which the first port reads.
class LentPayloads : public Slots, protected GatherListener {
protected:
    static constexpr Bytes kBytes = 200;

    LentPayloads() { buffer.fill(std::byte{7}); }
    // Takes a slot whose datagram is posted from the buffer.
    std::uint32_t lent(bool retained) {
        RegistrationCache::Use use;
        EXPECT_TRUE(cache.acquire(buffer.data(), kBytes, 0, use).ok());
        LentPayload payload{{buffer.data(), kBytes, 42}, use, message, *this};
        const std::uint32_t slot = slots.next();
        MessageHeader header;
        header.length = kBytes;
        slots.put(slot, 9, DatagramHeader{}, header);
        if (retained) {
            slots.retain(slot);
        }
        slots.lend(slot, 0, payload);
        EXPECT_TRUE(use.empty()) << "the slot has it";
        slots.on_posted(slot, 0);
        slots.take();
        return slot;
    }
    void on_gathered(GatheredMessage& of, GatherEnd how) override {
        EXPECT_EQ(&of, &message);
        ends.push_back(how);
    }
    using Ends = std::vector<GatherEnd>;

    std::array<std::byte, kBytes> buffer{};
    RegistrationCache cache{rails, RailRange{0, 2}, 1 << 20, counters};
    GatheredMessage message{};
    Ends ends;
};

TEST_F(LentPayloads, AreTheSecondPiece) {
    const std::uint32_t slot = lent(true);
    SendSlots::Pieces memory;
    const auto pieces = slots.pieces(slot, 0, memory);
    ASSERT_EQ(pieces.size(), 2u);
    EXPECT_EQ(pieces[0].address, slots.at(slot));
    EXPECT_EQ(pieces[0].length, sizeof(DatagramHeader) + sizeof(MessageHeader));
    EXPECT_EQ(pieces[1].address, buffer.data());
    EXPECT_EQ(pieces[1].length, kBytes);
    EXPECT_EQ(pieces[1].local_key, 42u);
    slots.on_ended(slot, 0);
    slots.drop(slot);
}

TEST_F(LentPayloads, EndWithTheLaterOfAcknowledgmentAndCompletion) {
    std::uint32_t slot = lent(true);
    slots.on_ended(slot, 0);
    EXPECT_EQ(ends, Ends()) << "it may have to be sent again";
    slots.drop(slot);
    EXPECT_EQ(ends, Ends{GatherEnd::arrived});
    EXPECT_EQ(slots.next(), slot);
    slot = lent(true);
    slots.drop(slot);
    EXPECT_EQ(ends.size(), 1u) << "the adapter reads it";
    slots.on_ended(slot, 0);
    EXPECT_EQ(ends.size(), 2u);
    slot = lent(false);
    slots.on_ended(slot, 0);
    EXPECT_EQ(ends.size(), 3u) << "datagrams are reliable";
    EXPECT_EQ(slots.next(), slot);
}

TEST_F(LentPayloads, ACopyGivesTheBufferBackOnceThePostHasEnded) {
    for (const bool early : {false, true}) {
        ends.clear();
        const std::uint32_t slot = lent(true);
        if (early) {
            slots.on_ended(slot, 0);
        }
        slots.copy_payload(slot);
        EXPECT_FALSE(slots.reads_buffer(slot));
        slots.on_posted(slot, 1); // sent again, from the copy
        slots.on_ended(slot, 0);
        EXPECT_EQ(ends, Ends{GatherEnd::kept});
        const Gather all = piece(slot, 1);
        EXPECT_EQ(all.length, sizeof(DatagramHeader) + sizeof(MessageHeader) + kBytes);
        const auto* payload = static_cast<const std::byte*>(all.address) + all.length - kBytes;
        EXPECT_EQ(std::memcmp(payload, buffer.data(), kBytes), 0);
        slots.on_ended(slot, 1);
        slots.drop(slot);
        EXPECT_EQ(ends.size(), 1u);
        EXPECT_EQ(slots.next(), slot);
    }
}

TEST_F(LentPayloads, AreTakenBackIfNothingIsPosted) {
    RegistrationCache::Use use;
    ASSERT_TRUE(cache.acquire(buffer.data(), kBytes, 0, use).ok());
    LentPayload payload{{buffer.data(), kBytes, 42}, use, message, *this};
    const std::uint32_t slot = slots.next();
    slots.put(slot, 9, DatagramHeader{}, MessageHeader{});
    slots.lend(slot, 0, payload);
    slots.take_loan_back(slot, payload);
    EXPECT_FALSE(use.empty());
    EXPECT_FALSE(slots.reads_buffer(slot));
    EXPECT_EQ(ends, Ends());
}

TEST_F(LentPayloads, OfAFailedPeerEndAtOnceAndStayRegisteredWhileTheyAreRead) {
    const std::uint32_t slot = lent(true);
    slots.abandon_loans(8, GatherEnd::lost);
    EXPECT_EQ(ends, Ends()) << "of another peer";
    slots.abandon_loans(9, GatherEnd::lost);
    EXPECT_EQ(ends, Ends{GatherEnd::lost});
    EXPECT_FALSE(slots.reads_buffer(slot)) << "the user may unmap the buffer";
    cache.forget(buffer.data(), kBytes);
    cache.settle();
    EXPECT_EQ(first.registrations, 1);
    slots.drop(slot);
    EXPECT_EQ(first.registrations, 1);
    slots.on_ended(slot, 0);
    EXPECT_EQ(first.registrations, 0);
    EXPECT_EQ(ends.size(), 1u);
}

TEST_F(LentPayloads, AreDroppedAtTheEnd) {
    lent(true);
    slots.drop_loans();
    EXPECT_EQ(ends, Ends{GatherEnd::dropped});
}

} // namespace
} // namespace adaptib::test
