// SPDX-License-Identifier: BSD-3-Clause
// Answers of a process's responder (recovery/life_answerer.h).
#include "recovery/life_answerer.h"

#include <cstring>

#include "base/invariant.h"

namespace adaptib {

namespace {

constexpr Bytes kBytes = sizeof(DatagramHeader) + sizeof(MessageHeader) + sizeof(LifeBody);
static_assert(kBytes <= kMostQuestion);
constexpr unsigned kChangesShift = 16; // in Place::size
constexpr int kTries = 8; // more would mean a writer that never stops, which does not exist

} // namespace

// Each store of the new address is a release, each load of a reader's an acquire: a reader that
// sees any of it sees the odd version, too. (A fence would do, but ThreadSanitizer does not support
// it.)
void LifeAnswerer::set_address(std::uint32_t rail, const RailAddress& address) {
    ADAPTIB_INVARIANT(rail < kMaxRails && address.size <= RailAddress::kMaxBytes,
                      "an address is of a rail, and fits into its place", rail, address.size);
    Place& place = places_[rail];
    std::array<std::uint64_t, kWords> words;
    std::memcpy(words.data(), address.bytes.data(), sizeof words);
    const std::uint32_t version = place.version.load(std::memory_order_relaxed);
    ADAPTIB_INVARIANT(version % 2 == 0, "an address has one writer at a time", rail, version);
    place.version.store(version + 1, std::memory_order_relaxed);
    place.size.store(address.size | std::uint32_t{address.changes} << kChangesShift,
                     std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) {
        place.words[i].store(words[i], std::memory_order_release);
    }
    place.version.store(version + 2, std::memory_order_release);
}

// Reads the rail's address; returns false while it is being changed.
bool LifeAnswerer::read(std::uint32_t rail, LifeBody& body) const noexcept {
    const Place& place = places_[rail];
    const std::uint32_t before = place.version.load(std::memory_order_acquire);
    std::array<std::uint64_t, kWords> words;
    const std::uint32_t size = place.size.load(std::memory_order_acquire);
    body.size = static_cast<std::uint8_t>(size);
    body.changes = static_cast<std::uint16_t>(size >> kChangesShift);
    for (std::size_t i = 0; i < kWords; ++i) {
        words[i] = place.words[i].load(std::memory_order_acquire);
    }
    std::memcpy(body.bytes.data(), words.data(), sizeof words);
    return before % 2 == 0 && place.version.load(std::memory_order_relaxed) == before;
}

Answerer::Reply LifeAnswerer::answer(std::uint32_t rail, std::span<const std::byte> question,
                                     std::span<std::byte> reply) const noexcept {
    DatagramHeader prefix;
    MessageHeader header;
    if (question.size() != kBytes || reply.size() < kBytes || rail >= kMaxRails) {
        return {};
    }
    const std::byte* const body_at = question.data() + sizeof prefix + sizeof header;
    std::memcpy(&prefix, question.data(), sizeof prefix);
    std::memcpy(&header, question.data() + sizeof prefix, sizeof header);
    if (prefix.magic != kHeaderMagic || prefix.version != kWireVersion ||
        prefix.target_key != key_ || header.type != MessageType::life_question ||
        !check_message(header, body_at, sizeof(LifeBody))) {
        return {};
    }
    LifeBody body = read_body<LifeBody>(body_at);
    Reply said;
    said.length = kBytes;
    said.access_key = prefix.source_key;
    said.to = {body.size, body.bytes};
    said.path = body.path;
    body.beats = beats();
    bool known = false;
    for (int i = 0; i < kTries && !known; ++i) {
        known = read(rail, body);
    }
    if (!known) {
        body.size = 0; // the address has not changed
    }
    DatagramHeader back;
    back.rail = static_cast<std::uint8_t>(first_ + rail);
    back.target_key = prefix.source_key;
    back.source = name_;
    back.source_key = key_;
    header.type = MessageType::life_answer;
    std::memcpy(reply.data(), &back, sizeof back);
    std::memcpy(reply.data() + sizeof back, &header, sizeof header);
    std::memcpy(reply.data() + sizeof back + sizeof header, &body, sizeof body);
    return said;
}

} // namespace adaptib
