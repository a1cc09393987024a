// SPDX-License-Identifier: BSD-3-Clause
// The ring channel against a queue pair that can be mapped, or shows what it wrote byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "channel/ring.h"
#include "unit/null_rail.h"

namespace adaptib {
namespace {

class PlainRegion final : public MemoryRegion {
public:
    explicit PlainRegion(Bytes length)
        : MemoryRegion(std::aligned_alloc(kCacheLine, length), length) {
        std::memset(address_, 0, length);
    }
    ~PlainRegion() override { std::free(address_); }
};

class BorrowedRegion final : public MemoryRegion {
public:
    BorrowedRegion(void* address, Bytes length) : MemoryRegion(address, length) {}
};

// Only registration: the ring asks a rail for nothing else.
class MemoryRail final : public test::NullRail {
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<BorrowedRegion>(address, length);
        return kOk;
    }
};

// Writes into this process's memory; bytes of posted writes become visible when told to.
class MemoryQp final : public QueuePair {
public:
    MemoryQp() : QueuePair(QpType::rc) {}

    // Makes `count` further bytes visible, in address order.
    void show(std::size_t count) {
        while (count > 0 && !writes_.empty()) {
            Write& write = writes_.front();
            if (write.bytes.empty()) {
                complete_first();
                continue;
            }
            const std::size_t part = std::min(count, write.bytes.size() - write.shown);
            std::memcpy(write.to + write.shown, write.bytes.data() + write.shown, part);
            write.shown += part;
            count -= part;
            if (write.shown == write.bytes.size()) {
                complete_first();
            }
        }
        while (!writes_.empty() && writes_.front().bytes.empty()) {
            complete_first();
        }
    }
    // What is not visible yet never will be.
    void lose() { writes_.clear(); }
    // Completions of signaled writes since it was asked last.
    std::size_t completions() { return std::exchange(completions_, 0); }
    std::size_t hidden() const {
        std::size_t total = 0;
        for (const Write& write : writes_) {
            total += write.bytes.size() - write.shown;
        }
        return total;
    }

    // Whether what is not visible yet would change anything: the reader leaves zeros where a tail will be.
    bool done() const {
        return std::all_of(writes_.begin(), writes_.end(), [](const Write& write) {
            return std::equal(write.bytes.begin() + static_cast<std::ptrdiff_t>(write.shown),
                              write.bytes.end(), write.to + write.shown);
        });
    }

    bool mappable = true;
    bool up = true;
    bool gated = false;   // with a gate that is open
    bool inlined = false; // the last write
    Status post_result = kOk;

private:
    struct Write {
        std::byte* to;
        std::vector<std::byte> bytes;
        bool signaled = false;
        std::size_t shown = 0;
    };
    void complete_first() {
        completions_ += writes_.front().signaled ? 1 : 0;
        writes_.pop_front();
    }

    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status post_send_impl(const SendWork& work) override {
        if (!post_result.ok()) {
            return post_result;
        }
        EXPECT_EQ(work.opcode, Opcode::write);
        const bool signaled = (work.flags & kSignaled) != 0;
        auto* const to = reinterpret_cast<std::byte*>(work.remote_address);
        if (work.gather_count == 0) { // only its completion matters
            writes_.push_back({to, {}, signaled});
            return kOk;
        }
        EXPECT_NE(work.flags & kPublish, 0u);
        const auto* from = static_cast<const std::byte*>(work.gather[0].address);
        inlined = (work.flags & kInline) != 0;
        writes_.push_back({to, {from, from + work.gather[0].length}, signaled});
        return kOk;
    }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return mappable ? reinterpret_cast<void*>(address) : nullptr;
    }
    bool usable_impl() const override { return up; }
    Gate gate_impl() const override {
        Gate gate;
        if (gated) {
            gate.trouble = &zero_;
            gate.target = &zero_;
        }
        return gate;
    }

    std::deque<Write> writes_;
    std::size_t completions_ = 0;
    std::atomic<std::uint64_t> zero_{0};
};

struct Ring {
    explicit Ring(std::uint64_t units, bool mappable, Bytes inline_bytes = 0)
        : memory(units * kRingUnit), reader(static_cast<std::byte*>(memory.address()), units) {
        qp.mappable = mappable;
        writer = std::make_unique<RingWriter>(
            rail, qp,
            RingWriter::Target{reinterpret_cast<std::uintptr_t>(memory.address()), 0, units,
                               inline_bytes},
            &credit, 0);
    }

    bool send(const std::vector<std::byte>& payload) {
        for (std::size_t left = qp.completions(); left > 0; --left) {
            writer->on_completion();
        }
        const auto fill = [&](std::byte* to) { std::copy(payload.begin(), payload.end(), to); };
        MessageHeader header;
        header.type = type;
        header.flags = static_cast<std::uint8_t>(payload.size());
        header.length = static_cast<std::uint32_t>(payload.size());
        header.sequence = sequence;
        if (short_way && payload.size() < kLeftFrom && writer->store_short(header, fill)) {
            ++sequence;
            ++stored_short;
            return true;
        }
        std::byte* to = writer->reserve(payload.size());
        if (to == nullptr) {
            return false;
        }
        fill(to);
        ++sequence;
        return writer->commit(header).ok();
    }

    RingReader::Found take(std::vector<std::byte>& payload, std::uint32_t& number) {
        MessageHeader header;
        const std::byte* body = nullptr;
        const std::uint64_t head = reader.head();
        const bool brief = static_cast<std::uint16_t>(head >> 16) == kBriefMagic;
        RingReader::Found found = RingReader::Found::message;
        const RingReader::Short quick =
            short_way && head != 0 ? reader.take_short(head) : RingReader::Short{};
        if (quick.body != nullptr) {
            header.type = quick.type;
            header.flags = quick.flags;
            header.sequence = quick.sequence;
            header.length = quick.length;
            body = quick.body;
            ++taken_short;
        } else {
            found = reader.poll(header, body);
        }
        if (found == RingReader::Found::message) {
            payload.assign(body, body + header.length);
            number = header.sequence;
            taken_type = header.type;
            EXPECT_EQ(header.flags, static_cast<std::uint8_t>(header.length));
            taken_brief += brief ? 1 : 0;
            reader.consume(header.sequence);
            if (reader.credit_due()) {
                credit = reader.consumed();
                reader.credit_told();
            }
        }
        return found;
    }

    PlainRegion memory;
    std::uint64_t credit = 0;
    MemoryRail rail;
    MemoryQp qp;
    RingReader reader;
    std::unique_ptr<RingWriter> writer;
    std::uint32_t sequence = 0;
    MessageType type = MessageType::eager; // of the next message
    MessageType taken_type = MessageType::none;
    bool short_way = false; // for what takes it
    std::uint32_t stored_short = 0;
    std::uint32_t taken_brief = 0;
    std::uint32_t taken_short = 0;
};

std::vector<std::byte> payload_of(std::uint32_t number, std::size_t size) {
    std::vector<std::byte> payload(size);
    Random random(number);
    for (std::byte& byte : payload) {
        // Zero bytes and bytes like a header's are the ones that could mislead the reader.
        byte = static_cast<std::byte>(random.below(4) == 0 ? 0 : random.next() & 0xff);
    }
    return payload;
}

class RingModes : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Mapped, RingModes, testing::Bool());

// The next message, if there is one, is the one that it should be.
void take_next(Ring& ring, std::deque<std::size_t>& sizes, std::uint32_t& received) {
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const RingReader::Found found = ring.take(payload, number);
    ASSERT_NE(found, RingReader::Found::garbage);
    if (found == RingReader::Found::message) {
        ASSERT_EQ(number, received);
        ASSERT_EQ(payload, payload_of(received, sizes.front()));
        sizes.pop_front();
        ++received;
    }
}

TEST_P(RingModes, RandomTrafficComesOutAsItWentIn) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(90));
        Ring ring(units, GetParam());
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::uint32_t received = 0;
        std::deque<std::size_t> sizes;
        for (int step = 0; step < 2000; ++step) {
            const std::size_t size = random.below(longest + 1);
            if (random.below(2) == 0 && ring.send(payload_of(ring.sequence, size))) {
                sizes.push_back(size);
            }
            ring.qp.show(random.below(800));
            if (random.below(50) == 0) {
                ring.qp.up = random.below(2) == 0 && ring.qp.hidden() == 0;
            }
            ASSERT_NO_FATAL_FAILURE(take_next(ring, sizes, received));
        }
        EXPECT_GT(received, 100u);
    }
}

// The home moves: nothing is posted from hold() on, and all that was is there before it goes on elsewhere.
TEST_P(RingModes, GoesOnOverAnotherQueuePairInOrder) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(90));
        Ring ring(units, GetParam());
        MemoryQp other;
        other.mappable = GetParam();
        MemoryRail rails[2];
        std::size_t at = 0;
        MemoryQp* qps[2] = {&ring.qp, &other};
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::uint32_t received = 0;
        std::deque<std::size_t> sizes;
        int moves = 0;
        bool held = false;
        for (int step = 0; step < 4000; ++step) {
            const std::size_t size = random.below(longest + 1);
            const bool sent = random.below(2) == 0 && ring.send(payload_of(ring.sequence, size));
            if (sent) {
                sizes.push_back(size);
                ASSERT_TRUE(!held || ring.writer->direct());
            }
            ASSERT_EQ(qps[1 - at]->hidden(), 0u);
            qps[at]->show(random.below(800));
            for (std::size_t left = qps[at]->completions(); left > 0; --left) {
                ring.writer->on_completion();
            }
            if (held && qps[at]->hidden() == 0 && ring.writer->settled()) {
                at = 1 - at;
                ring.writer->move_to(rails[at], *qps[at], 0, 0);
                EXPECT_TRUE(ring.writer->posts_to(*qps[at]));
                EXPECT_FALSE(ring.writer->posts_to(*qps[1 - at]));
                held = false;
                ++moves;
            } else if (held && random.below(50) == 0) {
                ring.writer->release();
                held = false;
            } else if (!held && random.below(20) == 0) {
                ASSERT_TRUE(ring.writer->hold(rails[1 - at]).ok());
                held = true;
            }
            if (random.below(50) == 0) {
                qps[random.below(2)]->up = random.below(2) == 0;
            }
            ASSERT_NO_FATAL_FAILURE(take_next(ring, sizes, received));
        }
        EXPECT_GT(received, 100u);
        EXPECT_GT(moves, 20);
    }
}

// What was posted over the old queue pair and is not known to be consumed can be sent again after a move.
TEST(Ring, WhatIsInDoubtIsKeptAcrossAMove) {
    Ring ring(64, false);
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ASSERT_TRUE(ring.send(payload_of(1, 100)));
    MemoryRail rail;
    MemoryQp other;
    other.mappable = false;
    ASSERT_TRUE(ring.writer->hold(rail).ok());
    EXPECT_FALSE(ring.send(payload_of(2, 100)));
    ring.qp.show(ring.qp.hidden());
    ASSERT_TRUE(ring.writer->settled());
    ring.writer->move_to(rail, other, 0, kRingInline);
    EXPECT_TRUE(ring.send(payload_of(2, 20)));
    EXPECT_TRUE(other.inlined);
    EXPECT_EQ(ring.qp.hidden(), 0u);
    EXPECT_GT(other.hidden(), 0u);
    std::vector<std::uint32_t> numbers;
    EXPECT_TRUE(ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte*) {
        numbers.push_back(header.sequence);
    }));
    EXPECT_EQ(numbers, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(Ring, AMoveThatTheNextRailHasNoRoomForIsRefused) {
    class FullRail final : public test::NullRail {
        Status register_impl(void*, Bytes, std::uint32_t, std::unique_ptr<MemoryRegion>&) override {
            return Status::error(Reason::no_memory);
        }
    } full;
    Ring ring(64, false);
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    EXPECT_FALSE(ring.writer->hold(full).ok());
    EXPECT_TRUE(ring.send(payload_of(1, 100))) << "it goes on as before";
}

struct Sent {
    std::uint32_t number;
    std::size_t size;
    MessageType type;
};

// Both ways to write and to read a message may follow each other, whatever comes between: long messages that
// are left where they are, the ring's end, a full ring.
TEST(Ring, TheShortWayGivesTheSame) {
    Random random(11);
    for (const std::uint64_t units : {64u, 128u, 1024u}) {
        Ring ring(units, true);
        ring.qp.gated = true;
        const Bytes longest = units * kRingUnit / 2 - 256;
        std::deque<Sent> sent;
        bool full = false;
        for (int step = 0; step < 20000; ++step) {
            ring.short_way = random.below(3) != 0;
            ring.type = random.below(2) == 0 ? MessageType::active : MessageType::eager;
            if (random.below(16) == 0) {
                ring.sequence += static_cast<std::uint32_t>(random.below(3)) << 16;
            }
            const Bytes most = random.below(1000) == 0 ? longest
                               : random.below(8) == 0  ? std::min<Bytes>(longest, kLeftFrom)
                                                       : 64;
            const std::size_t size = random.below(most);
            if (random.below(2) == 0) {
                const Sent next{ring.sequence, size, ring.type};
                if (ring.send(payload_of(next.number, size))) {
                    sent.push_back(next);
                } else {
                    full = true;
                }
            }
            ring.short_way = random.below(3) != 0;
            std::vector<std::byte> payload;
            std::uint32_t number = 0;
            if (random.below(200) == 0) {
                while (!sent.empty()) {
                    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
                    ASSERT_EQ(number, sent.front().number);
                    ASSERT_EQ(ring.taken_type, sent.front().type);
                    ASSERT_EQ(payload, payload_of(number, sent.front().size));
                    sent.pop_front();
                }
                ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
            }
        }
        EXPECT_TRUE(full);
        EXPECT_GT(ring.stored_short, 500u);
        EXPECT_GT(ring.taken_short, 500u);
        EXPECT_GT(ring.taken_brief, 300u);
    }
}

// Of 22 bytes: ob1's header and 8 of data.
TEST(Ring, TwoBriefMessagesShareALine) {
    Ring ring(64, true);
    ring.qp.gated = true;
    ring.short_way = true;
    ring.type = MessageType::active;
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    const auto units_of_next = [&] {
        const std::uint64_t before = ring.reader.consumed();
        EXPECT_TRUE(ring.send(payload_of(ring.sequence, 22)));
        EXPECT_EQ(ring.take(payload, number), RingReader::Found::message);
        EXPECT_EQ(number + 1, ring.sequence);
        EXPECT_EQ(payload, payload_of(number, 22));
        return ring.reader.consumed() - before;
    };
    EXPECT_EQ(units_of_next(), 2u); // the first one asks the queue pair whether it can be stored
    EXPECT_EQ(units_of_next(), 1u);
    EXPECT_EQ(units_of_next(), 1u);
    ring.sequence += 0x10000; // the low bits of its number are the same: it has all of it
    EXPECT_EQ(units_of_next(), 2u);
    EXPECT_EQ(units_of_next(), 1u);
    ring.type = MessageType::eager;
    EXPECT_EQ(units_of_next(), 2u);
    ring.type = MessageType::active;
    EXPECT_EQ(units_of_next(), 1u);
}

// Who waits for answers uses the beginning of the ring again and again; who does not uses all of it.
TEST(Ring, ShortLapsWhereTheReaderKeepsUp) {
    constexpr std::uint64_t kUnits = 4096;
    Ring ring(kUnits, true);
    const std::byte* const begin = ring.reader.next();
    Random random(1);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t i = 0; i < 20'000; ++i) {
        ring.short_way = random.below(2) == 0;
        const bool large = i / 1000 % 2 != 0;
        const std::size_t size = random.below(large ? 3 * kLeftFrom : 200);
        ASSERT_TRUE(ring.send(payload_of(i, size)));
        if (!large && i % 1000 > 600 && random.below(40) == 0) { // once it is late
            ++i;
            ASSERT_TRUE(ring.send(payload_of(i, size)));
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, payload_of(i, size));
        if (large || i <= 600 || i % 1000 > 600) { // before that it becomes short again
            constexpr std::uint64_t kLargest = 3 * kLeftFrom / kRingUnit + 1;
            const std::uint64_t most = large      ? 2 * kShortLapMessages * kLargest
                                       : i <= 600 ? kShortLap
                                                  : 2 * kShortLap;
            ASSERT_LE(ring.reader.next() - begin, static_cast<std::ptrdiff_t>(most * kRingUnit));
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    }
    constexpr std::uint64_t kMessage = 4; // units of one with 100 bytes
    do {                                  // until a lap has just begun
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 100)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    } while (ring.reader.next() != begin + kMessage * kRingUnit);
    EXPECT_TRUE(ring.writer->lapped());
    std::uint32_t burst = 0;
    bool all_used = true;
    while (ring.send(payload_of(ring.sequence, 100))) {
        ++burst;
        all_used = all_used && ring.writer->lapped();
    }
    EXPECT_FALSE(all_used);
    EXPECT_EQ(burst, kUnits / kMessage);
    for (std::uint32_t round = 0; round < 2; ++round) { // from where it is, and with all room
        for (std::uint32_t left = burst; left > 0; --left) {
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
            ASSERT_EQ(payload, payload_of(number, 100));
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
        for (burst = 0; ring.send(payload_of(ring.sequence, 100));) {
            ++burst;
        }
    }
    EXPECT_EQ(burst, kUnits / kMessage);
}

// Readers that keep up for a while and then do not, messages that are left in the ring and short ones, stores and posts.
TEST(Ring, NothingIsLostBetweenShortLapsAndLongOnes) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = std::uint64_t{256} << random.below(5);
        Ring ring(units, true);
        const Bytes longest = units * kRingUnit / 2 - 3 * kRingUnit;
        const bool posts = seed % 3 == 0;
        std::deque<std::size_t> sizes;
        std::uint32_t received = 0;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        const auto take = [&] {
            ring.qp.show(ring.qp.hidden());
            const RingReader::Found found = ring.take(payload, number);
            if (found == RingReader::Found::message) {
                ASSERT_FALSE(sizes.empty());
                ASSERT_EQ(number, received);
                ASSERT_EQ(payload, payload_of(received++, sizes.front()));
                sizes.pop_front();
                return;
            }
            ASSERT_EQ(found, RingReader::Found::nothing);
            ASSERT_TRUE(sizes.empty());
        };
        for (int phase = 0; phase < 40; ++phase) {
            const std::size_t behind = random.below(3) == 0 ? random.below(400) : random.below(3);
            const Bytes most = random.below(3) == 0 ? std::min<Bytes>(longest, 6000) : 300;
            ring.short_way = random.below(3) != 0;
            ring.qp.up = !posts || random.below(4) != 0;
            for (int step = 0; step < 300; ++step) {
                const std::size_t size = random.below(most);
                if (ring.send(payload_of(ring.sequence, size))) {
                    sizes.push_back(size);
                }
                while (!HasFatalFailure() && sizes.size() > behind) {
                    take();
                }
                if (sizes.empty()) {
                    take();
                }
                ASSERT_FALSE(HasFatalFailure());
                ring.writer->flushed();
                for (std::size_t left = ring.qp.completions(); left > 0; --left) {
                    ring.writer->on_completion();
                }
            }
        }
        EXPECT_GT(received, 3000u);
    }
}

// What does not lie in the ring as a whole is never taken the short way.
TEST(Ring, TheShortWayKeepsToTheRing) {
    Ring ring(64, true);
    ring.short_way = true;
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (int i = 0; i < 63; ++i) {
        ASSERT_TRUE(ring.send(payload_of(ring.sequence, 8)));
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    }
    MessageHeader header; // one unit is left
    const auto is_taken = [&](MessageType type, std::uint64_t length) {
        header.type = type;
        header.length = static_cast<std::uint32_t>(length);
        return ring.reader.take_short(header.head_word()).body != nullptr;
    };
    for (const MessageType type : {MessageType::eager, MessageType::active}) {
        EXPECT_TRUE(is_taken(type, 8));
        EXPECT_FALSE(is_taken(type, 9));
        EXPECT_FALSE(is_taken(type, kLeftFrom));
        EXPECT_FALSE(is_taken(type, 0xffffffff));
    }
    EXPECT_FALSE(is_taken(MessageType::skip, 0));
    const auto brief_is_taken = [&](Bytes length, std::uint32_t sequence) {
        header.type = MessageType::active;
        header.length = static_cast<std::uint32_t>(length);
        header.sequence = sequence;
        return ring.reader.take_short(ring_brief_word(header)).body != nullptr;
    };
    EXPECT_TRUE(brief_is_taken(24, ring.sequence));
    EXPECT_FALSE(brief_is_taken(25, ring.sequence));
    EXPECT_FALSE(brief_is_taken(kLeftFrom, ring.sequence));
    EXPECT_FALSE(brief_is_taken(0xffff, ring.sequence));
    EXPECT_FALSE(brief_is_taken(24, ring.sequence + 1));
}

// What was posted may be under way still when the queue pair can be stored through again.
TEST(Ring, StoresDoNotOvertakeWhatWasPosted) {
    Ring ring(64, true);
    ring.qp.up = false;
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ring.qp.up = true;
    EXPECT_FALSE(ring.send(payload_of(1, 100)));
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    ring.qp.show(ring.qp.hidden());
    EXPECT_TRUE(ring.send(payload_of(1, 100)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(0, 100));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(1, 100));
}

// What the peer may not have is known, in order, across the ring's end.
TEST(Ring, WhatIsInDoubtIsWhatTheReaderHasNotTold) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    std::uint32_t taken = 0;
    for (int step = 0; step < 300; ++step) {
        if (ring.send(payload_of(ring.sequence, 40 + ring.sequence % 90))) {
            ring.qp.show(ring.qp.hidden());
        } else if (ring.take(payload, number) == RingReader::Found::message) {
            ++taken;
        }
        std::uint32_t first = ring.sequence;
        std::uint32_t next = 0;
        ASSERT_TRUE(
            ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                if (first == ring.sequence) {
                    first = next = header.sequence;
                }
                ASSERT_EQ(header.sequence, next++);
                const std::vector<std::byte> sent =
                    payload_of(header.sequence, 40 + header.sequence % 90);
                ASSERT_EQ(header.length, sent.size());
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
            }));
        ASSERT_LE(first, taken);
        ASSERT_TRUE(first == ring.sequence || next == ring.sequence);
    }
    EXPECT_GT(taken, 100u);
    ring.credit = 1u << 20; // more than was ever sent
    EXPECT_FALSE(ring.writer->for_each_in_doubt([](const MessageHeader&, const std::byte*) {}));
}

// A connection breaks after its messages were posted for a while, and stored again: what is in doubt, and nothing else,
// is known.
TEST(Ring, NothingIsLostAndNothingInventedWhereMessagesAreStoredAgain) {
    std::size_t stored_last = 0;
    std::size_t repeated = 0;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
        SCOPED_TRACE(seed);
        Random random(seed);
        const std::uint64_t units = 2 * (4 + random.below(40));
        Ring ring(units, true);
        const std::size_t longest = units / 2 * kRingUnit - kRingOverhead;
        std::vector<std::size_t> sizes;
        std::uint32_t received = 0;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        const auto take = [&] {
            const RingReader::Found found = ring.take(payload, number);
            ASSERT_NE(found, RingReader::Found::garbage);
            if (found == RingReader::Found::message) {
                ASSERT_EQ(number, received);
                ASSERT_EQ(payload, payload_of(received, sizes[received]));
                ++received;
            }
        };
        bool posted = false;
        for (auto steps = 50 + random.below(400); steps > 0; --steps) {
            const std::size_t size = random.below(longest + 1);
            if (random.below(2) == 0 && ring.send(payload_of(ring.sequence, size))) {
                sizes.push_back(size);
            }
            posted = posted || !ring.writer->direct();
            ring.qp.show(random.below(800));
            if (random.below(20) == 0) {
                ring.qp.up = random.below(3) != 0;
            }
            ASSERT_NO_FATAL_FAILURE(take());
        }
        std::vector<std::uint32_t> doubted;
        ASSERT_TRUE(
            ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                ASSERT_EQ(header.type, MessageType::eager);
                ASSERT_LT(header.sequence, ring.sequence);
                const std::size_t size = sizes[header.sequence];
                ASSERT_EQ(header.length, size);
                const std::vector<std::byte> sent = payload_of(header.sequence, size);
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
                doubted.push_back(header.sequence);
            }));
        for (std::size_t i = 0; i < doubted.size(); ++i) {
            ASSERT_EQ(doubted[i], ring.sequence - doubted.size() + i) << "the last ones, in order";
        }
        const bool stored = ring.writer->direct();
        ASSERT_TRUE(!stored || doubted.empty());
        stored_last += posted && stored ? 1 : 0;
        repeated += doubted.size();
        ring.qp.lose();
        for (std::uint32_t before = received + 1; before != received;) {
            before = received;
            ASSERT_NO_FATAL_FAILURE(take());
        }
        ASSERT_GE(received + doubted.size(), ring.sequence) << "some are lost";
    }
    EXPECT_GT(stored_last, 100u);
    EXPECT_GT(repeated, 100u);
}

// Whether what was posted has arrived cannot be asked: then it is not taken for granted.
TEST(Ring, AnErrorIsNoArrival) {
    Ring ring(64, true);
    ring.qp.up = false;
    ASSERT_TRUE(ring.send(payload_of(0, 100)));
    ring.qp.up = true;
    ring.qp.post_result = Status::error(Reason::bad_state);
    EXPECT_FALSE(ring.send(payload_of(1, 100)));
    EXPECT_FALSE(ring.writer->direct());
    std::size_t doubted = 0;
    EXPECT_TRUE(ring.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte*) {
        EXPECT_EQ(header.sequence, 0u);
        ++doubted;
    }));
    EXPECT_EQ(doubted, 1u);
}

TEST_P(RingModes, AFullRingTakesNothingUntilCreditComes) {
    Ring ring(8, GetParam());
    int sent = 0;
    while (ring.send({})) { // one unit each, stored or posted
        ++sent;
    }
    EXPECT_EQ(sent, 8);
    ring.qp.show(ring.qp.hidden());
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
        EXPECT_FALSE(ring.send({})) << "credit is told after half the ring only";
    }
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_TRUE(ring.send({}));
}

TEST(Ring, AMessageThatTheQueuePairTakesInlineIsPostedSo) {
    Ring ring(64, false, 96);
    ASSERT_TRUE(ring.send(payload_of(1, 64)));
    EXPECT_TRUE(ring.qp.inlined);
    ASSERT_TRUE(ring.send(payload_of(2, 65)));
    EXPECT_FALSE(ring.qp.inlined);
    Ring never(64, false, 0);
    ASSERT_TRUE(never.send({}));
    EXPECT_FALSE(never.qp.inlined);
}

// Where messages go both ways, no count is written by itself.
TEST(Ring, CreditGoesAlongWithMessages) {
    Ring there(128, false);
    Ring back(128, false);
    Ring* const ways[] = {&there, &back};
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    std::uint32_t told = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
        Ring& to = *ways[i % 2];
        Ring& from = *ways[1 - i % 2];
        const std::vector<std::byte> expected = payload_of(i, i % 200);
        ASSERT_TRUE(to.send(expected)) << i;
        to.qp.show(to.qp.hidden());
        ASSERT_EQ(to.take(payload, number), RingReader::Found::message);
        ASSERT_EQ(payload, expected);
        told += exchange_credit(to.reader, *from.writer) ? 1 : 0;
        std::uint32_t doubted = 0;
        ASSERT_TRUE(
            to.writer->for_each_in_doubt([&](const MessageHeader& header, const std::byte* body) {
                const std::uint32_t of = 2 * header.sequence + i % 2;
                const std::vector<std::byte> sent = payload_of(of, of % 200);
                ASSERT_TRUE(std::equal(sent.begin(), sent.end(), body));
                ++doubted;
            }));
        EXPECT_LE(doubted, 64u);
    }
    EXPECT_GT(told, 100u);
    EXPECT_EQ(there.credit, 0u);
    EXPECT_EQ(back.credit, 0u);
}

TEST(Ring, ACountOfMoreThanWasSentIsNotBelieved) {
    Ring ring(8, false);
    while (ring.send({})) {
    }
    ring.writer->heard(9);
    EXPECT_FALSE(ring.send({}));
    ring.writer->heard(1);
    EXPECT_TRUE(ring.send({}));
    ring.writer->heard(0); // an old one
    EXPECT_FALSE(ring.send({}));
}

// Lap after lap over what the messages before have left, of the same length at the same places.
TEST(Ring, AHalfVisibleMessageIsNotThere) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t sent = 0; sent < 600; ++sent) {
        const std::vector<std::byte> expected = payload_of(sent, 200);
        ASSERT_TRUE(ring.send(expected));
        while (!ring.qp.done()) {
            ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing)
                << "message " << sent << ", " << ring.qp.hidden() << " bytes before its end";
            ring.qp.show(1);
        }
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::message) << sent;
        ring.qp.show(ring.qp.hidden());
        ASSERT_EQ(number, sent);
        ASSERT_EQ(payload, expected);
    }
}

TEST(Ring, ASkipIsTakenOnceItIsWhole) {
    Ring ring(16, false);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t sent = 0; sent < 200; ++sent) {
        const std::vector<std::byte> expected = payload_of(sent, 150); // six units: 4 are skipped
        ASSERT_TRUE(ring.send(expected));
        RingReader::Found found = RingReader::Found::nothing;
        while (!ring.qp.done()) {
            ASSERT_EQ(found, RingReader::Found::nothing);
            ring.qp.show(1);
            found = ring.take(payload, number);
        }
        ASSERT_EQ(found, RingReader::Found::message) << sent;
        ring.qp.show(ring.qp.hidden());
        ASSERT_EQ(number, sent);
        ASSERT_EQ(payload, expected);
    }
}

TEST(Ring, ABeginningThatStaysOneIsGarbageInTheEnd) {
    Ring ring(16, false);
    *static_cast<std::uint64_t*>(ring.memory.address()) = 0x1c0002; // type, half of the magic
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    for (std::uint32_t i = 1; i < kBegunPolls; ++i) {
        ASSERT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    }
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::garbage);
}

TEST(Ring, WhatNoMessageBeginsWithIsGarbageAtOnce) {
    // The last ones: brief, but no active message, of another number, too long for a short one, and for the ring.
    const std::uint64_t words[] = {0x1b0002,        0xad0002,      0x100000002,
                                   0xffff0002,      0x1001c0002,   0x8ad1f0002,
                                   0x10008ad1f000f, 0x300ad1f000f, 0xffffad1f000f};
    for (const std::uint64_t word : words) {
        Ring ring(16, false);
        *static_cast<std::uint64_t*>(ring.memory.address()) = word;
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        EXPECT_EQ(ring.take(payload, number), RingReader::Found::garbage) << std::hex << word;
    }
}

TEST(Ring, AnAbandonedReservationLeavesNoTrace) {
    Ring ring(16, true);
    std::byte* to = ring.writer->reserve(300);
    ASSERT_NE(to, nullptr);
    std::fill_n(to, 300, std::byte{0xff});
    ring.writer->abandon(300);
    std::vector<std::byte> payload;
    std::uint32_t number = 0;
    ASSERT_TRUE(ring.send(payload_of(1, 8)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(ring.take(payload, number), RingReader::Found::nothing);
    ASSERT_TRUE(ring.send(payload_of(2, 8)));
    ASSERT_EQ(ring.take(payload, number), RingReader::Found::message);
    EXPECT_EQ(payload, payload_of(2, 8));
}

TEST(Ring, GarbageIsNamedGarbage) {
    for (std::uint64_t seed = 1; seed < 2000; ++seed) {
        Ring ring(16, true);
        Random random(seed);
        auto* words = static_cast<std::uint64_t*>(ring.memory.address());
        for (int i = 0; i < 16 * 4; ++i) {
            words[i] = random.next();
        }
        if (random.below(2) == 0) {
            MessageHeader header; // a believable start with an impossible length
            header.type = MessageType::eager;
            header.length = static_cast<std::uint32_t>(random.next());
            std::memcpy(words, &header, sizeof header);
        }
        std::vector<std::byte> payload;
        std::uint32_t number = 0;
        ASSERT_NE(ring.take(payload, number), RingReader::Found::message);
    }
}

TEST(Ring, AFailedPostIsReported) {
    Ring ring(16, false);
    ring.qp.post_result = Status::error(Reason::bad_state);
    ASSERT_NE(ring.writer->reserve(8), nullptr);
    MessageHeader header;
    header.type = MessageType::eager;
    header.length = 8;
    EXPECT_EQ(ring.writer->commit(header), Status::error(Reason::bad_state));
}

} // namespace
} // namespace adaptib
