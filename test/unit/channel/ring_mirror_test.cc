// SPDX-License-Identifier: BSD-3-Clause
// The copy of a ring that messages are posted from (channel/ring_mirror.h).
#include "channel/ring_mirror.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "unit/channel/ring_pair.h"

namespace adaptib::test {
namespace {

constexpr std::uint32_t kUnits = 16;

class Mirror : public testing::Test {
protected:
    void put(std::uint32_t unit, MessageType type, std::uint32_t sequence, Bytes length) {
        MessageHeader header;
        header.type = type;
        header.magic = kTailedMagic;
        header.length = static_cast<std::uint32_t>(length);
        header.sequence = sequence;
        std::memcpy(mirror.base() + unit * kRingUnit, &header, sizeof header);
    }
    bool between(std::uint64_t consumed, std::uint64_t produced) {
        found.clear();
        return mirror.for_each_between(consumed, produced,
                                       [this](const MessageHeader& header, const std::byte*) {
                                           EXPECT_EQ(header.magic, kHeaderMagic);
                                           found.push_back(header.sequence);
                                       });
    }

    MemoryRail rail;
    RingMirror mirror{rail, kUnits};
    std::vector<std::uint32_t> found;
};

class FullRail final : public NullRail {
    Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) override {
        return Status::error(Reason::no_memory);
    }
};

TEST_F(Mirror, HasNoMemoryUntilSomethingIsPosted) {
    EXPECT_TRUE(between(3, 5)) << "all was stored";
    ASSERT_TRUE(mirror.prepare());
    std::byte* const base = mirror.base();
    ASSERT_TRUE(mirror.prepare());
    EXPECT_EQ(mirror.base(), base);
    EXPECT_EQ(load_ring_word(base + (kUnits - 1) * kRingUnit), 0u);
}

// A child of fork may lack registered pages.
TEST_F(Mirror, ItsMemoryIsInPagesOfItsOwn) {
    class LengthRail final : public NullRail {
    public:
        Bytes length = 0;

    private:
        Status register_impl(void* address, Bytes bytes, std::uint32_t,
                             std::unique_ptr<MemoryRegion>& out) override {
            struct Region final : public MemoryRegion {
                Region(void* of, Bytes bytes_of) : MemoryRegion(of, bytes_of) {}
            };
            length = bytes;
            out = std::make_unique<Region>(address, bytes);
            return kOk;
        }
    };
    LengthRail pages;
    RingMirror other(pages, kUnits);
    ASSERT_TRUE(other.prepare());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.base()) % 4096, 0u);
    EXPECT_EQ(pages.length % 4096, 0u);
}

TEST_F(Mirror, CannotBePreparedWithoutMemory) {
    FullRail full;
    RingMirror other(full, kUnits);
    EXPECT_FALSE(other.prepare());
    EXPECT_FALSE(other.prepare());
}

TEST_F(Mirror, TellsTheMessagesThatAreNotConsumed) {
    ASSERT_TRUE(mirror.prepare());
    put(0, MessageType::eager, 10, 8); // two units, with its tail
    put(2, MessageType::eager, 11, 8);
    put(4, MessageType::eager, 12, 8);
    ASSERT_TRUE(between(0, 6));
    EXPECT_EQ(found, (std::vector<std::uint32_t>{10, 11, 12}));
    ASSERT_TRUE(between(2, 6));
    EXPECT_EQ(found, (std::vector<std::uint32_t>{11, 12}));
    ASSERT_TRUE(between(6, 6));
    EXPECT_TRUE(found.empty());
    mirror.post_from(4);
    ASSERT_TRUE(between(0, 6));
    EXPECT_EQ(found, (std::vector<std::uint32_t>{12})) << "the others were stored";
}

TEST_F(Mirror, ASkipLeadsToTheBeginning) {
    ASSERT_TRUE(mirror.prepare());
    put(14, MessageType::skip, 0, 0);
    put(0, MessageType::eager, 20, 8);
    ASSERT_TRUE(between(14, 18));
    EXPECT_EQ(found, (std::vector<std::uint32_t>{20}));
}

TEST_F(Mirror, NoMessageGoesBeyondTheEnd) {
    ASSERT_TRUE(mirror.prepare());
    put(15, MessageType::eager, 20, 8); // two units
    EXPECT_FALSE(between(15, 17));
    put(14, MessageType::eager, 20, 8);
    EXPECT_TRUE(between(14, 16));
}

TEST_F(Mirror, AGatheredMessageHasNoBody) {
    ASSERT_TRUE(mirror.prepare());
    mirror.note_gathered(0, false);
    ASSERT_TRUE(mirror.prepare_to_gather());
    put(0, MessageType::eager, 10, 8);
    put(2, MessageType::eager, 11, 8);
    mirror.note_gathered(2, true);
    std::vector<bool> bodies;
    const auto note = [&](const MessageHeader&, const std::byte* body) {
        bodies.push_back(body != nullptr);
    };
    ASSERT_TRUE(mirror.for_each_between(0, 4, note));
    EXPECT_EQ(bodies, (std::vector<bool>{true, false}));
    ASSERT_TRUE(mirror.prepare_to_gather());
    mirror.note_gathered(2, false);
    ASSERT_TRUE(mirror.for_each_between(2, 4, note));
    EXPECT_TRUE(bodies.back());
}

TEST_F(Mirror, AnImpossibleCountIsFound) {
    ASSERT_TRUE(mirror.prepare());
    put(0, MessageType::eager, 10, 8);
    EXPECT_FALSE(between(7, 6));
    EXPECT_FALSE(between(0, kUnits + 1));
    EXPECT_FALSE(between(0, 1)) << "the message is longer";
}

TEST_F(Mirror, APauseEndsPostingUntilItIsOver) {
    ASSERT_TRUE(mirror.prepare());
    put(0, MessageType::eager, 10, 8);
    FullRail full;
    EXPECT_FALSE(mirror.pause(full).ok());
    EXPECT_TRUE(mirror.prepare()) << "nothing has changed";
    MemoryRail next;
    ASSERT_TRUE(mirror.pause(next).ok());
    EXPECT_FALSE(mirror.prepare());
    mirror.resume();
    EXPECT_TRUE(mirror.prepare());
    ASSERT_TRUE(mirror.pause(next).ok());
    mirror.migrate_to(next);
    EXPECT_TRUE(mirror.prepare());
    ASSERT_TRUE(between(0, 2));
    EXPECT_EQ(found, (std::vector<std::uint32_t>{10})) << "the memory is the same";
}

} // namespace
} // namespace adaptib::test
