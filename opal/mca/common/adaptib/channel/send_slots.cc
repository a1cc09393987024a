// SPDX-License-Identifier: BSD-3-Clause
// The slots that a datagram channel sends from (channel/send_slots.h).
#include "channel/send_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/invariant.h"

namespace adaptib {

namespace {

// Blocks of send slots: room for 256 targets that do not answer
constexpr std::size_t kMostBlocks = 64;

} // namespace

Status SendSlots::open(RailList rails, Bytes datagram_bytes) {
    rails_.assign(rails.begin(), rails.end());
    slot_bytes_ = round_up(datagram_bytes, kCacheLine);
    return add_block();
}

bool SendSlots::can_grow() const { return blocks_.size() < kMostBlocks; }

// Adds kBlock slots, which all ports send from.
Status SendSlots::add_block() {
    Block block;
    Status status = rails_[0]->allocate(kBlock * slot_bytes_, 0, block.memory);
    block.keys[0] = status.ok() ? block.memory->local_key() : 0;
    for (std::size_t i = 1; i < rails_.size() && status.ok(); ++i) {
        status = rails_[i]->register_memory(block.memory->address(), block.memory->length(), 0,
                                            block.regions[i]);
        block.keys[i] = status.ok() ? block.regions[i]->local_key() : 0;
    }
    if (!status.ok()) {
        return status;
    }
    ++counters_.buffers;
    counters_.buffers_bytes += block.memory->length();
    blocks_.push_back(std::move(block));
    free_.reserve(blocks_.size() * kBlock);
    for (std::uint32_t i = 0; i < kBlock; ++i) {
        free_.push_back(static_cast<std::uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    ADAPTIB_INVARIANT(slots_.size() == blocks_.size() * kBlock && free_.size() <= slots_.size(),
                      "slots come in blocks, and at most all are free", slots_.size(),
                      free_.size());
    loans_.grow(slots_.size());
    return kOk;
}

void SendSlots::read_keys(std::uint32_t port) {
    for (Block& block : blocks_) {
        block.keys[port] = (port == 0 ? block.memory : block.regions[port])->local_key();
    }
}

void SendSlots::put(std::uint32_t slot, std::uint64_t to, const DatagramHeader& prefix) {
    ADAPTIB_INVARIANT(slots_[slot].posts == 0 && !slots_[slot].retained && !slots_[slot].lent,
                      "a slot that is filled is free", slot, slots_[slot].posts);
    std::memcpy(at(slot), &prefix, sizeof prefix);
    slots_[slot] = {.to = to, .bytes = sizeof prefix};
}

void SendSlots::put(std::uint32_t slot, std::uint64_t to, const DatagramHeader& prefix,
                    const MessageHeader& header) {
    ADAPTIB_INVARIANT(slots_[slot].posts == 0 && !slots_[slot].retained && !slots_[slot].lent,
                      "a slot that is filled is free", slot, slots_[slot].posts);
    std::byte* begin = at(slot);
    std::memcpy(begin, &prefix, sizeof prefix);
    std::memcpy(begin + sizeof prefix, &header, sizeof header);
    const auto bytes = static_cast<std::uint32_t>(sizeof prefix + sizeof header + header.length);
    ADAPTIB_INVARIANT(bytes <= slot_bytes_, "a datagram fits into its slot", bytes, slot_bytes_);
    slots_[slot] = {.to = to, .bytes = bytes};
}

void SendSlots::on_ended(std::uint32_t slot, std::uint32_t port) {
    slots_[slot].posts &= static_cast<std::uint8_t>(~bit_of(port));
    release(slot);
}

void SendSlots::drop(std::uint32_t slot) {
    ADAPTIB_INVARIANT(slots_[slot].retained, "a slot that is dropped was kept", slot);
    slots_[slot].retained = false;
    release(slot);
}

void SendSlots::release(std::uint32_t slot) {
    if (slots_[slot].lent) [[unlikely]] {
        settle_loan(slot);
    }
    if (slots_[slot].posts == 0 && !slots_[slot].retained) {
        free_.push_back(slot);
    }
}

// Ends the loan if nothing reads the buffer any more, nor will.
void SendSlots::settle_loan(std::uint32_t slot) {
    Slot& sent = slots_[slot];
    const bool read_again = sent.retained && loans_.reads(slot);
    if (!read_again && !posted_on(slot, loans_.port(slot))) {
        sent.lent = false;
        loans_.end(slot);
    }
}

void SendSlots::copy_payload(std::uint32_t slot) {
    ADAPTIB_INVARIANT(slots_[slot].lent, "a payload that is copied is lent", slot);
    loans_.copy(slot, payload_place(slot));
    settle_loan(slot);
}

// A message that ends with an error has its payload in the slot from now on: the user may unmap the
// buffer.
void SendSlots::abandon_loans(std::uint64_t to, GatherEnd how) {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (!slots_[slot].lent || slots_[slot].to != to) {
            continue;
        }
        if (how == GatherEnd::lost && loans_.reads(slot)) {
            loans_.copy(slot, payload_place(slot));
        }
        loans_.abandon(slot, how);
        settle_loan(slot);
    }
}

void SendSlots::drop_loans() {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
        if (slots_[slot].lent) {
            loans_.abandon(slot, GatherEnd::dropped);
        }
    }
}

bool SendSlots::has_overdue(std::uint32_t port, Nanoseconds now, Nanoseconds timeout) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return (slot.posts & bit_of(port)) != 0 && slot.posted_at.count() > 0 &&
               now - slot.posted_at > timeout;
    });
}

} // namespace adaptib
