// SPDX-License-Identifier: BSD-3-Clause
// Peer: a remote process that this process has had contact with (the dissertation's virtual
// channel).
//
// Purpose: the state that both directions of traffic to one process share, in parts by value, each
// of which one folder of the core keeps:
//
//     out, session             the channel of messages to it, their numbers      every folder
//     in                       arriving messages, the ring they come through      core/, connect/
//     flow                     limits of eager messages                           protocol/
//     lanes                    its subchannels, and the policy for stripes        connect/
//     transfers                one-sided operations and data that moves by RDMA   protocol/
//     ending                   release, disconnect, failure                       protocol/
//     contact                  which process it is, how datagrams reach it        core/
//     connection, control      handshake and closing; the control lane            connect/
//     interruption             the repair of its connection                       connect/
//     health                   evidence of its life, its paths                    recovery/
//
// Processes never contacted have no Peer and cost nothing.
// A peer is always in one of seven connection states (ConnectState). Messages flow as datagrams
// unless the peer is open and has a ring; data moves by RDMA only while it is open.
// Ownership: peers belong to the PeerTable; queue pairs, rings and memory belong to the peer.
// Threads: one at a time (the core's lock).
// Source: Vishnu, 4.2.2 (virtual channel, packet sequence numbers).
// May touch: base/, fabric/, memory/, channel/, schedule/, stats/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/datagram.h"
#include "channel/ring_writer.h"
#include "channel/shared_queue_pairs.h"
#include "fabric/fabric.h"
#include "peer/contact.h"
#include "peer/control_lane.h"
#include "peer/ending.h"
#include "peer/flow.h"
#include "peer/health.h"
#include "peer/in.h"
#include "peer/interruption.h"
#include "peer/lanes.h"
#include "peer/out.h"
#include "peer/peer_connection.h"
#include "peer/transfers.h"
#include "stats/counters.h"

namespace adaptib {

class Peer {
public:
    // `queue`: the datagram channel of the route's fabric.
    Peer(const ProcessAddress& process, const PeerRoute& way, DatagramChannel& queue,
         Bytes eager_limit, Counters& counts)
        : out(eager_limit, counts), flow(eager_limit), contact(process, way, queue),
          connection(*this), control(*this) {}

    // Sets which messages to be matched the peer accepts from now on.
    void allow(Allowance allowance) {
        const Bytes below =
            flow.learnt_limit != nullptr ? EagerLimit::kTimedFrom : flow.eager_limit + 1;
        flow.allowed = allowance;
        out.try_send_below = allowance == Allowance::all ? below : 0;
    }

    // Returns room for a message of `length` bytes of body and payload on its channel, or null.
    std::byte* reserve(Bytes length) {
        if (!out.by_ring(length)) {
            return contact.channel.reserve(contact.datagram);
        }
        std::byte* const to = out.ring->reserve(length);
        if (to == nullptr) { // forever, if the ring gets no memory for it
            out.ring_capacity = std::min(out.ring_capacity, out.ring->most());
        }
        return to;
    }
    void abandon(Bytes length) {
        if (out.by_ring(length)) {
            out.ring->abandon(length);
        }
    }
    // Turns the reservation into a message with the next sequence number. again: no room after all,
    // the reservation is gone. error: the path is broken.
    Status commit(MessageHeader& header) {
        if (out.by_ring(header.length)) {
            return commit_in_ring(header);
        }
        header.sequence = session.next_send;
        const Status status = contact.channel.commit(contact.datagram, header);
        if (status.ok()) {
            count_datagram(header.length);
        }
        return status;
    }
    // Same for a datagram whose payload the device reads from a user's buffer.
    Status commit_gathered(MessageHeader& header, LentPayload& lent) {
        header.sequence = session.next_send;
        const Status status = contact.channel.commit_gathered(contact.datagram, header, lent);
        if (status.ok()) {
            count_datagram(header.length);
        }
        return status;
    }

    // Returns true if a message may go as a datagram now: it has no ring to go into, nothing has to
    // go before it, and there is room.
    bool may_use_datagram(Bytes length) const {
        return out.ring == nullptr && !out.has_pending() && !session.lost() &&
               !session.disconnect_sent && length <= contact.datagram_capacity() &&
               DatagramChannel::has_room(contact.datagram);
    }
    // Returns true if a message of that length may go into the ring now, given room: nothing has to
    // go before it.
    bool may_use_ring(Bytes length) const {
        return out.by_ring(length) && !out.has_pending() && session.state == ConnectState::open &&
               !session.disconnect_sent;
    }
    // Same as reserve and commit, for a message that may use the ring (may_use_ring).
    [[gnu::always_inline]] std::byte* reserve_in_ring(Bytes length) {
        return out.ring->reserve(length);
    }
    [[gnu::always_inline]] Status commit_in_ring(MessageHeader& header) {
        header.sequence = session.next_send;
        const Status status = out.ring->commit(header);
        if (status.ok()) [[likely]] {
            ++session.next_send;
            ++out.counters.ring_sent;
            out.counters.ring_sent_bytes += header.length;
            return status;
        }
        return ring_says(status);
    }
    // Same for a message that the device gathers (RingWriter::commit_gathered). `to`: what
    // reserve() has returned.
    Status commit_gathered(MessageHeader& header, const std::byte* to, const Gather& payload,
                           GatheredMessage& message, GatherListener& listener) {
        header.sequence = session.next_send;
        const Status status = out.ring->commit_gathered(header, payload);
        if (!status.ok()) [[unlikely]] {
            return ring_says(status);
        }
        message.front = to;
        message.front_bytes = static_cast<std::uint32_t>(header.length - payload.length);
        message.payload = static_cast<const std::byte*>(payload.address);
        message.sequence = header.sequence;
        message.write = out.ring->poster().signaled();
        flow.gathered.add(message, listener);
        ++session.next_send;
        ++out.counters.ring_sent;
        out.counters.ring_sent_bytes += header.length;
        return status;
    }
    // Reserves and commits in one call, for short messages (RingWriter::store_short).
    template <typename Fill>
    [[gnu::always_inline]] bool store_short_into_ring(MessageHeader& header, Fill&& fill) {
        header.sequence = session.next_send;
        if (!out.ring->store_short(header, fill)) [[unlikely]] {
            return false;
        }
        ++session.next_send;
        ++out.counters.ring_sent;
        out.counters.ring_sent_bytes += header.length;
        return true;
    }
    // Same as commit(), for a message that already has its number.
    Status commit_again(const MessageHeader& header) {
        if (!out.by_ring(header.length)) {
            return contact.channel.commit(contact.datagram, header);
        }
        const Status status = out.ring->commit(header);
        if (status.ok()) {
            out.ring->cursor().uncount(header.length); // counted when it was sent first
        }
        return ring_says(status);
    }

    // Converts the ring's error: what its queue pair refuses for good can be sent once the
    // connection is repaired.
    Status ring_says(Status status) {
        if (!status.is_error() || !session.repairable) {
            return status;
        }
        session.ring_broken = true;
        return Status::again(Reason::queue_full);
    }

    // Returns the longest body and payload of one message now.
    Bytes message_capacity() const {
        return out.ring != nullptr ? std::max(out.ring_capacity, contact.datagram_capacity())
                                   : contact.datagram_capacity();
    }

    // Returns true if something besides the barrier is pending.
    bool has_waiting() const {
        const PendingSend* first = out.pending.front();
        return first != nullptr && (first != &interruption.barrier || first->next != nullptr);
    }
    // Returns the only path; null: there are several, or the connection is not open.
    const Subchannel* only_subchannel() const {
        return session.state == ConnectState::open && lanes.subchannels.size() == 1
                   ? &lanes.subchannels.front()
                   : nullptr;
    }
    // Returns null if the connection has queue pairs of its own, or none on that path.
    SharedQueuePair* shared_queue_pair(const Subchannel& subchannel) const {
        return connection.shared ? static_cast<SharedQueuePair*>(subchannel.qp.get()) : nullptr;
    }
    // Messages sent into rings of the peer, over all connections so far: those that were no
    // datagrams. Exact unless a connection is repaired just as the sequence numbers begin again.
    TrafficCount ring_sent() const {
        std::uint64_t wraps = contact.wraps;
        Bytes bytes = contact.rings_sent;
        for (RingWriter* ring : {out.ring.get(), connection.ring_closing.get()}) {
            wraps += ring != nullptr ? ring->cursor().wraps() : 0;
            bytes += ring != nullptr ? ring->cursor().sent_bytes() : 0;
        }
        return {(wraps << 32 | session.next_send) - contact.datagrams_sent.number, bytes};
    }
    // Destroys a writer of the peer's ring: `out.ring` or `connection.ring_closing`.
    void drop_ring_writer(std::unique_ptr<RingWriter>& writer) {
        if (writer != nullptr) {
            contact.wraps += writer->cursor().wraps();
            contact.rings_sent += writer->cursor().sent_bytes();
        }
        writer.reset();
    }
    // Number of messages, both ways.
    std::uint32_t messages() const { return session.next_send + in.next_receive; }
    // Returns true if there was no message, and there is no connection.
    bool unused() const { return messages() == 0 && session.state == ConnectState::idle; }
    // Returns true once both sides have sent their disconnect: the connection ends with that, and
    // so would one that is made meanwhile.
    bool disconnecting() const { return session.disconnect_sent && ending.disconnect_received; }
    // Returns true once both sides have sent their disconnect and the peer has answered this
    // side's: messages that arrive now belong to what follows.
    bool disconnect_done() const { return disconnecting() && ending.disconnect_acked; }
    // Returns true if this side's credit may be written to the peer once more, which fails if the
    // peer is gone. One that has begun to disconnect may take its memory down.
    bool takes_credit() const {
        return session.state == ConnectState::open && in.ring.has_value() &&
               !ending.disconnect_received;
    }
    // Returns true once this side's answer is on its way, too.
    bool disconnected() const { return disconnect_done() && !out.has_pending(); }

private:
    void count_datagram(Bytes length) {
        ++session.next_send;
        ++out.counters.datagram_sent;
        out.counters.datagram_sent_bytes += length;
        contact.datagrams_sent.add(length);
        contact.wraps += session.next_send == 0 && out.ring == nullptr ? 1 : 0;
    }

public:
    // Parts of short messages: one cache line each way.
    alignas(kCacheLine) PeerOut out;
    PeerSession session;
    PeerIn in;
    PeerFlow flow;
    // Parts of short one-sided operations: one cache line, besides the session.
    alignas(kCacheLine) PeerLanes lanes;
    PeerTransfers transfers;

    alignas(kCacheLine) PeerEnding ending;
    PeerContact contact;
    PeerConnection connection;
    PeerControlLane control;
    PeerInterruption interruption;
    PeerHealth health;
};

// Work targets of the peer (peer/work_targets.h).
inline void RingWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    RingWriter* const writer =
        peer_.out.ring != nullptr ? peer_.out.ring.get() : peer_.connection.ring_closing.get();
    Subchannel* const subchannel = peer_.lanes.find(rail, completion.qp_number);
    if (writer == nullptr || subchannel == nullptr || !writer->poster().posts_to(*subchannel->qp)) {
        return; // of an earlier connection
    }
    if (completion.status != WorkStatus::success) {
        peer_.interruption.work_failed =
            peer_.interruption.work_failed || !peer_.session.disconnect_sent;
    } else {
        ++subchannel->completions;
    }
    writer->poster().on_completion();
    if (completion.status == WorkStatus::success) { // what fails stays under way until the fence
        peer_.flow.gathered.on_written(writer->poster().completed());
    }
}

inline void FlushWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    if (flush_.rail != rail || flush_.qp != completion.qp_number ||
        work_number_of(completion.wr_id) != number_ % kWorkNumbers) {
        return;
    }
    flush_.done = completion.status == WorkStatus::success;
    const Subchannel* const subchannel = peer_.lanes.find(rail, completion.qp_number);
    if (peer_.connection.shared && flush_.done && subchannel != nullptr) {
        peer_.shared_queue_pair(*subchannel)->settle(flush_.posts);
    }
}

} // namespace adaptib
