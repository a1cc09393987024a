// SPDX-License-Identifier: BSD-3-Clause
// The ring channel's two sides (channel/ring.h tells the layout and the invariants).
#include "channel/ring.h"

#include <atomic>
#include <cstdlib>

namespace adaptib {

namespace {

std::uint64_t load_word(const std::byte* at) {
    auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
    return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

void store_word(std::byte* at, std::uint64_t value, std::memory_order order) {
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at)).store(value, order);
}

// Everything of a message but its payload and the header's first word.
void write_frame(std::byte* line, std::uint64_t lines, const MessageHeader& header) {
    const std::uint64_t tail = ring_tail_word(header.head_word(), header.sequence);
    std::memcpy(line + lines * kCacheLine - sizeof tail, &tail, sizeof tail);
    std::memcpy(line + sizeof(std::uint64_t),
                reinterpret_cast<const std::byte*>(&header) + sizeof(std::uint64_t),
                sizeof header - sizeof(std::uint64_t));
}

} // namespace

// ---------------------------------------------------------------------------------------------------
// Reader

RingReader::Found RingReader::poll(const MessageHeader** header, const std::byte** body) {
    for (;;) {
        std::byte* line = memory_ + position_ * kCacheLine;
        const std::uint64_t head = load_word(line);
        if (head == 0) [[likely]] {
            return Found::nothing;
        }
        // A copy: what was checked must not change while it is used.
        std::memcpy(reinterpret_cast<std::byte*>(&header_), &head, sizeof head);
        const std::uint64_t lines = ring_lines_for(header_.length);
        if (header_.magic != kHeaderMagic || lines > lines_ - position_) {
            return Found::garbage;
        }
        std::memcpy(reinterpret_cast<std::byte*>(&header_) + sizeof head, line + sizeof head,
                    sizeof header_ - sizeof head);
        if (load_word(line + lines * kCacheLine - sizeof(std::uint64_t)) !=
            ring_tail_word(head, header_.sequence)) {
            return Found::nothing;
        }
        if (header_.type == MessageType::skip) {
            store_word(line, 0, std::memory_order_relaxed);
            consumed_ += lines_ - position_;
            position_ = 0;
            continue;
        }
        current_ = lines;
        *header = &header_;
        *body = line + sizeof(MessageHeader);
        return Found::message;
    }
}

void RingReader::consume() {
    std::byte* line = memory_ + position_ * kCacheLine;
    for (std::uint64_t i = 0; i < current_; ++i) {
        store_word(line + i * kCacheLine, 0, std::memory_order_relaxed);
    }
    consumed_ += current_;
    position_ += current_;
    if (position_ == lines_) {
        position_ = 0;
    }
}

// ---------------------------------------------------------------------------------------------------
// Writer

RingWriter::RingWriter(Rail& rail, QueuePair& qp, const Target& target, const std::uint64_t* credit,
                       std::uint64_t wr_id)
    : qp_(qp), credit_(credit), target_(target), rail_(rail), wr_id_(wr_id) {
    mapped_ =
        static_cast<std::byte*>(qp.map(target.address, target.lines * kCacheLine, target.key));
    base_ = mapped_;
    direct_ = mapped_ != nullptr;
}

bool RingWriter::has_room(std::uint64_t lines) {
    if (produced_ + lines - consumed_ <= target_.lines) [[likely]] {
        return true;
    }
    consumed_ = load_word(reinterpret_cast<const std::byte*>(credit_));
    return produced_ + lines - consumed_ <= target_.lines;
}

// Chooses between storing directly and posting, message by message: a rail may go down or be slowed.
bool RingWriter::ensure_base() {
    if (mapped_ != nullptr && qp_.usable()) [[likely]] {
        base_ = mapped_;
        direct_ = true;
        return true;
    }
    if (mirror_ == nullptr) {
        const Bytes bytes = target_.lines * kCacheLine;
        mirror_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, bytes)));
        if (mirror_memory_ == nullptr ||
            !rail_.register_memory(mirror_memory_.get(), bytes, kLocalWrite, mirror_).ok()) {
            return false;
        }
        std::memset(mirror_memory_.get(), 0, bytes);
    }
    base_ = static_cast<std::byte*>(mirror_->address());
    direct_ = false;
    return true;
}

std::byte* RingWriter::reserve(Bytes length) {
    const std::uint64_t lines = ring_lines_for(length);
    if (position_ + lines > target_.lines) [[unlikely]] {
        // The rest of the ring goes unused; the skip message itself needs one line of it.
        const std::uint64_t rest = target_.lines - position_;
        if (!has_room(rest) || !ensure_base()) {
            return nullptr;
        }
        MessageHeader skip;
        skip.type = MessageType::skip;
        if (!write_lines(position_, 1, skip).ok()) {
            return nullptr;
        }
        produced_ += rest;
        position_ = 0;
    }
    if (!has_room(lines) || !ensure_base()) {
        return nullptr;
    }
    return line_address(position_) + sizeof(MessageHeader);
}

// What the caller has filled in may lie on the first words of lines; keeps invariant 1.
void RingWriter::abandon(Bytes length) {
    for (std::uint64_t i = 0; i < ring_lines_for(length); ++i) {
        store_word(line_address(position_ + i), 0, std::memory_order_relaxed);
    }
}

Status RingWriter::write_lines(std::uint64_t line, std::uint64_t lines,
                               const MessageHeader& header) {
    std::byte* at = line_address(line);
    write_frame(at, lines, header);
    if (direct_) [[likely]] {
        store_word(at, header.head_word(), std::memory_order_release);
        return kOk;
    }
    std::memcpy(at, &header, sizeof(std::uint64_t));
    const Gather gather{at, lines * kCacheLine, mirror_->local_key()};
    SendWork work;
    work.wr_id = wr_id_;
    work.opcode = Opcode::write;
    work.flags = kPublish;
    if (++posted_ % kSignalEvery == 0) {
        work.flags |= kSignaled;
    }
    work.gather = &gather;
    work.gather_count = 1;
    work.remote_address = target_.address + line * kCacheLine;
    work.remote_key = target_.key;
    return qp_.post_send(work);
}

Status RingWriter::commit(const MessageHeader& header) {
    const std::uint64_t lines = ring_lines_for(header.length);
    const Status status = write_lines(position_, lines, header);
    if (!status.ok()) [[unlikely]] {
        return status;
    }
    produced_ += lines;
    position_ += lines;
    if (position_ == target_.lines) {
        position_ = 0;
    }
    return kOk;
}

} // namespace adaptib
