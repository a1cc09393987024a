// SPDX-License-Identifier: BSD-3-Clause
// The table of noise and its digests (simulator/torture/payload.h).
#include "simulator/torture/payload.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace adaptib::torture {

namespace {

constexpr Bytes kPlaces = 64 * kKiB; // positions at which payloads begin

std::vector<std::byte> make_noise() {
    std::vector<std::byte> noise(kLongestPayload + kPlaces);
    Random random(0x6e6f697365);
    for (std::size_t i = 0; i + sizeof(std::uint64_t) <= noise.size(); i += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        std::memcpy(&noise[i], &word, sizeof word);
    }
    return noise;
}

} // namespace

const std::byte* payload(std::uint64_t seed) {
    static const std::vector<std::byte> noise = make_noise();
    return noise.data() + Random(seed).below(kPlaces);
}

void Digest::add(const std::byte* bytes, Bytes length) {
    while (length > 0) {
        const Bytes have = length_ % sizeof partial_;
        if (have == 0 && length >= sizeof partial_) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes, sizeof word);
            take(word);
            bytes += sizeof word;
            length -= sizeof word;
            length_ += sizeof word;
            continue;
        }
        partial_ |= std::to_integer<std::uint64_t>(*bytes) << (8 * have);
        if (have + 1 == sizeof partial_) {
            take(partial_);
            partial_ = 0;
        }
        ++bytes;
        --length;
        ++length_;
    }
}

std::uint64_t Digest::value() const {
    Digest last = *this;
    last.take(partial_);
    last.take(length_);
    return last.state_ ^ (last.state_ >> 32);
}

std::uint64_t payload_digest(std::uint64_t seed, Bytes length) {
    Digest digest;
    digest.add(payload(seed), length);
    return digest.value();
}

} // namespace adaptib::torture
