// SPDX-License-Identifier: BSD-3-Clause
// Envelope: what identifies a message, and the pattern that a receive matches.
//
// Purpose: the value that matching compares, its wildcard rules and its hash.
// Rules: ANY_TAG does not match negative tags (they belong to the library's own traffic).
// Threads: a value type.
// May touch: base/.
#pragma once

#include <cstdint>

#include "base/copy.h"

namespace adaptib {

struct Envelope {
    static constexpr std::int32_t kAnySource = -1;
    static constexpr std::int32_t kAnyTag = INT32_MIN;

    std::uint32_t context = 0; // communicator
    std::int32_t source = 0;   // rank of the sender in it, or kAnySource
    std::int32_t tag = 0;      // or kAnyTag

    constexpr Envelope() = default;
    constexpr Envelope(std::uint32_t in, std::int32_t from, std::int32_t with)
        : context(in), source(from), tag(with) {}
    // Copies member by member (base/copy.h).
    constexpr Envelope(const Envelope& other)
        : Envelope(load_member(other.context), load_member(other.source), load_member(other.tag)) {}
    constexpr Envelope& operator=(const Envelope& other) {
        context = load_member(other.context);
        source = load_member(other.source);
        tag = load_member(other.tag);
        return *this;
    }

    friend constexpr bool operator==(const Envelope&, const Envelope&) = default;
};

// True if a message with envelope `message` (no wildcards) fits `pattern`.
constexpr bool envelope_matches(const Envelope& pattern, const Envelope& message) {
    return pattern.context == message.context &&
           (pattern.source == message.source || pattern.source == Envelope::kAnySource) &&
           (pattern.tag == message.tag || (pattern.tag == Envelope::kAnyTag && message.tag >= 0));
}

// The fields of a pattern that are wildcards; the values are bits, so that `any` is both.
enum class PatternClass : std::uint8_t { exact = 0, any_tag = 1, any_source = 2, any = 3 };

constexpr PatternClass pattern_class(const Envelope& pattern) {
    return static_cast<PatternClass>((pattern.tag == Envelope::kAnyTag ? 1 : 0) |
                                     (pattern.source == Envelope::kAnySource ? 2 : 0));
}

// `message` with the wildcards of class `wild`: the only pattern of that class that fits it.
constexpr Envelope generalised(Envelope message, PatternClass wild) {
    const auto bits = static_cast<unsigned>(wild);
    if ((bits & 1u) != 0) {
        message.tag = Envelope::kAnyTag;
    }
    if ((bits & 2u) != 0) {
        message.source = Envelope::kAnySource;
    }
    return message;
}

// One wide multiplication, its four quarters folded together. No factor can become zero: the lower
// half of the first constant is a source below -1, and the second constant exceeds a tag's 32 bits.
constexpr std::uint32_t envelope_hash(const Envelope& envelope) {
    const std::uint64_t place =
        (std::uint64_t{envelope.context} << 32) | static_cast<std::uint32_t>(envelope.source);
    const std::uint64_t tag = static_cast<std::uint32_t>(envelope.tag);
    __extension__ using Wide = unsigned __int128;
    const Wide product =
        static_cast<Wide>(place ^ 0x9e3779b9ff4a7c15u) * (tag ^ 0xd6e8feb86659fd93u);
    const auto folded =
        static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    return static_cast<std::uint32_t>(folded ^ (folded >> 32));
}

} // namespace adaptib
