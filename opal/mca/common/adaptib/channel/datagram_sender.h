// SPDX-License-Identifier: BSD-3-Clause
// DatagramSender: sends datagrams from the slots of a channel over its ports.
//
// Purpose: makes the header that proves where a datagram comes from and acknowledges what has
// arrived from its target; posts it on the target's port, or on another one; restarts ports.
// Ownership: owns the slots and the ports; uses rails that outlive it.
// Threads: one at a time.
// May touch: base/, fabric/, stats/, channel/datagram_port.h, channel/datagram_target.h,
// channel/send_slots.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/datagram_port.h"
#include "channel/datagram_target.h"
#include "channel/send_slots.h"
#include "fabric/fabric.h"
#include "stats/counters.h"

namespace adaptib {

// Name and key of this process, as it has published them.
struct DatagramIdentity {
    std::uint64_t name = 0;
    std::uint64_t key = 0;
};

class DatagramSender {
public:
    // `first`: the number of the first rail among those that the process publishes.
    DatagramSender(std::uint32_t first, const DatagramIdentity& identity, const Clock& clock,
                   Counters& counters)
        : first_(first), identity_(identity), clock_(clock), counters_(counters), slots_(counters) {
    }

    // Opens a port on each rail. If datagrams may be lost, the port has at most `most_receives`
    // receives, and that of the first rail `first_receives` for a start. `gathers`: payloads may be
    // in users' buffers, if all rails can read them from there.
    // REQUIRES: each has Capability::ud.
    Status open(RailList rails, std::uint32_t most_receives, std::uint32_t first_receives,
                bool gathers);
    // Tells that so many processes may send, as the first that they do, at once.
    void expect(std::uint32_t processes);

    const DatagramIdentity& identity() const { return identity_; }
    // Bytes of body and payload that one message carries.
    Bytes capacity() const {
        return datagram_bytes_ - sizeof(DatagramHeader) - sizeof(MessageHeader);
    }
    Bytes datagram_bytes() const { return datagram_bytes_; }
    // Returns true if datagrams may have their payloads in users' buffers.
    bool gathers() const { return gathers_; }
    // Returns true if neither rails nor moves lose datagrams.
    bool reliable() const { return reliable_; }
    SendSlots& slots() { return slots_; }
    const SendSlots& slots() const { return slots_; }
    std::size_t ports() const { return ports_.size(); }
    DatagramPort& port(std::uint32_t number) { return ports_[number]; }
    const DatagramPort& port(std::uint32_t number) const { return ports_[number]; }

    // Returns the number that this process has published for the port's rail.
    std::uint8_t published(std::uint32_t port) const {
        return static_cast<std::uint8_t>(first_ + port);
    }
    // Returns a header without a number.
    DatagramHeader prefix_for(const DatagramTarget& target) const;

    // Posts a slot to the target, or over another port and handle. REQUIRES: its handle is not
    // null.
    Status post(const DatagramTarget& target, std::uint32_t slot) {
        return post(target.port, *target.handle, target.qp, target.key, slot);
    }
    Status post(std::uint32_t port, const AddressHandle& handle, std::uint32_t qp,
                std::uint64_t key, std::uint32_t slot);
    // Called when the port has completed its send of the slot.
    void on_ended(std::uint32_t slot, std::uint32_t port) {
        ports_[port].on_ended();
        slots_.on_ended(slot, port);
    }
    // Restarts the port's queue pair; all its sends under way end by that.
    void restart(std::uint32_t port);
    // Drops the handles that no send uses any more.
    void drop_retired();

private:
    const std::uint32_t first_;
    const DatagramIdentity identity_;
    const Clock& clock_;
    Counters& counters_;
    bool reliable_ = true;
    bool gathers_ = false;
    Bytes datagram_bytes_ = 0; // that all rails take
    SendSlots slots_;
    std::vector<DatagramPort> ports_; // at least one; the number stays
};

} // namespace adaptib
