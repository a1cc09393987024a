// SPDX-License-Identifier: BSD-3-Clause
// Model of a ring's memory (channel/ring_room.h, ring_space.h, ring_memory.h): the reader takes the
// memory behind the first part back, and the writer gets more. Nobody stores into memory that is
// not there, and what the writer has stored is not taken away before the reader has it.
#include "channel/ring_room.h"

#include <cstring>

#include "channel/ring_memory.h"
#include "channel/ring_poster.h"
#include "channel/ring_space.h"
#include "model.h"

namespace adaptib::model {
namespace {

// The memory behind the first part is one word, whose writers the explorer orders; and whether it
// is there.
struct Behind {
    std::uint64_t word = 0;
    bool there = false;
};

class CommittingQp final : public QueuePair {
public:
    explicit CommittingQp(Behind& behind) : QueuePair(QpType::rc), behind_(behind) {}

private:
    Status modify_impl(const QpAttributes&, std::uint32_t) override { return kOk; }
    QpAttributes query_impl() const override { return {}; }
    Status post_receive_impl(const ReceiveWork&) override { return kOk; }
    Status post_send_impl(const SendWork&) override { return Status::error(Reason::not_supported); }
    Status commit_impl(std::uint64_t, Bytes, std::uint32_t) override {
        behind_.there = true;
        return kOk;
    }
    Behind& behind_;
};

class SparseRegion final : public MemoryRegion {
public:
    SparseRegion(std::byte* at, Bytes length, Behind& behind)
        : MemoryRegion(at, length), behind_(behind) {}

private:
    bool discard_impl(Bytes, Bytes) override {
        check(behind_.word == 0, "a message is taken away");
        behind_.there = false;
        return true;
    }
    Behind& behind_;
};

constexpr RingParts kParts{.lines_bytes = 2 * RingMemory::kFirst, .direct = true};
constexpr Bytes kUsed = RingMemory::before_lines(kParts) + kCacheLine;

struct Ends {
    explicit Ends(Execution& execution)
        : behind(execution.make<Behind>("memory behind")),
          base(execution.memory("ring", kUsed, kCacheLine)), region(base, kUsed, behind),
          memory(region, kParts), qp(behind), poster(qp, {}, 0) {
        memory.begin();
    }
    Behind& behind;
    std::byte* base;
    SparseRegion region;
    RingMemory memory;
    CommittingQp qp;
    RingPoster poster;
};

void shrinking(Execution& execution) {
    auto* const ends = new Ends(execution);
    execution.at_end([ends] { delete ends; });
    constexpr auto kUnits = static_cast<std::uint32_t>(kParts.lines_bytes / kRingUnit);
    const int laps = scaled(2);
    execution.thread([ends, laps] { // the writer: each lap goes beyond the first part if it may
        RingSpace space(kUnits);
        space.bound_by(ends->memory.room());
        space.begin_here();
        for (int i = 0; i < laps; ++i) {
            const std::uint32_t first = space.end();
            space.extend_to(first + 8, first + 8, ends->poster);
            if (space.end() > first) {
                check(ends->behind.there, "a message is stored where no memory is");
                ends->behind.word = 1;
                ends->behind.word = 0; // the reader has it
            }
            if (space.beyond()) {
                space.leave();
            }
        }
    });
    execution.thread([ends, laps] { // the reader, in whose ring nothing arrives
        RingReader reader(ends->memory.lines(), kUnits, ring_habits(), ends->memory.room());
        for (int i = 0; i < laps; ++i) {
            static_cast<void>(ends->memory.shrink(reader));
        }
    });
}

} // namespace

const std::vector<Model>& models() {
    static const std::vector<Model> all = {{"shrinking", {}, shrinking}};
    return all;
}

} // namespace adaptib::model
