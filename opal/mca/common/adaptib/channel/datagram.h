// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel: messages of any number of peers through one queue (UD; shm's shared queue).
//
// Purpose: costs nothing per peer; carries everything for peers without a connection, and the
// connection handshake. One message per datagram. A sender proves that it belongs to the job by the
// key that this process published, which only processes with access to the job's exchanged data
// (PMIx) know: the queue pair's Q_Key is made of it (31 or 32 bits, so that the adapter drops what
// other programs send), and each message holds all 64 bits, beside the sender's own key. A message
// with other keys is counted as a bad packet and dropped.
// Over a rail whose datagrams are not reliable (without Capability::reliable_ud), the datagrams of
// each peer are numbered, acknowledged and sent again (channel/datagram_link.h); the owner of the
// channel calls retransmitter().run_timers() at its deadline().
// Rails: one port (queue pair, receives) on each rail that it is given. A target's datagrams go
// over one of them, and over another when the owner moves the target. The channel asks for that
// when datagrams are not acknowledged, when one ends with an error, or when the adapter does not
// even complete the send. Where either process has several ports, the datagrams between the two are
// numbered even if each rail is reliable, since a move is not (DatagramTarget::numbered).
// Parts: ports and slots to send from (DatagramSender), acknowledgements and repeats
// (DatagramRetransmitter).
// Requires: a rail with Capability::ud.
// Threads: one at a time.
// Source: Takagi et al., section 2 (shared send/receive channel); Yu, Gao, Panda, section 4.1 (UD
// before a connection is up).
// May touch: base/, fabric/, stats/, channel/datagram_*.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/datagram_retransmitter.h"
#include "channel/datagram_sender.h"
#include "channel/datagram_target.h"
#include "fabric/fabric.h"
#include "stats/counters.h"

namespace adaptib {

class DatagramChannel {
public:
    using Identity = DatagramIdentity;
    static constexpr std::uint32_t kUsualReceives = 4096;
    // Receives of the first rail at the start, if datagrams may be lost: of a channel that is going
    // to be used, and of one that may never be.
    static constexpr std::uint32_t kFirstReceives = 256;
    static constexpr std::uint32_t kFewReceives = 64;
    using PathFailure = DatagramRetransmitter::PathFailure;
    using Standing = DatagramRetransmitter::Standing;

    // Finds the sender's target, and takes the message if accept() then returns true.
    using Receiver = std::function<void(const DatagramArrival& arrival)>;
    // Receives an unsequenced message. It has no number, and its path need not be the target's own.
    using ProbeHandler =
        std::function<void(std::uint64_t from, std::uint64_t from_key, std::uint32_t port,
                           std::uint8_t rail, const MessageHeader& header, const std::byte* body)>;

    // `first`: the number of rails[0] among the rails that the process publishes.
    // If datagrams may be lost: `most_receives` of one rail; `first_receives` of the first one at
    // the start. `gathers`: see gathers().
    static Status create(RailList rails, std::uint32_t first, const Identity& identity,
                         const Clock& clock, Counters& counters,
                         std::unique_ptr<DatagramChannel>& out,
                         std::uint32_t most_receives = kUsualReceives,
                         std::uint32_t first_receives = kFirstReceives, bool gathers = false);
    static Status create(Rail& rail, const Identity& identity, const Clock& clock,
                         Counters& counters, std::unique_ptr<DatagramChannel>& out) {
        Rail* const only = &rail;
        return create({&only, 1}, 0, identity, clock, counters, out);
    }

    // Bytes of body and payload that one message carries.
    Bytes capacity() const { return sender_.capacity(); }
    // Returns by how much less a datagram carries if it has at most that many bytes in all.
    Bytes shorter_by(Bytes bytes) const {
        return sender_.datagram_bytes() > bytes ? sender_.datagram_bytes() - bytes : 0;
    }
    // Tells that so many processes may send, as the first that they do, at once.
    void expect(std::uint32_t processes) { sender_.expect(processes); }
    std::uint32_t ports() const { return static_cast<std::uint32_t>(sender_.ports()); }
    std::uint32_t qp_number(std::uint32_t port = 0) const { return sender_.port(port).qp_number(); }
    Rail& rail(std::uint32_t port = 0) const { return sender_.port(port).rail(); }
    // Returns the number of the port's rail among those that the process publishes.
    std::uint32_t rail_number(std::uint32_t port) const { return sender_.published(port); }
    // Returns true if the datagrams of all targets are numbered.
    bool linked() const { return !sender_.reliable(); }

    // Returns room for a message of up to capacity(), or null if nothing can be sent to the target
    // now: what is packed for it would be packed again. An uncommitted reservation sends nothing
    // and occupies nothing.
    std::byte* reserve(const DatagramTarget& target);
    // again: the target has no room, or is `coming`; the reservation is gone. error(peer_gone): the
    // target was released.
    Status commit(DatagramTarget& target, const MessageHeader& header) {
        return commit(target, header, nullptr);
    }
    // Same for a message whose last bytes are in a user's buffer. If it is sent, the buffer is lent
    // until the datagram is acknowledged, or for DatagramLink::kLoan: after that the slot has a
    // copy, to be sent again. REQUIRES: gathers().
    Status commit_gathered(DatagramTarget& target, const MessageHeader& header, LentPayload& lent) {
        return commit(target, header, &lent);
    }
    // Returns true if payloads may be in users' buffers.
    bool gathers() const { return sender_.gathers(); }
    // Returns false if the target takes no further message now.
    static bool has_room(const DatagramTarget& target) {
        return target.handle != nullptr && (target.link == nullptr || target.link->may_send());
    }
    // Ends the messages to the target whose buffers are lent (PayloadLoans::abandon).
    void abandon_loans(const DatagramTarget& target, GatherEnd how) {
        if (gathers()) {
            sender_.slots().abandon_loans(target.name, how);
        }
    }
    // Gives up the registrations of buffers that are still lent. Nothing is sent after that.
    void drop_loans() { sender_.slots().drop_loans(); }

    // Acknowledges datagrams and sends them again; its owner sets the handlers.
    DatagramRetransmitter& retransmitter() { return retransmitter_; }
    const DatagramRetransmitter& retransmitter() const { return retransmitter_; }
    void on_probe(ProbeHandler handler) { probe_ = std::move(handler); }

    // Sends a message without a number, which may get lost. Returns false if that is impossible
    // now.
    bool send_probe(const DatagramTarget& target, std::uint32_t port,
                    std::unique_ptr<AddressHandle> handle, std::uint32_t qp,
                    const MessageHeader& header, const void* body);

    // Lets the next poll restart the port's queue pair: its rail has another address, or uses
    // another partition.
    void renew(std::uint32_t port) { sender_.port(port).renew(); }
    // The port's device was lost and is back: the port gets another queue pair. Errors: of the
    // rail.
    Status make_anew(std::uint32_t port);
    // Number of the responder of the port's rail (Fabric::responder_qp), which probes tell.
    std::uint32_t responder(std::uint32_t port) const { return responders_[port]; }
    void set_responder(std::uint32_t port, std::uint32_t qp) { responders_[port] = qp; }
    // Reports that a queue pair has failed. Returns false if it is none of the channel's.
    bool on_fatal(std::uint32_t port, std::uint32_t qp_number);

    // Passes arrived datagrams to `receiver`. Takes at most `limit` completions per port polled;
    // returns how many it took.
    std::size_t poll(const Receiver& receiver, std::size_t limit);
    // Called by the receiver. Returns true if the datagram has a message that has not arrived
    // before.
    bool accept(DatagramTarget& source, const DatagramArrival& arrival);

private:
    DatagramChannel(std::uint32_t first, const Identity& identity, const Clock& clock,
                    Counters& counters)
        : clock_(clock), counters_(counters), sender_(first, identity, clock, counters),
          retransmitter_(sender_, clock, counters) {}
    Status commit(DatagramTarget& target, const MessageHeader& header, LentPayload* lent);
    std::size_t poll_port(std::uint32_t port, const Receiver& receiver, std::size_t limit);
    void handle_receive(std::uint32_t port, const WorkCompletion& completion,
                        const Receiver& receiver);

    const Clock& clock_;
    Counters& counters_;
    DatagramSender sender_;
    DatagramRetransmitter retransmitter_;
    std::array<std::uint32_t, kMaxRails> responders_{}; // by port; 0: none
    std::uint32_t next_port_ = 0;                       // of the ports after the first: polled next
    ProbeHandler probe_;
    std::array<WorkCompletion, 16> batch_; // scratch of poll; the receiver must not poll
};

} // namespace adaptib
