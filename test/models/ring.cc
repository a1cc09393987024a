// SPDX-License-Identifier: BSD-3-Clause
// Model of a ring in shared memory (channel/ring_layout.h): a writer that stores and a reader that
// polls, with credit, laps, retained messages, memory that grows and is taken back.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "channel/ring_reader.h"
#include "channel/ring_room.h"
#include "channel/ring_writer.h"
#include "model.h"
#include "unit/null_rail.h"

namespace adaptib::model {
namespace {

// Maps the ring as it is; has memory for any part of it.
class MappedQp final : public QueuePair {
public:
    MappedQp() : QueuePair(QpType::rc) {}

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status post_send_impl(const SendWork&) override { return Status::error(Reason::not_supported); }
    void* map_impl(std::uint64_t address, Bytes, std::uint32_t) override {
        return reinterpret_cast<void*>(address);
    }
    Status commit_impl(std::uint64_t, Bytes, std::uint32_t) override { return kOk; }
    bool usable_impl() const override { return true; }
};

constexpr RingHabits kHabits{
    .most_claimed = 1, .lap_messages = 1, .lap_longest = kShortLap / 2, .dirties = true};

struct Ends {
    Ends(Execution& execution, std::uint64_t units)
        : lines(execution.memory("ring", units * kRingUnit, kCacheLine)),
          credit(*reinterpret_cast<std::uint64_t*>(execution.memory("credit", 8, 8))),
          reader(lines, units, kHabits),
          writer(rail, qp, {reinterpret_cast<std::uintptr_t>(lines), 0, units, 0, 0, 0, false},
                 &credit, 0, kHabits) {}

    std::byte* lines;
    std::uint64_t& credit;
    test::FreeRail rail;
    MappedQp qp;
    RingReader reader;
    RingWriter writer;
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;
};

std::byte byte_of(std::uint32_t sequence, Bytes at) {
    return static_cast<std::byte>(sequence * 7 + at + 1);
}

void send(Ends& ends, Bytes length, MessageType type = MessageType::eager) {
    MessageHeader header;
    header.type = type;
    header.length = static_cast<std::uint32_t>(length);
    header.sequence = ends.sent;
    header.tag = static_cast<std::int32_t>(length);
    const auto fill = [&](std::byte* to) {
        std::vector<std::byte> bytes(length);
        for (Bytes i = 0; i < length; ++i) {
            bytes[i] = byte_of(header.sequence, i);
        }
        std::memcpy(to, bytes.data(), length);
    };
    if (length < kRetainedFrom && ends.writer.store_short(header, fill)) {
        ++ends.sent;
        return;
    }
    std::byte* to = nullptr;
    wait_until([&] { return (to = ends.writer.reserve(length)) != nullptr; });
    fill(to);
    check(ends.writer.commit(header).ok(), "a message is refused");
    ++ends.sent;
}

// Takes the next message, and returns credit when it is due.
void take(Ends& ends, Bytes length) {
    MessageHeader header;
    const std::byte* body = nullptr;
    RingReader::Found found = RingReader::Found::nothing;
    wait_until(
        [&] { return (found = ends.reader.poll(header, body)) != RingReader::Found::nothing; });
    check(found == RingReader::Found::message, "the reader finds garbage");
    check(header.sequence == ends.taken, "a message is lost, doubled, or out of order");
    check(header.length == length, "a message has another length");
    std::vector<std::byte> bytes(length);
    std::memcpy(bytes.data(), body, length);
    for (Bytes i = 0; i < length; ++i) {
        check(bytes[i] == byte_of(header.sequence, i), "a message has other contents");
    }
    ends.reader.consume(header.sequence);
    ++ends.taken;
    if (ends.reader.credit_due()) {
        store_ring_word(reinterpret_cast<std::byte*>(&ends.credit), ends.reader.consumed(),
                        std::memory_order_release);
        ends.reader.credit_returned();
    }
}

Ends& make(Execution& execution, std::uint64_t units) {
    auto* const ends = new Ends(execution, units);
    execution.at_end([ends] { delete ends; });
    return *ends;
}

void exchange(Execution& execution, Ends& ends, const std::vector<Bytes>& lengths,
              MessageType type = MessageType::eager) {
    execution.thread([&ends, lengths, type] {
        for (const Bytes length : lengths) {
            send(ends, length, type);
        }
    });
    execution.thread([&ends, lengths] {
        for (const Bytes length : lengths) {
            take(ends, length);
        }
    });
}

std::vector<Bytes> repeated(const std::vector<Bytes>& lengths, int times) {
    std::vector<Bytes> out;
    for (int i = 0; i < times; ++i) {
        out.insert(out.end(), lengths.begin(), lengths.end());
    }
    return out;
}

// Messages of one and two units in a ring of four: it is full, and begins again.
void full(Execution& execution) {
    exchange(execution, make(execution, 4), repeated({8, 40, 8, 40, 8}, scaled(1)));
}

// Active messages with one word of header.
void compact(Execution& execution) {
    exchange(execution, make(execution, 4), repeated({8, 8, 8}, scaled(2)), MessageType::active);
}

// Retained messages, whose places are not zero when the next lap comes.
void retained(Execution& execution) {
    exchange(execution, make(execution, 64),
             repeated({kRetainedFrom, kRetainedFrom, kRetainedFrom, 8}, scaled(1)));
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"full", {}, full}, {"compact", {}, compact}, {"retained", {}, retained}};
    return all;
}

} // namespace adaptib::model
