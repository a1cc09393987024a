// SPDX-License-Identifier: BSD-3-Clause
// The reader's side of the ring channel.
#include "channel/ring_reader.h"

namespace adaptib {

// Returns true if the word at the reader's position is the beginning of a posted message's first
// word, which not every adapter makes visible at once: type, flags, and at most one byte of the
// magic number.
bool RingReader::begins(std::uint64_t head) {
    MessageHeader seen;
    std::memcpy(reinterpret_cast<std::byte*>(&seen), &head, sizeof head);
    const bool begun = seen.magic == 0 || seen.magic == (kTailedMagic & 0xff) ||
                       seen.magic == (kCountedMagic & 0xff) || seen.magic == (kCheckedMagic & 0xff);
    return begun && seen.length == 0 && ++begun_ < kBegunPolls;
}

// Returns true if the tail word is there: then the whole posted message is, and may be copied.
bool RingReader::whole(std::byte* at, std::uint64_t head, Bytes length, RingFormat format) {
    std::byte* tail = at + ring_posted_bytes(length, format) - sizeof(std::uint64_t);
    const std::uint64_t found = load_ring_word(tail);
    std::uint32_t sequence = 0;
    std::memcpy(&sequence, at + offsetof(MessageHeader, sequence), sizeof sequence);
    if (found != ring_tail_word(head, sequence)) {
        return false;
    }
    store_ring_word(tail, 0, std::memory_order_relaxed);
    take_count(tail, format);
    if (format == RingFormat::checked) [[unlikely]] {
        const std::uint64_t written = load_ring_word(tail - 2 * sizeof(std::uint64_t));
        misplaced_ = written != ring_checksum(at, at + sizeof(MessageHeader), length);
    }
    return true;
}

void RingReader::take_count(const std::byte* tail, RingFormat format) {
    if (format == RingFormat::posted) {
        return;
    }
    const std::uint64_t count = load_ring_word(tail - sizeof(std::uint64_t));
    if (format == RingFormat::counted || count != 0) {
        count_ = count;
    }
}

// Reads a compact message. It was stored, so it is either complete or not there at all.
RingReader::Found RingReader::read_compact(std::uint64_t head, MessageHeader& header,
                                           const std::byte*& body) {
    copy_head(header, head);
    header.length = ring_compact_length(head);
    header.sequence = sequence_ + 1;
    header.context = 0;
    header.source = 0;
    header.tag = 0;
    const auto units =
        static_cast<std::uint32_t>(ring_units_for(header.length, RingFormat::compact));
    if (header.type != MessageType::active || header.length >= kRetainedFrom ||
        units > units_ - position_ || !ring_compact_is(head, header.sequence)) {
        return Found::garbage;
    }
    retained_ = false;
    posted_ = false;
    current_ = units;
    taken_ = taken_by(head, units);
    body = place() + ring_body_at(0, RingFormat::compact);
    return Found::message;
}

RingReader::Found RingReader::read(std::uint64_t head, MessageHeader& header,
                                   const std::byte*& body) {
    do {
        std::byte* at = place();
        // Copies first: the peer must not change a checked value while it is used.
        copy_head(header, head);
        const std::uint16_t magic = ring_magic_of(head);
        const RingFormat format = ring_format_of(magic);
        if (format == RingFormat::compact) {
            return read_compact(head, header, body);
        }
        const std::uint64_t units = ring_units_for(header.length, format);
        retained_ = magic == kRetainedMagic;
        const bool known = format == RingFormat::stored ? magic == kHeaderMagic || retained_
                                                        : (head & kRingLast) == 0;
        if (!known || units > units_ - position_) [[unlikely]] {
            return begins(head) ? Found::nothing : Found::garbage;
        }
        posted_ = format != RingFormat::stored;
        if (posted_) [[unlikely]] {
            if (!whole(at, head, header.length, format)) {
                return Found::nothing;
            }
            begun_ = 0;
            if (misplaced_) {
                return Found::garbage;
            }
        }
        copy_rest(header, at);
        if (header.type != MessageType::skip) [[likely]] {
            current_ = static_cast<std::uint32_t>(units);
            taken_ = taken_by(head, current_);
            body = at + ring_body_at(header.length, format);
            return Found::message;
        }
        store_ring_word(at, 0,
                        std::memory_order_release); // the writer may check, as in release_at()
        consumed_ += units_ - position_;
        untold_ += units_ - position_;
        position_ = 0;
        head = load_ring_word(place());
    } while (head != 0);
    return Found::nothing;
}

} // namespace adaptib
