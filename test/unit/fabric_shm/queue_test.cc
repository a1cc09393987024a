// SPDX-License-Identifier: BSD-3-Clause
// The shm fabric's receive queue: many processes as producers, some of which die,
// and damaged memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "fabric/shm/queue.h"
#include "fabric/shm/segment.h"

namespace adaptib::shm {
namespace {

constexpr std::uint64_t kJob = 0x7e57;
constexpr Nanoseconds kLong{20'000'000'000};

class Queue : public testing::Test {
protected:
    void SetUp() override { create(64 * kKiB); }
    // Makes the segment anew.
    void create(Bytes queue_bytes) {
        SegmentOptions options;
        options.segment_max = 16 * kMiB;
        options.queue_bytes = queue_bytes;
        options.job_key = kJob;
        std::string error;
        ASSERT_TRUE(OwnSegment::create(options, segment_, error).ok()) << error;
        consumer_ = Consumer(segment_->base());
    }

    std::shared_ptr<PeerSegment> attach() {
        std::shared_ptr<PeerSegment> peer;
        EXPECT_TRUE(PeerSegment::open(segment_->address(0), 99, peer).ok());
        return peer;
    }

    // Runs `work` in a child process that is a producer; its result is the exit status.
    template <class Work> pid_t start(Work&& work) {
        const pid_t child = fork();
        if (child == 0) {
            std::shared_ptr<PeerSegment> peer = attach();
            _exit(peer != nullptr && work(*peer) ? 0 : 1);
        }
        EXPECT_GT(child, 0);
        return child;
    }
    static int wait_for(pid_t child) {
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        return status;
    }

    std::unique_ptr<OwnSegment> segment_;
    Consumer consumer_;
    MonotonicClock clock_;
};

// Pushes a record with its sender and number, and a payload that follows from both.
bool push_numbered(PeerSegment& peer, std::uint32_t who, std::uint32_t number, Bytes length) {
    RecordFields fields;
    fields.target_qp = 1;
    fields.source_qp = who;
    fields.immediate = number;
    fields.length = static_cast<std::uint32_t>(length);
    for (;;) {
        const Push push = peer.producer().push(fields, length, [&](std::byte* at) {
            std::memset(at, static_cast<int>(who * 31 + number), length);
        });
        if (push == Push::ok) {
            return true;
        }
        if (push == Push::no_memory || peer.gone()) {
            return false;
        }
        usleep(10);
    }
}

testing::AssertionResult intact(const RecordView& record) {
    const auto expected =
        static_cast<std::byte>(record.fields.source_qp * 31 + record.fields.immediate);
    for (Bytes i = 0; i < record.payload_bytes; ++i) {
        if (record.payload[i] != expected) {
            return testing::AssertionFailure()
                   << "byte " << i << " of record " << record.fields.immediate;
        }
    }
    return testing::AssertionSuccess();
}

Bytes random_length(Random& random) {
    return random.below(4) == 0 ? random.below(kDatagramBytes + 1) : random.below(100);
}

TEST_F(Queue, GivesBackWhatWasPushedAroundTheRingManyTimes) {
    const auto peer = attach();
    Random random(1);
    RecordView record;
    EXPECT_FALSE(consumer_.front(record));
    std::uint32_t pushed = 0;
    std::uint32_t taken = 0;
    while (taken < 20000) {
        const std::uint64_t burst = random.below(8);
        for (std::uint64_t i = 0; i < burst; ++i) {
            ASSERT_TRUE(push_numbered(*peer, 3, pushed++, random_length(random)));
        }
        while (consumer_.front(record)) {
            ASSERT_EQ(record.fields.immediate, taken);
            ASSERT_TRUE(intact(record));
            consumer_.pop();
            ++taken;
        }
        ASSERT_EQ(taken, pushed);
    }
    EXPECT_EQ(consumer_.garbage(), 0u);
}

TEST_F(Queue, IsFullAndThenHasRoomAgain) {
    const auto peer = attach();
    RecordFields fields;
    fields.length = kDatagramBytes;
    const auto nothing = [](std::byte*) {};
    std::uint32_t fit = 0;
    while (peer->producer().push(fields, kDatagramBytes, nothing) == Push::ok) {
        ASSERT_LT(++fit, 100u);
    }
    EXPECT_EQ(fit, 64 * kKiB / (kDatagramBytes + kGranule));
    RecordView record;
    ASSERT_TRUE(consumer_.front(record));
    consumer_.pop();
    ASSERT_TRUE(consumer_.front(record));
    consumer_.pop();
    EXPECT_EQ(peer->producer().push(fields, kDatagramBytes, nothing), Push::ok);
}

TEST_F(Queue, TakesMoreMemoryAheadOfItsUse) {
    create(kMiB);
    Header& header = *segment_->header();
    const std::uint64_t committed = header.committed.load();
    ASSERT_LT(committed, header.ring_granules);
    std::uint64_t end = 0;
    EXPECT_FALSE(wants_more(header, end)) << "there is enough";
    header.reserve.store(committed - 1);
    ASSERT_TRUE(wants_more(header, end));
    EXPECT_GT(end, committed);
    EXPECT_LE(end, header.ring_granules);
    header.committed.store(header.ring_granules);
    header.reserve.store(header.ring_granules - 1);
    EXPECT_FALSE(wants_more(header, end)) << "all of it has memory";
}

TEST_F(Queue, FourProcessesAreEachInOrderAndWhole) {
    constexpr std::uint32_t kEach = 20000;
    std::vector<pid_t> children;
    for (std::uint32_t who = 0; who < 4; ++who) {
        children.push_back(start([who](PeerSegment& peer) {
            Random random(who);
            for (std::uint32_t i = 0; i < kEach; ++i) {
                if (!push_numbered(peer, who, i, random_length(random))) {
                    return false;
                }
            }
            return true;
        }));
    }
    std::uint32_t next[4] = {};
    std::uint32_t total = 0;
    const Nanoseconds end = clock_.now() + 2 * kLong;
    RecordView record;
    while (total < 4 * kEach && clock_.now() < end) {
        while (consumer_.front(record)) {
            ASSERT_LT(record.fields.source_qp, 4u);
            ASSERT_EQ(record.fields.immediate, next[record.fields.source_qp]++);
            ASSERT_TRUE(intact(record));
            consumer_.pop();
            ++total;
        }
        consumer_.resolve_hole(); // must not take a slow producer for a dead one
    }
    EXPECT_EQ(total, 4 * kEach);
    for (const pid_t child : children) {
        EXPECT_EQ(wait_for(child), 0);
    }
    EXPECT_EQ(consumer_.holes(), 0u);
    EXPECT_EQ(consumer_.garbage(), 0u);
}

// A producer needs a descriptor to commit memory for the queue; here only the owner has one.
TEST_F(Queue, AProducerWithoutADescriptorWaitsForTheOwnersMemory) {
    ASSERT_NO_FATAL_FAILURE(create(256 * kKiB));
    const auto peer = attach();
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    RecordFields fields;
    fields.target_qp = 1;
    fields.length = 4096;
    const auto push_all = [&] {
        int pushed = 0;
        Push last = Push::ok;
        while ((last = peer->producer().push(fields, 4096, [](std::byte*) {})) == Push::ok) {
            ++pushed;
        }
        EXPECT_EQ(last, Push::full);
        return pushed;
    };
    const int first = push_all();
    EXPECT_LT(first, 16) << "as much as has memory from the beginning";
    int all = first;
    for (int step = 0; step < 4; ++step) {
        segment_->commit_ahead();
        all += push_all();
    }
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(all, 256 * 1024 / (4096 + 64)) << "the whole ring";
    RecordView record;
    for (int i = 0; i < all; ++i, consumer_.pop()) {
        ASSERT_TRUE(consumer_.front(record));
    }
}

TEST_F(Queue, MemoryThatWasRefusedIsAskedForAgain) {
    ASSERT_NO_FATAL_FAILURE(create(256 * kKiB));
    const auto peer = attach();
    Push answer = Push::no_memory;
    int asked = 0;
    Producer producer(segment_->base(), peer->producer().slot(), [&](std::uint64_t) {
        ++asked;
        return answer;
    });
    RecordFields fields;
    fields.target_qp = 1;
    fields.length = 4096;
    const auto push = [&] { return producer.push(fields, 4096, [](std::byte*) {}); };
    while (push() == Push::ok) {
        ASSERT_EQ(asked, 0) << "there is memory from the beginning";
    }
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(push(), Push::no_memory);
    EXPECT_EQ(asked, 2);
    answer = Push::ok;
    EXPECT_EQ(push(), Push::ok);
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(push(), Push::ok);
    EXPECT_EQ(asked, 3) << "memory for several";
}

TEST_F(Queue, ADeadProducersReservationIsSkipped) {
    const auto peer = attach();
    ASSERT_TRUE(push_numbered(*peer, 1, 0, 10));
    const pid_t child = start([](PeerSegment& mine) {
        std::uint64_t position = 0;
        const bool reserved = mine.producer().reserve(5, position) == Push::ok;
        raise(SIGKILL);
        return reserved;
    });
    siginfo_t info{}; // the child stays a zombie, which counts as dead, too
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    ASSERT_TRUE(push_numbered(*peer, 1, 1, 10));
    RecordView record;
    ASSERT_TRUE(consumer_.front(record));
    consumer_.pop();
    EXPECT_FALSE(consumer_.front(record)) << "behind the hole";
    EXPECT_TRUE(consumer_.stuck());
    EXPECT_TRUE(consumer_.resolve_hole());
    ASSERT_TRUE(consumer_.front(record));
    EXPECT_EQ(record.fields.immediate, 1u);
    EXPECT_TRUE(intact(record));
    EXPECT_EQ(consumer_.holes(), 1u);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child)));
}

TEST_F(Queue, ALivingProducersReservationIsWaitedFor) {
    const auto slow = attach();
    const auto fast = attach();
    std::uint64_t position = 0;
    ASSERT_EQ(slow->producer().reserve(2, position), Push::ok);
    ASSERT_TRUE(push_numbered(*fast, 1, 7, 10));
    RecordView record;
    for (int i = 0; i < 5000; ++i) {
        ASSERT_FALSE(consumer_.resolve_hole());
        ASSERT_FALSE(consumer_.front(record));
    }
}

TEST_F(Queue, ProducersKilledMidStreamDoNotStopTheOthers) {
    Random random(5);
    std::uint64_t from_the_living = 0;
    for (int round = 0; round < 15; ++round) {
        const pid_t victim = start([](PeerSegment& peer) {
            for (std::uint32_t i = 0;; ++i) {
                if (!push_numbered(peer, 1, i, i % 500)) {
                    return false;
                }
            }
        });
        const auto peer = attach();
        const Nanoseconds kill_at =
            clock_.now() +
            Nanoseconds{5'000'000 + static_cast<std::int64_t>(random.below(5'000'000))};
        const Nanoseconds end = clock_.now() + kLong;
        std::uint32_t sent = 0;
        std::uint32_t seen = 0;
        std::uint32_t from_victim = 0;
        bool killed = false;
        while ((seen < 200 || !killed) && clock_.now() < end) {
            if (!killed && clock_.now() >= kill_at) {
                ASSERT_EQ(kill(victim, SIGKILL), 0);
                wait_for(victim);
                killed = true;
            }
            RecordFields fields;
            fields.source_qp = 2;
            fields.immediate = sent;
            fields.length = 8;
            if (sent < 200 && peer->producer().push(fields, 8, [&](std::byte* at) {
                    std::memset(at, static_cast<int>(62 + sent), 8);
                }) == Push::ok) {
                ++sent;
            }
            RecordView record;
            while (consumer_.front(record)) {
                ASSERT_TRUE(intact(record));
                std::uint32_t& next = record.fields.source_qp == 2 ? seen : from_victim;
                ASSERT_EQ(record.fields.immediate, next++);
                consumer_.pop();
            }
            if (killed) {
                consumer_.resolve_hole();
            }
        }
        ASSERT_EQ(seen, 200u) << "round " << round;
        from_the_living += seen;
        RecordView record;
        while (consumer_.resolve_hole() || consumer_.front(record)) { // leftovers of the victim
            if (consumer_.front(record)) {
                consumer_.pop();
            }
        }
    }
    EXPECT_EQ(from_the_living, 15u * 200u);
    EXPECT_EQ(consumer_.garbage(), 0u);
}

// No producer tells that it has reserved it.
TEST_F(Queue, AReservationOfNobodyIsGivenUpAfterManyLooks) {
    const auto peer = attach();
    segment_->header()->reserve.fetch_add(1);
    ASSERT_TRUE(push_numbered(*peer, 1, 5, 24));
    int looks = 1;
    while (!consumer_.resolve_hole()) {
        ASSERT_LT(++looks, 10'000);
    }
    EXPECT_GT(looks, 100) << "a producer may be about to tell";
    EXPECT_EQ(consumer_.garbage(), 1u);
    RecordView record;
    ASSERT_TRUE(consumer_.front(record));
    EXPECT_EQ(record.fields.immediate, 5u);
}

TEST_F(Queue, GarbageIsCountedAndSkipped) {
    const auto peer = attach();
    Random random(9);
    std::byte* ring = segment_->base() + segment_->header()->ring_offset;
    const std::uint64_t granules = segment_->header()->ring_granules;
    for (int round = 0; round < 300; ++round) {
        const std::uint64_t at = segment_->header()->consumed.load();
        for (std::uint32_t i = 0; i < 5; ++i) {
            ASSERT_TRUE(push_numbered(*peer, 1, i, 24));
        }
        auto* header = reinterpret_cast<RecordHeader*>(ring + (at + 1) % granules * kGranule);
        ASSERT_EQ(header->immediate, 1u);
        switch (round % 4) {
        case 0: header->length = static_cast<std::uint32_t>(random.next()) | 0x10000; break;
        case 1: header->type = static_cast<RecordType>(77); break;
        case 2: header->state.store(random.next() | 1u << 31); break;
        default:
            for (Bytes i = 0; i < kGranule; ++i) {
                reinterpret_cast<std::byte*>(header)[i] = static_cast<std::byte>(random.next() | 1);
            }
        }
        std::uint32_t got = 0;
        RecordView record;
        while (consumer_.front(record)) {
            ASSERT_NE(record.fields.immediate, 1u);
            ++got;
            consumer_.pop();
        }
        ASSERT_EQ(got, 4u) << "round " << round;
        ASSERT_FALSE(consumer_.stuck());
    }
    EXPECT_EQ(consumer_.garbage(), 300u);
}

} // namespace
} // namespace adaptib::shm
