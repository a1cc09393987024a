// SPDX-License-Identifier: BSD-3-Clause
// Payload: makes the bytes of a message or a put from a number.
//
// Purpose: every payload has a seed. Its bytes lie somewhere in one table of noise, so that a test
// can fill them in, compare and digest them at the speed of memory, and never stores them beside
// the buffers.
// Threads: one.
// May touch: base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace adaptib::torture {

constexpr Bytes kLongestPayload = 4 * kMiB;

// The payload of `seed`: kLongestPayload bytes.
const std::byte* payload(std::uint64_t seed);

// Digest of bytes that may come in pieces: the digest of all pieces is that of their concatenation.
class Digest {
public:
    void add(const std::byte* bytes, Bytes length);
    std::uint64_t value() const;

private:
    void take(std::uint64_t word) { state_ = (state_ ^ word) * 0x9fb21c651e98df25u; }

    std::uint64_t state_ = 0x2545f4914f6cdd1du;
    std::uint64_t partial_ = 0; // the last bytes, fewer than a word
    Bytes length_ = 0;
};

std::uint64_t payload_digest(std::uint64_t seed, Bytes length);

} // namespace adaptib::torture
