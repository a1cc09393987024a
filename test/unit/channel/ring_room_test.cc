// SPDX-License-Identifier: BSD-3-Clause
// A ring's memory: the writer stores only into memory that is there, gets more, and goes on without
// where there is none; the reader takes unused memory back.
#include "channel/ring_room.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <deque>
#include <memory>
#include <vector>

#include "unit/channel/ring_pair.h"

namespace adaptib {
namespace {

using test::payload_of;
using test::Ring;

constexpr Bytes kPage = 4096;
constexpr std::uint32_t kFirst = 512; // units: four pages
constexpr std::uint64_t kUnits = 8192;

// A ring in reserved address space: pages that were not committed cannot be touched.
class Room : public testing::Test {
protected:
    Room() {
        void* at = mmap(nullptr, kUnits * kRingUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(at, MAP_FAILED);
        lines_ = static_cast<std::byte*>(at);
        allow(lines_, kFirst * kRingUnit);
        room().begin(kFirst);
        make(ring_habits());
    }
    ~Room() override { munmap(lines_, kUnits * kRingUnit); }
    void make(const RingHabits& habits) {
        ring_ = std::make_unique<Ring>(lines_, kUnits, word_, habits);
        ring_->fast_path = true;
        ring_->qp.commits = [this](std::byte* at, Bytes length) {
            ++commits_;
            if (refuses_) {
                return Status::error(Reason::no_memory);
            }
            const Bytes offset = static_cast<Bytes>(at - lines_) / kPage * kPage;
            allow(lines_ + offset,
                  round_up(static_cast<Bytes>(at - lines_) + length - offset, kPage));
            return kOk;
        };
    }
    static void allow(std::byte* at, Bytes length) {
        ASSERT_EQ(mprotect(at, length, PROT_READ | PROT_WRITE), 0);
    }
    RingRoom room() { return RingRoom(reinterpret_cast<std::byte*>(&word_)); }

    bool is_beyond() const { return word_ >> 63 != 0; }

    // Does what RingMemory::shrink does.
    bool shrink() {
        const std::uint32_t units = room().units();
        if (!room().begin_to_shrink(kFirst)) {
            return false;
        }
        const bool idle = ring_->reader.idle_within(kFirst);
        if (idle) {
            const Bytes length = (kUnits - kFirst) * kRingUnit;
            EXPECT_EQ(madvise(lines_ + kFirst * kRingUnit, length, MADV_DONTNEED), 0);
            EXPECT_EQ(mprotect(lines_ + kFirst * kRingUnit, length, PROT_NONE), 0);
        }
        room().end_shrinking(idle ? kFirst : units);
        ring_->reader.on_shrunk();
        return idle;
    }

    bool send(Bytes size) {
        if (!ring_->send(payload_of(ring_->sequence, size))) {
            return false;
        }
        sizes_.push_back(size);
        return true;
    }
    // Returns false if there is no message.
    bool take() {
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        const RingReader::Found found = ring_->take(payload, number);
        EXPECT_NE(found, RingReader::Found::garbage);
        if (found != RingReader::Found::message) {
            return false;
        }
        EXPECT_EQ(number, received_);
        EXPECT_FALSE(sizes_.empty());
        EXPECT_EQ(payload, payload_of(received_++, sizes_.front()));
        sizes_.pop_front();
        return true;
    }
    void take_all() {
        while (take()) {
        }
        if (ring_->reader.has_deferred()) {
            ring_->reader.release_deferred();
            ring_->return_credit();
        }
        EXPECT_TRUE(sizes_.empty());
    }

    std::byte* lines_ = nullptr;
    std::uint64_t word_ = 0;
    std::unique_ptr<Ring> ring_;
    std::deque<Bytes> sizes_;
    std::uint32_t received_ = 0;
    int commits_ = 0;
    bool refuses_ = false;
};

TEST_F(Room, WhoIsAnsweredNeedsNoMore) {
    for (int i = 0; i < 100'000; ++i) {
        ASSERT_TRUE(send(static_cast<Bytes>(i % 200)));
        ASSERT_TRUE(take());
    }
    EXPECT_EQ(commits_, 0);
}

TEST_F(Room, WhoSendsALotGetsTheWholeRing) {
    for (int lap = 0; lap < 4; ++lap) {
        while (send(500)) {
        }
        take_all();
    }
    EXPECT_EQ(room().units(), kUnits);
    EXPECT_LE(commits_, 5) << "it doubles";
}

TEST_F(Room, ALongMessageGetsWhatItNeeds) {
    const Bytes most = ring_->writer->most();
    EXPECT_GT(most, 100'000u);
    ASSERT_TRUE(send(most));
    take_all();
}

TEST_F(Room, WithoutMemoryItGoesOnWithWhatThereIs) {
    refuses_ = true;
    EXPECT_FALSE(send(100'000));
    const Bytes most = ring_->writer->most();
    EXPECT_GE(most, 8000u);
    for (int lap = 0; lap < 1000; ++lap) {
        while (send(lap % 3 == 0 ? most : 300)) {
        }
        take_all();
    }
    EXPECT_GT(received_, 10'000u);
    EXPECT_EQ(room().units(), kFirst);
    EXPECT_LT(commits_, 50) << "it does not ask all the time";
    refuses_ = false;
    for (int lap = 0; lap < 100; ++lap) {
        while (send(300)) {
        }
        take_all();
    }
    EXPECT_GT(room().units(), kFirst) << "it asks again";
    EXPECT_GT(ring_->writer->most(), most);
}

// A lap that cannot be made longer ends with a skip, which the reader finds only when it looks for
// the message behind the last one.
TEST_F(Room, ASkipThatTheReaderHasNotFoundIsNotOverwritten) {
    int sent = 0;
    for (; sent < 20; ++sent) {
        ASSERT_TRUE(send(500));
    }
    refuses_ = true;
    EXPECT_FALSE(send(100'000));
    for (int taken = 0; taken < sent; ++taken) {
        ASSERT_TRUE(take());
    }
    EXPECT_FALSE(send(100'000)) << "looks whether the reader has caught up";
    while (send(300)) {
    }
    take_all();
    EXPECT_GT(received_, 30u);
}

TEST_F(Room, WhatIsIdleIsGivenBackAndGrowsAgain) {
    EXPECT_FALSE(shrink()) << "there is nothing to give back";
    for (int times = 0; times < 20; ++times) {
        while (send(700)) {
        }
        EXPECT_FALSE(shrink()) << "messages are there";
        take_all();
        ASSERT_TRUE(send(100)); // a lap of the first part
        take_all();
        while (room().units() > kFirst && !shrink()) {
            ASSERT_TRUE(send(100)); // until the lap is over
            take_all();
        }
        EXPECT_EQ(room().units(), kFirst);
    }
}

TEST_F(Room, WhileItIsTakenBackTheWriterStaysInTheFirstPart) {
    while (send(700)) {
    }
    take_all();
    while (!room().begin_to_shrink(kFirst)) {
        ASSERT_TRUE(send(100));
        take_all();
    }
    allow(lines_, kUnits * kRingUnit);
    const int before = commits_;
    for (int lap = 0; lap < 50; ++lap) {
        while (send(200)) {
        }
        take_all();
        for (std::uint64_t at = std::uint64_t{kFirst} * kRingUnit; at < kUnits * kRingUnit; ++at) {
            lines_[at] = std::byte{0};
        }
    }
    EXPECT_EQ(commits_, before);
    room().end_shrinking(kFirst);
    for (int lap = 0; lap < 3; ++lap) {
        while (send(700)) {
        }
        take_all();
    }
    EXPECT_GT(commits_, before);
}

// Laps of all lengths in a ring that has been large. What lies behind the first part, and perhaps
// was taken back, is not touched until the writer has said that it goes there; and if the reader
// has everything, the next message finds a place.
TEST_F(Room, WhatWasTakenBackIsNotTouchedBeforeTheWriterSaysSo) {
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        while (send(900)) {
        }
        take_all();
        const bool shrinks = random.below(2) == 0;
        while (shrinks ? !shrink() : is_beyond()) {
            ASSERT_TRUE(send(100)); // until the lap is over
            take_all();
        }
        const Bytes longest = random.below(2) == 0 ? 8 : 300;
        for (std::uint64_t left = random.below(longest == 8 ? 257 : 60); left > 0; --left) {
            ASSERT_TRUE(send(random.below(longest + 1))); // the reader lags behind
        }
        const std::uint64_t end = kFirst - 1 - random.below(random.below(2) == 0 ? 40 : 130);
        const std::uint64_t position = ring_->writer->cursor().position();
        ASSERT_LT(position + 1, end);
        ASSERT_TRUE(send((end - position - 1) * kRingUnit)); // ends there
        if (random.below(2) == 0) {
            take_all();
            ASSERT_TRUE(send(random.below(900))) << "nothing is in the way of it";
        }
        for (std::uint64_t left = 4 + random.below(60); left > 0; --left) {
            static_cast<void>(send(random.below(10) == 0 ? random.below(900) : 8));
        }
        take_all();
    }
}

TEST_F(Room, NothingIsTakenFromWhoDoesNotKnowOfIt) {
    room().begin(2 * kFirst); // a new ring, whose writer has not seen the word yet
    EXPECT_FALSE(room().begin_to_shrink(kFirst));
    room().mind();
    EXPECT_TRUE(room().begin_to_shrink(kFirst));
}

TEST_F(Room, RandomTrafficWithMemoryComingAndGoing) {
    const RingHabits habits[] = {
        {.most_claimed = 1, .lap_messages = 16, .lap_longest = kShortLap / 2, .dirties = false},
        {.most_claimed = 0, .lap_messages = 4, .lap_longest = 264, .dirties = true}};
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        ASSERT_TRUE(sizes_.empty());
        std::fill_n(lines_, kFirst * kRingUnit, std::byte{0});
        ASSERT_EQ(madvise(lines_, kUnits * kRingUnit, MADV_DONTNEED), 0);
        ASSERT_EQ(mprotect(lines_ + kFirst * kRingUnit, (kUnits - kFirst) * kRingUnit, PROT_NONE),
                  0);
        room().begin(kFirst);
        make(habits[seed % 2]);
        received_ = 0;
        ring_->defers = random.below(2) == 0;
        int shrunk = 0;
        for (int step = 0; step < 3'000; ++step) {
            refuses_ = random.below(4) == 0;
            const Bytes longest = random.below(30) == 0 ? ring_->writer->most() : 900;
            const std::uint64_t burst = random.below(20) == 0 ? 200 : 3;
            for (std::uint64_t left = random.below(burst); left > 0; --left) {
                static_cast<void>(send(random.below(longest + 1)));
            }
            for (std::uint64_t left = random.below(burst); left > 0 && take(); --left) {
            }
            if (random.below(30) == 0) {
                take_all();
                shrunk += shrink() ? 1 : 0;
            }
        }
        take_all();
        EXPECT_GT(received_, 3'000u);
        EXPECT_GT(shrunk, 0);
    }
}

} // namespace
} // namespace adaptib
