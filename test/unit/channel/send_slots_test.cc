// SPDX-License-Identifier: BSD-3-Clause
// The slots that a datagram channel sends from (channel/send_slots.h).
#include "channel/send_slots.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

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
    const Gather at_first = slots.gather(slot, 0);
    const Gather at_second = slots.gather(slot, 1);
    EXPECT_EQ(at_first.length, sizeof prefix + sizeof header + 30);
    EXPECT_EQ(at_first.address, slots.at(slot));
    EXPECT_EQ(at_second.address, slots.at(slot));
    EXPECT_EQ(at_first.local_key, 1u);
    EXPECT_EQ(at_second.local_key, 1000u) << "of the same memory, registered there";
    slots.put(slot, 9, prefix);
    EXPECT_EQ(slots.gather(slot, 0).length, sizeof prefix);
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
    EXPECT_NE(slots.gather(slots.next(), 0).local_key, slots.gather(0, 0).local_key);
}

} // namespace
} // namespace adaptib::test
