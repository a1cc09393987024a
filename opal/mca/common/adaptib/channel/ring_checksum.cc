// SPDX-License-Identifier: BSD-3-Clause
// The checksum of a checked message (channel/ring_layout.h).
#include <algorithm>
#include <bit>
#include <cstring>

#include "channel/ring_layout.h"

namespace adaptib {

namespace {

constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u; // odd: each step can be undone

// Mixes in bytes, a word at a time; the last word may be shorter.
std::uint64_t mix(std::uint64_t sum, const std::byte* from, Bytes length) {
    for (Bytes at = 0; at < length; at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, from + at, std::min<Bytes>(sizeof word, length - at));
        sum = std::rotl((sum ^ word) * kFactor, 29);
    }
    return sum;
}

} // namespace

std::uint64_t ring_checksum(const std::byte* header, const std::byte* body, Bytes length) {
    return mix(mix(length, header, sizeof(MessageHeader)), body, length);
}

} // namespace adaptib
