// SPDX-License-Identifier: BSD-3-Clause
// Both sides of a ring in one process, joined by a queue pair that can be mapped, or that reveals
// posted bytes one by one.
// May touch: channel/ring_reader.h, channel/ring_writer.h, base/, fabric/fabric.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "channel/ring_reader.h"
#include "channel/ring_writer.h"
#include "unit/null_rail.h"

namespace adaptib::test {

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

// Implements registration only: the ring asks its rail for nothing else.
class MemoryRail final : public NullRail {
    Status register_impl(void* address, Bytes length, std::uint32_t,
                         std::unique_ptr<MemoryRegion>& out) override {
        out = std::make_unique<BorrowedRegion>(address, length);
        return kOk;
    }
};

// Writes into this process's memory; bytes of posted writes become visible when the test says so.
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
            if (write.pieces.size() > 1) { // the device reads as late as it may
                write.read();
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
    // Drops the writes that are not visible yet.
    void lose() { writes_.clear(); }
    // Completions of signaled writes since the previous call.
    std::size_t completions() { return std::exchange(completions_, 0); }
    std::size_t hidden() const {
        std::size_t total = 0;
        for (const Write& write : writes_) {
            total += write.bytes.size() - write.shown;
        }
        return total;
    }

    // True if showing the rest would change nothing: the reader leaves zeros where a tail will be.
    bool done() const {
        return std::all_of(writes_.begin(), writes_.end(), [](const Write& write) {
            return std::equal(write.bytes.begin() + static_cast<std::ptrdiff_t>(write.shown),
                              write.bytes.end(), write.to + write.shown);
        });
    }

    // Answers commits; null: they all succeed.
    std::function<Status(std::byte* at, Bytes length)> commits;
    bool mappable = true;
    bool up = true;
    bool guarded = false; // has a guard, which is open
    bool inlined = false; // the last write was inline
    Status post_result = kOk;

private:
    struct Write {
        std::byte* to;
        std::vector<std::byte> bytes;
        bool signaled = false;
        std::size_t shown = 0;
        std::vector<Gather> pieces = {};

        void read() {
            bytes.clear();
            for (const Gather& piece : pieces) {
                const auto* from = static_cast<const std::byte*>(piece.address);
                bytes.insert(bytes.end(), from, from + piece.length);
            }
        }
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
        if (work.gather_count == 0) { // only the completion matters
            writes_.push_back({to, {}, signaled});
            return kOk;
        }
        EXPECT_NE(work.flags & kPublish, 0u);
        inlined = (work.flags & kInline) != 0;
        writes_.push_back({to, {}, signaled});
        writes_.back().pieces.assign(work.gather, work.gather + work.gather_count);
        writes_.back().read();
        return kOk;
    }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return mappable ? reinterpret_cast<void*>(address) : nullptr;
    }
    Status commit_impl(std::uint64_t address, Bytes length, std::uint32_t) override {
        return commits ? commits(reinterpret_cast<std::byte*>(address), length) : kOk;
    }
    bool usable_impl() const override { return up; }
    FastPathGuard fast_path_guard_impl() const override {
        FastPathGuard guard;
        if (guarded) {
            guard.faults = &zero_;
            guard.target = &zero_;
        }
        return guard;
    }

    std::deque<Write> writes_;
    std::size_t completions_ = 0;
    std::atomic<std::uint64_t> zero_{0};
};

struct Ring {
    Ring(std::uint64_t units, bool mappable, Bytes inline_bytes = 0,
         const RingHabits& habits = ring_habits())
        : memory(units * kRingUnit),
          reader(static_cast<std::byte*>(memory.address()), units, habits) {
        qp.mappable = mappable;
        write_into({reinterpret_cast<std::uintptr_t>(memory.address()), 0, units, inline_bytes, 0},
                   habits);
    }
    // A ring that can be mapped, in the caller's memory, with the caller's word for its room.
    Ring(std::byte* lines, std::uint64_t units, std::uint64_t& room,
         const RingHabits& habits = ring_habits())
        : memory(kCacheLine),
          reader(lines, units, habits, RingRoom(reinterpret_cast<std::byte*>(&room))) {
        write_into({reinterpret_cast<std::uintptr_t>(lines), 0, units, 0,
                    reinterpret_cast<std::uintptr_t>(&room)},
                   habits);
    }
    void write_into(const RingTarget& target, const RingHabits& habits) {
        writer = std::make_unique<RingWriter>(rail, qp, target, &credit, 0, habits);
    }

    bool send(const std::vector<std::byte>& payload) {
        for (std::size_t left = qp.completions(); left > 0; --left) {
            writer->poster().on_completion();
        }
        const auto fill = [&](std::byte* to) { std::copy(payload.begin(), payload.end(), to); };
        MessageHeader header;
        header.type = type;
        header.flags = static_cast<std::uint8_t>(payload.size());
        header.length = static_cast<std::uint32_t>(payload.size());
        header.sequence = sequence;
        if (fast_path && payload.size() < kRetainedFrom && writer->store_short(header, fill)) {
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

    // Takes all messages of a writer into this ring, which may have moved elsewhere: calls
    // f(header, body) for each.
    template <typename F> void take_all(RingWriter& from, F&& f) {
        qp.show(~std::size_t{0});
        for (std::size_t left = qp.completions(); left > 0; --left) {
            from.poster().on_completion();
        }
        MessageHeader header;
        const std::byte* body = nullptr;
        while (reader.poll(header, body) == RingReader::Found::message) {
            f(std::as_const(header), body);
            reader.consume(header.sequence);
            return_credit();
        }
    }
    RingReader::Found take(std::vector<std::byte>& payload, std::uint32_t& number) {
        MessageHeader header;
        const std::byte* body = nullptr;
        if (reader.has_deferred()) {
            reader.release_deferred();
            return_credit();
        }
        const std::uint64_t head = reader.head();
        const bool compact = static_cast<std::uint16_t>(head >> 16) == kCompactMagic;
        const auto note = [&](std::uint8_t flags, std::uint32_t sent_as, std::uint32_t length) {
            payload.assign(body, body + length);
            number = sent_as;
            EXPECT_EQ(flags, static_cast<std::uint8_t>(length));
            taken_compact += compact ? 1 : 0;
        };
        RingReader::Found found = RingReader::Found::message;
        const bool quick = fast_path && with_ring_kind(head, [&]<std::uint64_t kKind>() {
                               RingReader::Short what;
                               if (!reader.take_short<kKind>(head, what)) {
                                   return false;
                               }
                               body = what.body;
                               taken_type =
                                   static_cast<MessageType>(static_cast<std::uint8_t>(kKind));
                               note(what.flags, what.sequence, what.length);
                               if (defers && ring_kind_is_retained(kKind)) {
                                   reader.defer_release<kKind>(what);
                                   ++deferred;
                               } else {
                                   reader.consume_short<kKind>(what);
                               }
                               ++taken_short;
                               return true;
                           });
        if (!quick) {
            found = reader.poll(header, body);
            if (found == RingReader::Found::message) {
                taken_type = header.type;
                note(header.flags, header.sequence, header.length);
                reader.consume(header.sequence);
            }
        }
        return_credit(); // skips count, too
        return found;
    }
    void return_credit() {
        if (reader.credit_due()) {
            credit = reader.consumed();
            reader.credit_returned();
        }
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
    bool fast_path = false; // tries the fast paths
    bool defers = false;    // defers releases where possible, until the next take()
    std::uint32_t stored_short = 0;
    std::uint32_t taken_compact = 0;
    std::uint32_t taken_short = 0;
    std::uint32_t deferred = 0;
};

inline std::vector<std::byte> payload_of(std::uint32_t number, std::size_t size) {
    std::vector<std::byte> payload(size);
    Random random(number);
    for (std::byte& byte : payload) {
        // The bytes that could mislead the reader are zeros and bytes like a header's.
        byte = static_cast<std::byte>(random.below(4) == 0 ? 0 : random.next() & 0xff);
    }
    return payload;
}

} // namespace adaptib::test
