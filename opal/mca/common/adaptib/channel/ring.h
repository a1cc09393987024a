// SPDX-License-Identifier: BSD-3-Clause
// The ring channel: a peer writes its messages into memory of ours that we poll.
//
// Layout: `lines` lines of 64 bytes. A message takes whole, consecutive lines:
//
//     line p        | MessageHeader 24 | body and payload ...                                     |
//     ...           | ...                                                                         |
//     line p+k-1    | ...                                                     | pad | tail word 8 |
//
// A message that does not fit before the last line is preceded by a `skip` message and starts at line 0.
//
// Invariants
//   1. The first 8 bytes of every line that holds no part of a message not yet consumed are zero; the
//      reader zeroes them as it consumes. So a non-zero word at the reader's position is the header of
//      the next message (its first word is never zero).
//   2. The tail word follows from the header, sequence number included. A message is there when the
//      header and its tail are; a writer whose bytes become visible in address order (an adapter,
//      kPublish) stores the tail last, one that stores directly stores the header's first word last.
//   3. produced - consumed <= lines. The reader tells the writer what it has consumed by writing a
//      64-bit count into memory of the writer's, at the latest after half the ring; a `skip` counts, so
//      that a message of half the ring finds room once the reader has taken all there is.
//   4. With a posting writer, lines not yet consumed are kept in the writer's mirror of the ring, and
//      are reused only after the reader's count has passed them.
//
// Ownership: a Ring* object owns its memory regions, and uses a queue pair that outlives it.
// Threads: one at a time for each side.
// Source: Takagi et al., section 2 (message channels with RDMA); the rings of MVAPICH have the same idea.
// May touch: base/, fabric/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/status.h"
#include "base/wire.h"
#include "fabric/fabric.h"

namespace adaptib {

// Of the unsignaled writes to one queue pair, one in so many is signaled: its completion releases the
// others. Send queues are deeper than a few times this.
constexpr std::uint32_t kSignalEvery = 32;

constexpr std::uint32_t kRingOverhead = sizeof(MessageHeader) + sizeof(std::uint64_t);

constexpr std::uint64_t ring_lines_for(Bytes length) {
    return (length + kRingOverhead + kCacheLine - 1) / kCacheLine;
}

constexpr std::uint64_t ring_tail_word(std::uint64_t head, std::uint32_t sequence) {
    return ~head ^ (static_cast<std::uint64_t>(sequence) * 0x9e3779b97f4a7c15u);
}

class RingReader {
public:
    enum class Found : std::uint8_t { nothing, message, garbage };

    // REQUIRES: memory is zero, `lines` x 64 bytes, 64-byte aligned.
    RingReader(std::byte* memory, std::uint64_t lines) : memory_(memory), lines_(lines) {}

    // message: *header is a copy, *body points into the ring until consume(). garbage: what lies there is not
    // a message; the ring cannot be used any more.
    Found poll(const MessageHeader** header, const std::byte** body);
    void consume();

    std::uint64_t consumed() const { return consumed_; }
    // The writer should be told of consumed() now.
    bool credit_due() const { return consumed_ - told_ >= lines_ / 2; }
    void credit_told() { told_ = consumed_; }

private:
    std::byte* memory_;
    std::uint64_t lines_;
    std::uint64_t position_ = 0; // line of the next message
    std::uint64_t current_ = 0;  // lines of the message that poll found
    MessageHeader header_;       // of that message
    std::uint64_t consumed_ = 0; // lines, ever
    std::uint64_t told_ = 0;
};

class RingWriter {
public:
    struct Target {
        std::uint64_t address = 0; // of the reader's ring
        std::uint32_t key = 0;
        std::uint64_t lines = 0;
    };

    // `credit`: the 64-bit count that the reader writes. Work that fails comes back with `wr_id`.
    RingWriter(Rail& rail, QueuePair& qp, const Target& target, const std::uint64_t* credit,
               std::uint64_t wr_id);

    // Room for `length` bytes of body and payload, to be filled by the caller and made a message by
    // commit() or undone by abandon(); null if the ring has no room now. REQUIRES: it takes no more
    // than half the lines.
    std::byte* reserve(Bytes length);
    void abandon(Bytes length);
    // REQUIRES: header.length is the length of the last reserve.
    Status commit(const MessageHeader& header);

private:
    bool has_room(std::uint64_t lines);
    std::byte* line_address(std::uint64_t line) { return base_ + line * kCacheLine; }
    Status write_lines(std::uint64_t line, std::uint64_t lines, const MessageHeader& header);
    bool ensure_base();

    // Hot.
    std::byte* base_ = nullptr; // the reader's memory if mapped, else the mirror
    bool direct_ = false;
    std::uint64_t position_ = 0;
    std::uint64_t produced_ = 0;
    std::uint64_t consumed_ = 0; // as last read from the credit word
    QueuePair& qp_;
    const std::uint64_t* credit_;
    // Constant after construction.
    Target target_;
    Rail& rail_;
    std::uint64_t wr_id_;
    std::byte* mapped_ = nullptr;
    // Only for a ring that cannot be mapped, or cannot be reached directly any more.
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> mirror_memory_;
    std::unique_ptr<MemoryRegion> mirror_;
    std::uint32_t posted_ = 0;
};

} // namespace adaptib
