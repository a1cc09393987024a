// SPDX-License-Identifier: BSD-3-Clause
// Peer: a remote process that this process has had contact with (the dissertation's virtual
// channel).
//
// Purpose: the state that both directions of traffic to one process share: its address, the
// sequence numbers, the channel of its messages, its subchannels, and what waits for room.
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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/intrusive_list.h"
#include "base/units.h"
#include "base/wire.h"
#include "channel/datagram.h"
#include "channel/ring_memory.h"
#include "channel/ring_reader.h"
#include "channel/ring_writer.h"
#include "channel/shared_queue_pairs.h"
#include "fabric/fabric.h"
#include "memory/registration.h"
#include "peer/activity.h"
#include "peer/allowance.h"
#include "peer/assist_choices.h"
#include "peer/connection.h"
#include "peer/cooperative_copy_choices.h"
#include "peer/life.h"
#include "peer/paths.h"
#include "peer/pending.h"
#include "peer/put_get_balance.h"
#include "peer/route.h"
#include "peer/stream.h"
#include "peer/subchannel.h"
#include "peer/waiting.h"
#include "peer/work_targets.h"
#include "schedule/copy_choice.h"
#include "schedule/scheduler.h"
#include "stats/counters.h"

namespace adaptib {

class Peer {
public:
    // `queue`: the datagram channel of the route's fabric.
    Peer(const ProcessAddress& process, const PeerRoute& way, DatagramChannel& queue,
         Bytes eager_most, Counters& counts)
        : try_send_below(eager_most + 1), counters(counts), eager_limit(eager_most),
          datagrams(queue), name(process.name), route(way), address(process) {}

    // Sets which messages to be matched the peer accepts from now on.
    void allow(Allowance allowance) {
        const Bytes below = copy_choice != nullptr ? CopyChoice::kTimedFrom : eager_limit + 1;
        allowed = allowance;
        try_send_below = allowance == Allowance::all ? below : 0;
    }

    // Returns room for a message of `length` bytes of body and payload on its channel, or null.
    std::byte* reserve(Bytes length) {
        if (!by_ring(length)) {
            return datagrams.reserve(length);
        }
        std::byte* const to = ring_out->reserve(length);
        if (to == nullptr) { // forever, if the ring gets no memory for it
            ring_capacity = std::min(ring_capacity, ring_out->most());
        }
        return to;
    }
    void abandon(Bytes length) {
        if (by_ring(length)) {
            ring_out->abandon(length);
        }
    }
    // Turns the reservation into a message with the next sequence number. again: no room after all,
    // the reservation is gone. error: the path is broken.
    Status commit(MessageHeader& header) {
        if (by_ring(header.length)) {
            return commit_in_ring(header);
        }
        header.sequence = next_send;
        const Status status = datagrams.commit(datagram, header);
        if (status.ok()) {
            ++next_send;
            ++counters.datagram_sent;
            counters.datagram_sent_bytes += header.length;
        }
        return status;
    }

    // Returns true if a message of that length may go into the ring now, given room: nothing has to
    // go before it.
    bool flows(Bytes length) const {
        return by_ring(length) && !has_pending() && state == ConnectState::open && !disconnect_sent;
    }
    // Same as reserve and commit, for a message that flows().
    [[gnu::always_inline]] std::byte* reserve_in_ring(Bytes length) {
        return ring_out->reserve(length);
    }
    [[gnu::always_inline]] Status commit_in_ring(MessageHeader& header) {
        header.sequence = next_send;
        const Status status = ring_out->commit(header);
        if (status.ok()) [[likely]] {
            ++next_send;
            ++counters.ring_sent;
            counters.ring_sent_bytes += header.length;
            return status;
        }
        return ring_says(status);
    }
    // Reserves and commits in one call, for short messages (RingWriter::store_short).
    template <typename Fill>
    [[gnu::always_inline]] bool store_in_ring(MessageHeader& header, Fill&& fill) {
        header.sequence = next_send;
        if (!ring_out->store_short(header, fill)) [[unlikely]] {
            return false;
        }
        ++next_send;
        ++counters.ring_sent;
        counters.ring_sent_bytes += header.length;
        return true;
    }
    // Same as commit(), for a message that already has its number.
    Status commit_again(const MessageHeader& header) {
        return by_ring(header.length) ? ring_says(ring_out->commit(header))
                                      : datagrams.commit(datagram, header);
    }

    // Converts the ring's error: what its queue pair refuses for good can be sent once the
    // connection is repaired.
    Status ring_says(Status status) {
        if (!status.is_error() || !repairable) {
            return status;
        }
        ring_broken = true;
        return Status::again(Reason::queue_full);
    }

    // Returns true if there is a ring that takes a message of that length.
    bool by_ring(Bytes length) const { return ring_out != nullptr && length <= ring_capacity; }
    // Returns the longest body and payload of one message now.
    Bytes message_capacity() const {
        return ring_out != nullptr ? std::max(ring_capacity, datagrams.capacity())
                                   : datagrams.capacity();
    }

    // REQUIRES: there is ring_memory.
    RingMemory ring_layout() const { return {*ring_memory, ring_parts}; }

    bool has_pending() const { return !pending.empty(); }
    // Returns true if something besides the barrier is pending.
    bool has_waiting() const {
        const PendingSend* first = pending.front();
        return first != nullptr && (first != &barrier || first->next != nullptr);
    }
    // Number of paths that the connection has.
    std::size_t live_subchannels() const {
        return static_cast<std::size_t>(
            std::count_if(subchannels.begin(), subchannels.end(),
                          [](const Subchannel& each) { return each.qp != nullptr; }));
    }
    // Returns the only path; null: there are several, or the connection is not open.
    const Subchannel* only_subchannel() const {
        return state == ConnectState::open && subchannels.size() == 1 ? &subchannels.front()
                                                                      : nullptr;
    }
    // Returns null if the connection has queue pairs of its own, or none on that path.
    SharedQueuePair* shared_queue_pair(const Subchannel& subchannel) const {
        return shared ? static_cast<SharedQueuePair*>(subchannel.qp.get()) : nullptr;
    }
    // Returns null if no subchannel has that queue pair.
    Subchannel* find(std::uint32_t rail, std::uint32_t qp_number) {
        const auto found =
            std::find_if(subchannels.begin(), subchannels.end(),
                         [&](const Subchannel& each) { return each.has(rail, qp_number); });
        return found == subchannels.end() ? nullptr : &*found;
    }
    // Number of messages, both ways.
    std::uint32_t messages() const { return next_send + next_receive; }
    // Returns true while a connection is coming up, or being repaired.
    bool connecting() const {
        return state == ConnectState::requested || state == ConnectState::answered ||
               state == ConnectState::repairing;
    }
    // Returns true once both sides have sent their disconnect and the peer has answered this
    // side's: messages that arrive now belong to what follows.
    bool disconnect_done() const {
        return disconnect_sent && disconnect_received && disconnect_acked;
    }
    // Returns true once this side's answer is on its way, too.
    bool disconnected() const { return disconnect_done() && !has_pending(); }

    // Fields that every short message sent reads: one cache line.
    alignas(kCacheLine) std::unique_ptr<RingWriter> ring_out; // null: datagrams
    Bytes ring_capacity = 0;
    // Maximum length + 1 of messages for Protocol::try_send: longer ones may have to be timed.
    // 0: none.
    Bytes try_send_below;
    Bytes try_send_active_max = 0; // maximum length of active messages for the same
    Counters& counters;
    PendingQueue pending; // messages that wait for room
    std::uint32_t next_send = 0;
    ConnectState state = ConnectState::idle;
    bool disconnect_sent = false; // disconnect sent: only the answer to the peer's follows

    // Fields that every short message received reads: one cache line.
    alignas(kCacheLine) EarlyMessage* early = nullptr; // by sequence
    std::uint64_t busy_at = 0;                         // last pass of the core that found a message
    std::uint32_t next_receive = 0;
    bool teardown_pending = false;     // disconnected; the connection is about to be taken down
    bool unheard = false;              // failed: arrivals may follow missing messages
    std::optional<RingReader> ring_in; // the part that short messages need ends the line

    // Hot.
    std::uint32_t messages_sent = 0; // towards connect_threshold; meaningful until connected
    std::uint32_t sent_by_then = 0;  // next_send at the last long message (core/ring_poller.cc)
    Bytes eager_limit;               // of two-sided messages
    DatagramChannel& datagrams;
    bool released = false;            // the user of the core has released it
    bool work_failed = false;         // a transfer or a write into the ring has ended with an error
    bool repairable = false;          // the connection is repaired when it breaks
    bool ring_broken = false;         // ... and has to be, since ring_out reports an error
    bool interrupted = false;         // the barrier is in place
    bool abandoned = false;           // completions of its stripes do not count any more
    bool disconnect_received = false; // the peer's disconnect arrived, and this side has answered
    bool failure_reported = false;
    bool refusal_reported = false; // a refused one-sided operation was reported
    bool disconnect_acked = false; // the peer has received everything sent
    std::uint64_t disconnect_number = 0;

    Allowance allowed = Allowance::all; // messages that this side may send
    UnexpectedShare unexpected;

    // Receiving.
    std::uint32_t credits_posted = 0;
    std::vector<std::byte> parts; // parts received so far of an active message

    std::size_t stripes = 0; // posted and not complete
    std::size_t users = 0;   // transfers and operations that need the connection, or will
    std::size_t rma_operations =
        0;               // puts and gets among them: the next connection can carry them as well
    bool yields = false; // others need the connection: no put or get is posted on it

    // Fields that short one-sided operations read, besides the state.
    alignas(kCacheLine) std::size_t one_sided = 0; // operations started and not complete
    std::vector<Subchannel> subchannels;
    const Registration* whole = nullptr; // of all local memory, once the protocol has looked for it
    std::unique_ptr<AssistChoices> assist_choices; // null: no target-assisted operations
    std::unique_ptr<CooperativeCopyChoices> cooperative_copy_choices; // null: one end alone copies

    // Cold.
    alignas(kCacheLine) DatagramTarget datagram;
    std::uint64_t name;
    void* user_data = nullptr; // opal_common_adaptib_peer_set_user_data
    const PeerRoute route;
    ProcessAddress address;
    bool shared = false;                 // the subchannels' queue pairs are SharedQueuePairs
    std::uint64_t access_key = 0;        // if so: the peer's
    QuietWork quiet_work;                // if so
    std::uint32_t connection = 0;        // number of this side's attempt
    std::uint32_t remote_connection = 0; // number of the peer's attempt that was answered
    std::unique_ptr<Scheduler> scheduler;
    std::uint32_t control_lane =
        kNoControlLane; // control lane: the subchannel of ring and credit, once chosen
    std::unique_ptr<PutGetBalance> put_get_balance; // null: puts and gets go out in call order
    std::unique_ptr<WaitingTransfers> waiting;      // null: no transfer has waited yet
    ListLink<Peer> transfers_link; // linked while transfers wait for room, or for the connection
    PostedList posted;             // transfers with stripes under way
    std::unique_ptr<CopyChoice> copy_choice;       // null: eager_limit is fixed
    std::uint32_t finishes = 0;                    // FINs received
    std::unique_ptr<StreamChoices> stream_choices; // if there is a copy_choice
    Stream stream;
    bool streaming = false;   // the next message may go through the ring, whatever the limit
    std::uint64_t offers = 0; // made to the peer
    // In the peer's memory, for its operations; valid as long as ring_out's queue pair.
    AnswerSlot* answers = nullptr;
    std::byte* answer_data = nullptr;
    Bytes answer_bytes = 0;      // answer data in local memory that have memory
    Bytes ring_bytes = 0;        // size of the ring offered to the peer
    std::uint64_t ring_seen = 0; // units consumed at the last check (core/idle_rings.cc)
    std::unique_ptr<MemoryRegion> ring_memory; // channel/ring_memory.h
    RingTarget remote_ring;         // the ring that ring_out writes into, 0 units: none offered
    RingParts ring_parts;           // of ring_memory
    Registration ring_registration; // of ring_memory, with the route's rails
    RingWork ring_work{*this};      // of ring_out
    std::unique_ptr<RingWriter> ring_paused; // ring_out, while closing
    Closing closing;
    FlushWork closing_flush{*this, closing.flush};
    LaneMigration lane_migration;
    FlushWork lane_migration_flush{*this, lane_migration.flush};
    ListLink<Peer> lane_migration_link; // linked while lane_migration is active
    Measuring measuring;
    std::uint64_t measure_address = 0; // in the peer's memory; 0: none
    ListLink<Peer> measure_link;       // linked while its paths may be measured
    Repair repair;
    PendingSend barrier{PendingSend::Kind::barrier};
    PendingQueue in_doubt; // RepeatedMessages, until the repair is over
    PeerActivity activity;
    std::vector<std::unique_ptr<QueuePair>>
        kept;                            // of the last connection, by path (ConnectionPool)
    ListLink<Peer> pool_link;            // linked while in the pool; ring_memory is kept, too
    bool reuses = false;                 // the connection coming up reuses them
    ListLink<Peer> slot_link;            // linked while it occupies a connection
    ListLink<Peer> wanted_link;          // linked while it waits for a connection
    ListLink<Peer> closing_link;         // linked while state is closing
    ListLink<Peer> yielding_link;        // linked while it yields
    ListLink<Peer> restrained_link;      // linked while unexpected.told is not `all`
    std::uint32_t unconnected_paths = 0; // bit by pair: its queue pair could not be connected
    ListLink<Peer> repair_link; // linked while a repair is wanted, or the state is repairing
    PeerCmConnect cm_connect;
    ListLink<Peer> cm_connect_link;   // linked while queue pairs connect through rdma_cm
    std::uint64_t credit_address = 0; // for the count consumed, in the peer's memory
    ListLink<Peer> stalled_link;      // linked while it has pending sends

    PeerLife life;
    ListLink<Peer> life_link;         // linked while it is asked whether it is alive
    std::unique_ptr<PeerPaths> paths; // null: all are up, and always were
    ListLink<Peer> paths_link;        // linked while known to the path repository
    ListLink<Peer> troubled_link;     // linked while a path is not up

    ListLink<Peer> waiting_link; // linked while a handshake message could not be sent yet
    PendingQueue queued;         // requests started after this side's disconnect
    std::unique_ptr<ConnectBody> early_request; // came before the last one was over
    std::string failure;                        // why the state is failed
    std::uint32_t handshakes_owed = 0;          // bit by MessageType
    std::uint32_t refusal = 0;                  // RefusalReason of the last
};

// Work targets of the peer (peer/work_targets.h).
inline void RingWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    const RingWriter* writer =
        peer_.ring_out != nullptr ? peer_.ring_out.get() : peer_.ring_paused.get();
    Subchannel* const subchannel = peer_.find(rail, completion.qp_number);
    if (writer == nullptr || subchannel == nullptr || !writer->poster().posts_to(*subchannel->qp)) {
        return; // of an earlier connection
    }
    if (completion.status != WorkStatus::success) {
        peer_.work_failed = peer_.work_failed || !peer_.disconnect_sent;
    } else {
        ++subchannel->completions;
    }
    if (peer_.ring_out != nullptr) {
        peer_.ring_out->poster().on_completion();
    } else if (peer_.ring_paused != nullptr) {
        peer_.ring_paused->poster().on_completion();
    }
}

inline void FlushWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    if (flush_.rail != rail || flush_.qp != completion.qp_number) {
        return;
    }
    flush_.done = completion.status == WorkStatus::success;
    const Subchannel* const subchannel = peer_.find(rail, completion.qp_number);
    if (peer_.shared && flush_.done && subchannel != nullptr) {
        peer_.shared_queue_pair(*subchannel)->settle(flush_.posts);
    }
}

} // namespace adaptib
