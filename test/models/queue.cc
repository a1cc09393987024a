// SPDX-License-Identifier: BSD-3-Clause
// Model of the queue of a process (fabric/shm/queue.h): every record arrives once, whole, and in
// its producer's order, whatever place in the ring it gets; granules that a killed producer has
// reserved are skipped, and those of a live one never.
#include "fabric/shm/queue.h"

#include <atomic>
#include <cstring>
#include <new>
#include <optional>

#include "fabric/shm/process.h"
#include "model.h"

namespace adaptib::shm {

namespace {
// By process number. Whoever learns that a process has ended sees all that it has stored, since the
// system knows of the end only after that.
std::atomic<std::uint64_t>* g_alive = nullptr;
} // namespace

// In place of the system's answer (fabric/shm/process.cc).
bool process_alive(std::uint32_t pid, std::uint64_t) {
    return pid <= adaptib::model::kMostThreads && g_alive[pid].load(std::memory_order_acquire) != 0;
}

} // namespace adaptib::shm

namespace adaptib::model {
namespace {

using namespace adaptib::shm;

constexpr std::uint64_t kGranules = 4;

struct Segment {
    Segment(Execution& execution, std::uint32_t producers) {
        const Bytes ring_at = kProducersOffset + producers * sizeof(ProducerSlot);
        base = execution.memory("segment", ring_at + kGranules * kGranule, kCacheLine);
        Header* const header = new (base) Header{};
        header->ring_offset = ring_at;
        header->ring_granules = kGranules;
        header->committed = kGranules;
        header->producers_end = producers;
        g_alive = reinterpret_cast<std::atomic<std::uint64_t>*>(
            execution.memory("alive", (producers + 1) * sizeof *g_alive, sizeof *g_alive));
        for (std::uint32_t i = 0; i < producers; ++i) {
            producers_of(base)[i].owner = i + 1;
            g_alive[i + 1].store(1);
        }
    }
    std::byte* base;
};

struct Record {
    std::uint64_t producer;
    std::uint64_t number;
    std::uint64_t filling[8];
};
constexpr Bytes kShort = 2 * sizeof(std::uint64_t); // in one granule; a whole Record takes two

void push(Producer& producer, std::uint64_t number, Bytes bytes) {
    Record record{producer.slot(), number, {}};
    std::memset(record.filling, static_cast<int>(number), sizeof record.filling);
    RecordFields fields;
    fields.length = static_cast<std::uint32_t>(bytes);
    fields.immediate = static_cast<std::uint32_t>(number);
    wait_until([&] {
        return producer.push(fields, bytes,
                             [&](std::byte* to) { std::memcpy(to, &record, bytes); }) == Push::ok;
    });
}

// Takes `count` records; checks each.
class Taker {
public:
    explicit Taker(std::byte* base) : consumer_(base) {}

    void take(int count) {
        for (int i = 0; i < count; ++i) {
            RecordView view;
            wait_until([&] { return consumer_.front(view) || resolve(view); });
            Record record{};
            check(view.payload_bytes <= sizeof record, "a record is too long");
            std::memcpy(&record, view.payload, view.payload_bytes);
            check(record.producer == view.producer && view.producer < kMostThreads,
                  "a record has another producer's payload");
            check(record.number == view.fields.immediate, "a record has another one's payload");
            check(record.number == ++numbers_[view.producer],
                  "a record is lost, doubled, or out of order");
            consumer_.pop();
        }
    }
    const Consumer& consumer() const { return consumer_; }

private:
    bool resolve(RecordView& view) { return consumer_.resolve_hole() && consumer_.front(view); }

    Consumer consumer_;
    std::uint64_t numbers_[kMostThreads] = {};
};

void expect_clean(Execution& execution, const Taker& taker, std::uint64_t holes) {
    execution.after([&taker, holes] {
        check(taker.consumer().garbage() == 0, "garbage");
        check(taker.consumer().holes() == holes, "a hole too many, or too few");
    });
}

template <typename T, typename... Arguments>
T& keep(Execution& execution, Arguments&&... arguments) {
    T* const made = new T(std::forward<Arguments>(arguments)...);
    execution.at_end([made] { delete made; });
    return *made;
}

// One producer, several times around the ring, with records that do not fit before its end.
void around(Execution& execution) {
    const Segment segment(execution, 1);
    auto& producer = keep<Producer>(execution, segment.base, 0u, nullptr);
    auto& taker = keep<Taker>(execution, segment.base);
    const int records = scaled(5);
    execution.thread([&, records] {
        for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(records); ++i) {
            push(producer, i, i % 2 == 0 ? sizeof(Record) : kShort);
        }
    });
    execution.thread([&, records] { taker.take(records); });
    expect_clean(execution, taker, 0);
}

// Two producers.
void two(Execution& execution) {
    const Segment segment(execution, 2);
    auto& taker = keep<Taker>(execution, segment.base);
    const int records = scaled(1); // of each
    for (std::uint32_t slot = 0; slot < 2; ++slot) {
        auto& producer = keep<Producer>(execution, segment.base, slot, nullptr);
        execution.thread([&producer, slot, records] {
            for (int i = 1; i <= records; ++i) {
                push(producer, static_cast<std::uint64_t>(i), slot == 0 ? sizeof(Record) : kShort);
            }
        });
    }
    execution.thread([&, records] { taker.take(2 * records); });
    expect_clean(execution, taker, 0);
}

// A producer is killed between the reservation and the record; another one goes on.
void killed(Execution& execution) {
    const Segment segment(execution, 2);
    auto& taker = keep<Taker>(execution, segment.base);
    auto& ends = keep<Producer>(execution, segment.base, 0u, nullptr);
    auto& lives = keep<Producer>(execution, segment.base, 1u, nullptr);
    execution.thread([&ends] {
        std::uint64_t position = 0;
        check(ends.reserve(2, position) == Push::ok, "there is no room");
        yield();
        g_alive[1].store(0, std::memory_order_release);
    });
    execution.thread([&lives] { push(lives, 1, kShort); });
    execution.thread([&] { taker.take(1); });
    execution.after([&taker] { check(taker.consumer().garbage() == 0, "garbage"); });
}

// A producer is killed behind its record, which counts.
void ended(Execution& execution) {
    const Segment segment(execution, 2);
    auto& taker = keep<Taker>(execution, segment.base);
    auto& ends = keep<Producer>(execution, segment.base, 0u, nullptr);
    execution.thread([&ends] {
        push(ends, 1, kShort);
        g_alive[1].store(0, std::memory_order_release);
    });
    execution.thread([&] { taker.take(1); });
    expect_clean(execution, taker, 0);
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {
        {"around", {}, around}, {"two", {}, two}, {"killed", {}, killed}, {"ended", {}, ended}};
    return all;
}

} // namespace adaptib::model
