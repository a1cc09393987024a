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
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/intrusive_list.h"
#include "base/work_target.h"
#include "channel/datagram.h"
#include "channel/ring_memory.h"
#include "channel/ring_reader.h"
#include "channel/ring_writer.h"
#include "channel/shared_queue_pairs.h"
#include "fabric/fabric.h"
#include "memory/block_pool.h"
#include "memory/registration.h"
#include "peer/life.h"
#include "peer/paths.h"
#include "peer/put_get_balance.h"
#include "peer/route.h"
#include "peer/waiting.h"
#include "schedule/copy_choice.h"
#include "schedule/scheduler.h"
#include "schedule/way_choice.h"
#include "stats/counters.h"

namespace adaptib {

enum class ConnectState : std::uint8_t {
    idle,      // datagrams only
    requested, // this process has sent a request; no reply yet
    answered,  // the peer has sent a request, this process a reply; no confirmation yet
    open,
    closing,   // open, but unused: a close was proposed, or agreed on
    repairing, // a path has failed: nothing is posted until the connection is made anew
    failed,    // nothing can be sent any more
};

// Progress of automatic path migration (recovery/apm/migration_agent.h).
enum class MigrationStep : std::uint8_t { none, loading, armed, due, waiting };
struct SubchannelMigration {
    MigrationStep state = MigrationStep::none;
    std::uint8_t way = 0; // the path in use, an index into Ways
};

// Progress of a queue pair that connects through rdma_cm (connect/cm_connect.cc).
enum class CmConnectStep : std::uint8_t { none, under_way, connected, again };
struct SubchannelCmConnect {
    CmConnectStep step = CmConnectStep::none; // none also if rdma_cm is not needed
    std::uint32_t remote_qp = 0;
    std::uint32_t failures = 0;
    Nanoseconds again_at{0}; // when to try again, unless an event arrives before
    std::string why;         // why the last attempt failed
};

// Time without completions from a queue pair with work (recovery/silence_watch.h).
struct Silence {
    std::uint32_t seen = 0; // completions, at the last check
    bool missed = false;    // the peer long did not answer probes over the path
    Nanoseconds lasts{0};
    Nanoseconds until = Nanoseconds::max(); // time limit, whatever the path says
};

// Timed stripes under way, and since when the path carries them: since it completed the one before,
// or since the first was posted.
struct TimedStripes {
    Bytes bytes = 0;
    Nanoseconds since{};
    Nanoseconds late{}; // it may have been earlier by this much
};

// One connection to the peer over one path.
struct Subchannel {
    std::uint32_t local_rail = 0;
    std::uint32_t remote_rail = 0;
    std::uint32_t path = 0;              // of the paths between the two rails
    std::uint32_t remote_memory_key = 0; // of the peer's ring and credit
    BytesPerSecond rate{};               // of the slower rail of the two; 0: unknown
    std::unique_ptr<QueuePair> qp;       // null: the connection does without this path
    SubchannelMigration migration;
    SubchannelCmConnect cm_connect;
    std::array<Bytes, 2> outstanding{};  // by Direction: bytes of stripes posted and not complete
    std::uint32_t reads = 0;             // reads and atomics among these stripes
    std::array<TimedStripes, 2> timed{}; // by Direction
    std::uint32_t completions = 0;       // successful ones, of work that the silence watch monitors
    bool refused = false; // the error of its queue pair was caused by a one-sided operation
    Silence silence;

    // Queue pairs of different rails may have the same number.
    bool has(std::uint32_t rail, std::uint32_t qp_number) const {
        return qp != nullptr && local_rail == rail && qp->number() == qp_number;
    }
};

// A message that waits for room, in the order of sending: embedded in a send request, a record of
// its own for a control message, the rest of a message that is sent in fragments, a message that is
// repeated after a repair, or the barrier that nothing passes until the repair is over.
struct PendingSend {
    enum class Kind : std::uint8_t { request, control, fragments, repeated, barrier };
    explicit PendingSend(Kind k) : kind(k) {}
    PendingSend* next = nullptr;
    Kind kind;
};

class PendingQueue {
public:
    bool empty() const { return first_ == nullptr; }
    const PendingSend* front() const { return first_; }
    void add(PendingSend& send) {
        (first_ == nullptr ? first_ : last_->next) = &send;
        last_ = &send;
        send.next = nullptr;
    }
    // REQUIRES: not empty.
    PendingSend* take() {
        PendingSend* first = first_;
        first_ = first->next;
        return first;
    }
    // Undoes take().
    void put_back(PendingSend& send) {
        send.next = first_;
        first_ = &send;
        if (send.next == nullptr) {
            last_ = &send;
        }
    }
    // Moves all of `other` to the end of this queue.
    void append(PendingQueue& other) {
        if (other.empty()) {
            return;
        }
        (first_ == nullptr ? first_ : last_->next) = other.first_;
        last_ = other.last_;
        other.first_ = nullptr;
    }

private:
    PendingSend* first_ = nullptr;
    PendingSend* last_ = nullptr;
};

struct ControlMessage : PendingSend {
    static constexpr std::size_t kMaxBody = sizeof(ClearBody);
    ControlMessage() : PendingSend(Kind::control) {}
    MessageType type = MessageType::none;
    std::uint8_t flags = 0;
    std::uint32_t length = 0;
    std::byte body[kMaxBody];
};

// A message that was written into the peer's ring and may not have arrived; its bytes follow the
// record.
struct RepeatedMessage : PendingSend {
    RepeatedMessage() : PendingSend(Kind::repeated) {}
    MessageHeader header;

    std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes size() const { return sizeof *this + header.length; }
};

// A message that overtook an earlier one of the same peer; its bytes follow the record.
struct EarlyMessage {
    EarlyMessage* next = nullptr;
    MessageHeader header;

    std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
    Bytes size() const { return sizeof *this + header.length; }
};

class Peer;

// Handles completions of writes into a peer's ring. The sender of such a message was told success;
// if the write fails, the failure has to be reported. Nobody expects anything of a disconnect.
class RingWork final : public WorkTarget {
public:
    explicit RingWork(Peer& peer) : peer_(peer) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;

private:
    Peer& peer_;
};

// An empty write behind everything that this side has posted besides transfers.
struct Flush {
    bool posted = false;
    bool done = false;       // nothing of that is under way any more
    std::uint32_t qp = 0;    // the queue pair that it is posted on ...
    std::uint32_t rail = 0;  // ... of that rail
    std::uint64_t posts = 0; // for a shared queue pair: number of posts by then

    bool awaits(const Subchannel& subchannel) const {
        return posted && !done && subchannel.has(rail, qp);
    }
};

class FlushWork final : public WorkTarget {
public:
    FlushWork(Peer& peer, Flush& flush) : peer_(peer), flush_(flush) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;
    Flush& flush() { return flush_; }

private:
    Peer& peer_;
    Flush& flush_;
};

// Identifies the peer's requests over a shared queue pair; ignores their completions.
class QuietWork final : public WorkTarget {
public:
    void on_work_done(std::uint32_t, const WorkCompletion&) override {}
};

// Migration of a connection's control lane (ring and credit) to another subchannel
// (connect/lane_migration.cc).
struct LaneMigration {
    bool active = false;
    bool paused = false; // nothing but transfers is posted
    std::uint32_t to = 0;
    Nanoseconds pause_by{0};
    Flush flush;
};

// State of measuring the peer's paths (connect/measure.cc).
struct Measuring {
    bool active = false;          // a measurement is under way
    bool close = false;           // the control lane is in doubt, or new
    std::uint32_t path = 0;       // active: the subchannel being measured
    std::uint32_t sent = 0;       // messages sent, at the last measurement
    std::uint64_t lessons = 0;    // of the scheduler, at that time
    Nanoseconds at{0};            // earliest time of the next
    std::uint32_t more = 0;       // doublings of the usual number of bytes
    std::uint32_t calm = 0;       // consecutive measurements that confirmed the control lane
    std::uint32_t vain = 0;       // consecutive inconclusive measurements
    std::uint32_t proof = 0;      // measurements that a new control lane has yet to pass
    std::uint32_t taken_back = 0; // control lanes that did not pass them
};

// Progress of closing (connect/closing.cc).
struct Closing {
    Flush flush;
    bool told = false;        // the peer knows that nothing of this side is under way
    bool agreed = false;      // the peer has reported the same
    std::uint32_t number = 0; // of the last proposal or agreement; grows during the connection
    std::uint32_t heard = 0;  // of the peer's last
    Nanoseconds began{0};
};

// Progress of the repair of a connection (connect/repair.cc).
struct Repair {
    bool active = false;  // from the failure until the connection is open again, or given up
    bool wanted = false;  // begins as soon as the state allows
    bool gentle = false;  // work under way may complete first
    bool improve = false; // a path came back meanwhile
    bool fenced = false;  // nothing of the old connection is outstanding or can touch local memory
    std::uint32_t replaces = 0; // this side's attempt that became the old connection
    std::uint32_t expected = 0; // first message that the peer has not received
    Nanoseconds began{0};
    Nanoseconds ask_at{0};                      // fenced: when to look for paths again
    Nanoseconds failed_at = Nanoseconds::max(); // when queue pairs went to the error state
    Nanoseconds quiet_at{0}; // shared ones: packets of a failed one are gone by then
};

// Connecting of the queue pairs of both sides through rdma_cm, after the reply to a request.
struct PeerCmConnect {
    bool asks = false; // this side initiates
    Nanoseconds began{0};
    Nanoseconds first_cm_connected = Nanoseconds::max(); // then the others get little time
    std::array<std::byte, sizeof(CmConnectParams::token)> token{};
};

// Choices between direct and target-assisted operations on the peer.
struct AssistChoices {
    static constexpr WayChoice::Way kDirect = 0;
    static constexpr WayChoice::Way kAssisted = 1;
    static constexpr std::size_t kSizes = 5; // of puts and gets: up to 256 B, then times four
    std::array<WayChoice, kSizes> transfers;
    WayChoice atomics;

    // REQUIRES: length is 1..kMaxAssisted.
    WayChoice& of_transfer(Bytes length) {
        return length <= 256
                   ? transfers[0]
                   : transfers[(static_cast<std::size_t>(std::bit_width(length - 1)) - 7) / 2];
    }
    static_assert((std::bit_width(kMaxAssisted - 1) - 7) / 2 == kSizes - 1);
};

// Ways to copy long data: by the beginning end alone, by both ends, a part each, or by both ends
// through staging memory (protocol/cooperative_copy.cc). Chosen by pattern, since the other end
// does different things meanwhile, and since a store into a line that another processor had last
// may cost much more than a load; and by size, from 64 KiB to 4 MiB, each twice the last.
struct CooperativeCopyChoices {
    static constexpr std::size_t kSizes = 7;
    static constexpr WayChoice::Way kAlone = 0;
    static constexpr WayChoice::Way kCooperative = 1;
    static constexpr WayChoice::Way kStaged = 2;
    enum class Pattern : std::uint8_t {
        message,  // a message; this process has sent something since the last one
        stream,   // one of several consecutive messages
        crossing, // while there are messages in both directions
        put,
        get,
    };
    static constexpr std::size_t kPatterns = 5;
    using Sizes = std::vector<WayChoice>; // empty until first used

    std::array<Sizes, kPatterns> patterns;
    std::optional<WayChoice::Way> only; // the only way that the user allows
    bool crossed = false; // at the end of the last copy the other end was copying something itself
    std::uint32_t crossing = 0; // number of further ones that count as crossing
    std::uint32_t sent = 0;     // messages sent when the last one arrived

    // A fresh choice learns from the next smaller or larger size, which behaves much the same.
    WayChoice& find(Pattern pattern, std::size_t size) {
        Sizes& sizes = patterns[static_cast<std::size_t>(pattern)];
        if (sizes.empty()) {
            sizes.assign(kSizes, WayChoice(3));
        }
        WayChoice& choice = sizes[size];
        if (choice.is_fresh()) {
            choice.learn_from(sizes[size > 0 && !sizes[size - 1].is_fresh() ? size - 1
                                    : size + 1 < kSizes                     ? size + 1
                                                                            : size]);
        }
        return choice;
    }
};

// For streams to a local peer: whether messages above the eager limit go through the ring, copied
// by both sides, or are announced and copied by the receiver alone. By size, each twice the last.
using StreamChoices = std::array<WayChoice, 3>;
constexpr Bytes kStreamSizesFrom = 4096;
constexpr WayChoice::Way kThroughRing = 0; // the other way: fetched by the receiver

// Messages long enough for copy_choice, sent since the peer last sent anything but FINs (`finish`)
// (protocol/timed.cc).
struct Stream {
    std::uint32_t heard = 0;
    std::uint32_t sent = 0;
    WayChoice::Way way = kThroughRing;
    bool chosen = false;        // the stream is long: its way is fixed
    WayChoice* timed = nullptr; // to be told how long the stream took
    Nanoseconds start{0};
    Bytes bytes = 0; // of the messages that could go either way
};

constexpr std::uint32_t kNoControlLane = ~0u;

// Preference for the kind of the next connection, if the policy is not to decide.
enum class SharingPreference : std::uint8_t {
    any,
    shared, // queue pairs that other peers use, too
    own,    // queue pairs of its own
};

// Permission that a process gives another: which messages to be matched it accepts
// (protocol/back_pressure.h).
enum class Allowance : std::uint8_t { all, announcements, nothing };

// Messages of the peer kept here, since no receive was posted for them.
struct UnexpectedShare {
    Bytes bytes = 0;
    Bytes look_at = 0;               // at this many bytes its allowance is decided again
    Allowance told = Allowance::all; // last allowance that the peer was told
};

// Activity of a peer, for choosing the connection to close, and the peer to connect next
// (connect/limits.cc).
struct PeerActivity {
    std::uint32_t messages = 0; // both ways, at the last check
    Nanoseconds active{0};      // when a check last found that they had grown
    Nanoseconds asked{0};       // when the connection was last requested
    Nanoseconds turn_began{0};  // when the connection opened, or began or ceased to yield
    bool required = false;      // the peer was refused the connection, and cannot do without
    Nanoseconds ask_at{0};      // earliest time of the next request; for a one-sided operation ...
    Nanoseconds urgent_at{0};   // ... this one
    std::uint32_t refusals = 0; // consecutive
    std::uint32_t counted = 0;  // messages both ways, at the last selection of channels
    std::uint32_t mapped = 0;   // messages received, when the map of sources was last updated
    bool chosen = false;        // by the selection of channels: other connections are closed for it
    SharingPreference preference = SharingPreference::any; // for the next connection
    Nanoseconds own_after{0}; // earliest time of the next request for queue pairs of its own
    bool asks_itself = false; // the peer had no room for those, shares for now, and will ask itself
};

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
    std::uint32_t sent_by_then = 0;  // next_send at the last long message (Core::release_or_defer)
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
    RingWriter::Target remote_ring; // the ring that ring_out writes into, 0 units: none offered
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
        kept;                            // of the last connection, by path (connect/pool.cc)
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

inline void RingWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    const RingWriter* writer =
        peer_.ring_out != nullptr ? peer_.ring_out.get() : peer_.ring_paused.get();
    Subchannel* const subchannel = peer_.find(rail, completion.qp_number);
    if (writer == nullptr || subchannel == nullptr || !writer->posts_to(*subchannel->qp)) {
        return; // of an earlier connection
    }
    if (completion.status != WorkStatus::success) {
        peer_.work_failed = peer_.work_failed || !peer_.disconnect_sent;
    } else {
        ++subchannel->completions;
    }
    if (peer_.ring_out != nullptr) {
        peer_.ring_out->on_completion();
    } else if (peer_.ring_paused != nullptr) {
        peer_.ring_paused->on_completion();
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
