// SPDX-License-Identifier: BSD-3-Clause
// RingMirror: a copy of a peer's ring in this process's memory, which messages are posted from.
//
// Purpose: gives each posted message a place to lie in until its reader has consumed it, so that
// it can be sent again when a connection breaks (invariant 4 of channel/ring_layout.h). Only a
// writer that posts has the memory. The payload of a gathered message is not in it
// (channel/gathered_messages.h). The mirror can be paused, which ends posting until it goes on
// over another rail.
// Ownership: owns the memory and its registrations; uses a rail that outlives it.
// Threads: one at a time.
// May touch: base/, fabric/fabric.h, channel/ring_layout.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/invariant.h"
#include "base/status.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/ring_layout.h"
#include "fabric/fabric.h"

namespace adaptib {

class RingMirror {
public:
    RingMirror(Rail& rail, std::uint32_t units) : rail_(&rail), units_(units) {}

    // Gets the memory. Returns false if nothing can be posted now: there is no memory, or the
    // mirror is paused.
    bool prepare() { return posts_ || begin_to_post(); }

    // REQUIRES, for both: prepare() has returned true.
    std::byte* base() const { return static_cast<std::byte*>(memory_->address()); }
    std::uint32_t local_key() const { return memory_->local_key(); }

    // Records that messages are posted from now on, after others that were stored directly.
    // `produced`: units written before.
    void post_from(std::uint64_t produced) {
        ADAPTIB_INVARIANT(produced >= posted_from_, "counts of produced units grow", produced,
                          posted_from_);
        posted_from_ = produced;
    }

    // Stops posting, to continue over rail `next`, which the memory is registered with. Errors: of
    // the rail; nothing has changed then.
    Status pause(Rail& next);
    // Ends pause() without a change of rail.
    void resume() {
        paused_ = false;
        next_memory_.reset();
    }
    // Ends pause(next) with the change to that rail.
    void migrate_to(Rail& next);

    // Gets the memory to note gathered messages in; false: there is none.
    bool prepare_to_gather() { return gathered_ != nullptr || begin_to_gather(); }
    // Notes whether the payload of the message at `unit` lies elsewhere. REQUIRES, if it does:
    // prepare_to_gather() has returned true.
    void note_gathered(std::uint64_t unit, bool gathered) {
        ADAPTIB_INVARIANT(unit < units_ && (!gathered || gathered_ != nullptr),
                          "a gathered message is noted at its unit", unit, units_);
        if (gathered_ != nullptr) {
            gathered_[unit] = gathered;
        }
    }

    // Calls f(header, body), in order, for each posted message between the counts `consumed` and
    // `produced` of units; `body` is null for a gathered one. Returns false if that is impossible.
    template <typename F>
    bool for_each_between(std::uint64_t consumed, std::uint64_t produced, F&& f) const {
        if (memory_ == nullptr) {
            return true;
        }
        if (consumed > produced || produced - consumed > units_) {
            return false;
        }
        std::uint64_t at = std::max(consumed, posted_from_);
        while (at != produced) {
            const std::uint64_t position = at % units_;
            const std::byte* message = base() + position * kRingUnit;
            MessageHeader header;
            std::memcpy(reinterpret_cast<std::byte*>(&header), message, sizeof header);
            if (header.type == MessageType::skip) {
                at += units_ - position;
                continue;
            }
            const std::uint64_t units = ring_units_for(header.length, ring_format_of(header.magic));
            if (units > produced - at || units > units_ - position) {
                return false; // not the beginning of a message
            }
            header.magic = kHeaderMagic;
            f(header, is_gathered(position) ? nullptr : message + sizeof header);
            at += units;
        }
        return true;
    }

private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };

    bool begin_to_post();
    bool begin_to_gather();
    bool is_gathered(std::uint64_t unit) const { return gathered_ != nullptr && gathered_[unit]; }

    Rail* rail_;
    const std::uint32_t units_;
    bool posts_ = false; // there is memory, and paused_ is false
    bool paused_ = false;
    std::uint64_t posted_from_ = 0; // count of units produced before the first message in it
    std::unique_ptr<std::byte, Free> bytes_;
    std::unique_ptr<MemoryRegion> memory_;
    std::unique_ptr<bool[]> gathered_;          // per unit: a gathered message begins there
    std::unique_ptr<MemoryRegion> next_memory_; // the same, registered with the next rail
};

} // namespace adaptib
