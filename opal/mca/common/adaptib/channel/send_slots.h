// SPDX-License-Identifier: BSD-3-Clause
// SendSlots: memory that a datagram channel sends from.
//
// Purpose: slots of one datagram each, all of which every port of the channel can send from. A slot
// is free once no port sends it any more and nothing keeps it for another try. Grows by blocks, up
// to a bound. The payload may be in a user's buffer instead (channel/payload_loans.h).
// Ownership: the rail of the first port allocates the memory; it is registered with the others.
// Threads: one at a time.
// May touch: base/, fabric/, stats/, channel/payload_loans.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/payload_loans.h"
#include "fabric/fabric.h"
#include "stats/counters.h"

namespace adaptib {

class SendSlots {
public:
    static constexpr std::uint32_t kBlock = 64;     // slots
    static constexpr std::uint32_t kMostPieces = 2; // of a datagram: from the slot, from a buffer
    using Pieces = std::array<Gather, kMostPieces>;

    explicit SendSlots(Counters& counters) : counters_(counters) {}

    // Makes the first block, for the ports of these rails and datagrams of that size.
    Status open(RailList rails, Bytes datagram_bytes);
    Status add_block();
    bool can_grow() const;
    // The keys of the port's memory have changed.
    void read_keys(std::uint32_t port);
    std::size_t size() const { return slots_.size(); }

    // Messages leave a few slots to acknowledgements and probes: if all were kept for a process
    // that computes, nobody could be asked whether it lives, or be told what has arrived.
    static constexpr std::uint32_t kForControl = 4;
    bool none_for_messages() const { return free_.size() <= kForControl; }
    // next(): a free slot, the same one until take() or until another one becomes free. REQUIRES
    // for both: !none_free().
    bool none_free() const { return free_.empty(); }
    std::uint32_t next() const { return free_.back(); }
    void take() {
        ADAPTIB_INVARIANT(!free_.empty(), "a slot that is taken is free", slots_.size());
        free_.pop_back();
    }

    // Begins a datagram to process `to`, with all but the data behind the headers.
    void put(std::uint32_t slot, std::uint64_t to, const DatagramHeader& prefix);
    void put(std::uint32_t slot, std::uint64_t to, const DatagramHeader& prefix,
             const MessageHeader& header);
    std::byte* at(std::uint32_t slot) const {
        return static_cast<std::byte*>(blocks_[slot / kBlock].memory->address()) +
               slot % kBlock * slot_bytes_;
    }
    // Returns the datagram as `port` sends it, in one or two pieces of `memory`.
    std::span<const Gather> pieces(std::uint32_t slot, std::uint32_t port, Pieces& memory) const {
        const Slot& sent = slots_[slot];
        memory[0] = {at(slot), sent.bytes, blocks_[slot / kBlock].keys[port]};
        if (!reads_buffer(slot)) [[likely]] {
            return {memory.data(), 1};
        }
        memory[1] = loans_.payload(slot);
        ADAPTIB_INVARIANT(memory[1].length < memory[0].length,
                          "a lent payload is a part of its datagram", memory[1].length,
                          memory[0].length);
        memory[0].length -= memory[1].length;
        return {memory.data(), 2};
    }
    std::uint64_t target_of(std::uint32_t slot) const { return slots_[slot].to; }

    // Posts that have not ended, on that port and on any.
    void on_posted(std::uint32_t slot, std::uint32_t port) {
        ADAPTIB_INVARIANT(!posted_on(slot, port), "a port sends a slot once at a time", slot, port);
        slots_[slot].posts |= bit_of(port);
    }
    void on_ended(std::uint32_t slot, std::uint32_t port);
    bool posted_on(std::uint32_t slot, std::uint32_t port) const {
        return (slots_[slot].posts & bit_of(port)) != 0;
    }
    bool posted(std::uint32_t slot) const { return slots_[slot].posts != 0; }

    // Time of the last post, if datagrams have numbers or for a probe.
    Nanoseconds posted_at(std::uint32_t slot) const { return slots_[slot].posted_at; }
    void set_posted_at(std::uint32_t slot, Nanoseconds now) { slots_[slot].posted_at = now; }
    // Returns true if a post on that port has not ended for longer than `timeout`.
    bool has_overdue(std::uint32_t port, Nanoseconds now, Nanoseconds timeout) const;

    // retain(): keeps the slot until drop(), which releases it. take_back(): ends retain() for a
    // slot that was not posted and so is still next().
    void retain(std::uint32_t slot) { slots_[slot].retained = true; }
    void take_back(std::uint32_t slot) {
        ADAPTIB_INVARIANT(slots_[slot].retained && slots_[slot].posts == 0,
                          "a slot that is taken back was not posted", slot, slots_[slot].posts);
        slots_[slot].retained = false;
    }
    void drop(std::uint32_t slot);

    // lend(): the last bytes of the datagram are those of a user's buffer, which `port` reads.
    // take_loan_back(): the slot was not posted. REQUIRES for both: the slot is next().
    void lend(std::uint32_t slot, std::uint32_t port, LentPayload& lent) {
        ADAPTIB_INVARIANT(!slots_[slot].lent, "a slot has one loan at a time", slot);
        loans_.begin(slot, port, lent);
        slots_[slot].lent = true;
    }
    void take_loan_back(std::uint32_t slot, LentPayload& lent) {
        ADAPTIB_INVARIANT(slots_[slot].lent && slots_[slot].posts == 0,
                          "a loan that is taken back was not posted", slot, slots_[slot].posts);
        loans_.take_back(slot, lent);
        slots_[slot].lent = false;
    }
    // Returns true if the next post of the slot would read a user's buffer.
    bool reads_buffer(std::uint32_t slot) const { return slots_[slot].lent && loans_.reads(slot); }
    // Copies the payload into the slot: the buffer is the user's again once the post that reads it
    // has ended. REQUIRES: reads_buffer().
    void copy_payload(std::uint32_t slot);
    // Ends the messages to process `to` whose buffers are lent (PayloadLoans::abandon).
    void abandon_loans(std::uint64_t to, GatherEnd how);
    // Drops all loans: nothing is sent any more.
    void drop_loans();

private:
    struct Slot {
        std::uint64_t to = 0; // the target's name
        std::uint32_t bytes = 0;
        std::uint8_t posts = 0; // bit by port: its completion is outstanding
        bool retained = false;  // until it is acknowledged
        bool lent = false;      // it has a loan
        Nanoseconds posted_at{0};
    };
    struct Block {
        std::unique_ptr<MemoryRegion> memory;
        std::array<std::unique_ptr<MemoryRegion>, kMaxRails> regions; // by port
        std::array<std::uint32_t, kMaxRails> keys{};
    };
    static_assert(kMaxRails <= 8, "Slot::posts");

    static constexpr std::uint8_t bit_of(std::uint32_t port) {
        return static_cast<std::uint8_t>(1u << port);
    }
    std::byte* payload_place(std::uint32_t slot) const {
        return at(slot) + slots_[slot].bytes - loans_.payload(slot).length;
    }
    void release(std::uint32_t slot);
    void settle_loan(std::uint32_t slot);

    Counters& counters_;
    std::vector<Rail*> rails_; // by port
    Bytes slot_bytes_ = 0;
    std::vector<Block> blocks_;
    std::vector<std::uint32_t> free_; // at most all slots
    std::vector<Slot> slots_;
    PayloadLoans loans_;
};

} // namespace adaptib
