// SPDX-License-Identifier: BSD-3-Clause
// Messages whose payload stays in the user's buffer until their write is complete
// (channel/gathered_messages.h).
#include "channel/gathered_messages.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace adaptib::test {
namespace {

class Gathered : public testing::Test, protected GatherListener {
protected:
    // Message i has sequence number 10 i, and is carried by write `first` + i.
    void add(std::uint32_t first, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            messages[i].sequence = static_cast<std::uint32_t>(10 * i);
            messages[i].write = first + static_cast<std::uint32_t>(i);
            list.add(messages[i], *this);
        }
    }
    std::vector<std::pair<std::uint32_t, GatherEnd>> ended() { return std::exchange(ended_, {}); }

    std::array<GatheredMessage, 4> messages{};
    GatheredMessages list;

private:
    void on_gathered(GatheredMessage& message, GatherEnd end) override {
        ended_.emplace_back(message.sequence, end);
    }
    std::vector<std::pair<std::uint32_t, GatherEnd>> ended_;
};

using Ended = std::vector<std::pair<std::uint32_t, GatherEnd>>;

TEST_F(Gathered, AWriteEndsItsMessageAndThoseBefore) {
    EXPECT_TRUE(list.empty());
    list.on_written(7);
    add(8, 4);
    list.on_written(7);
    EXPECT_TRUE(ended().empty());
    list.on_written(9);
    EXPECT_EQ(ended(), (Ended{{0, GatherEnd::arrived}, {10, GatherEnd::arrived}}));
    EXPECT_EQ(list.find(10), nullptr);
    EXPECT_EQ(list.find(20), &messages[2]);
    list.on_written(100);
    EXPECT_EQ(ended(), (Ended{{20, GatherEnd::arrived}, {30, GatherEnd::arrived}}));
    EXPECT_TRUE(list.empty());
}

TEST_F(Gathered, NumbersOfWritesWrapAround) {
    add(0xfffffffe, 4);
    list.on_written(0xffffffff);
    EXPECT_EQ(ended().size(), 2u);
    list.on_written(0);
    EXPECT_EQ(ended(), (Ended{{20, GatherEnd::arrived}}));
    EXPECT_FALSE(list.empty());
}

TEST_F(Gathered, AllEndTogetherInTheirOrderAndTheListGoesOn) {
    add(1, 2);
    list.end_all(GatherEnd::kept);
    EXPECT_EQ(ended(), (Ended{{0, GatherEnd::kept}, {10, GatherEnd::kept}}));
    add(5, 1);
    list.end_all(GatherEnd::lost);
    list.end_all(GatherEnd::lost);
    EXPECT_EQ(ended(), (Ended{{0, GatherEnd::lost}}));
}

} // namespace
} // namespace adaptib::test
