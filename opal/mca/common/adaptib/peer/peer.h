// SPDX-License-Identifier: BSD-3-Clause
// Peer: a remote process that we have had contact with (the dissertation's virtual channel).
//
// Purpose: what both directions of traffic to one process share: its address, the sequence numbers,
// which channel its messages take, its subchannels, what waits for room. Processes never talked to
// have no Peer and cost nothing.
// A peer is always in one of six connection states (ConnectState); messages flow as datagrams unless
// it is open and has a ring, and data moves by RDMA only while it is open.
// Ownership: peers belong to the PeerTable; queue pairs, rings and memory belong to the peer.
// Threads: one at a time (the core's lock).
// Source: Vishnu, 4.2.2 (virtual channel, packet sequence numbers).
// May touch: base/, fabric/, memory/, channel/, schedule/, observe/.
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
#include "channel/ring.h"
#include "channel/ring_memory.h"
#include "channel/shared_queue_pairs.h"
#include "fabric/fabric.h"
#include "memory/block_pool.h"
#include "memory/registration.h"
#include "observe/counters.h"
#include "peer/interleaving.h"
#include "peer/life.h"
#include "peer/paths.h"
#include "peer/route.h"
#include "peer/waiting.h"
#include "schedule/copy_choice.h"
#include "schedule/scheduler.h"
#include "schedule/way_choice.h"

namespace adaptib {

enum class ConnectState : std::uint8_t {
    idle,      // datagrams only
    requested, // we asked; no answer yet
    answered,  // the peer asked, we answered; its confirmation is outstanding
    open,
    closing,   // open, but not used any more: we have proposed, or agreed, to take it down
    repairing, // a path has failed: nothing is posted until the connection has been made anew
    failed,    // nothing can be sent any more
};

// How far automatic path migration is (recovery/apm/migration_agent.h).
enum class MigrationStep : std::uint8_t { none, loading, armed, due, waiting };
struct SubchannelMigration {
    MigrationStep state = MigrationStep::none;
    std::uint8_t way = 0; // the one it takes, of Ways
};

// How far its queue pair has come that meets the peer's (connect/meeting.cc).
enum class MeetingStep : std::uint8_t { none, under_way, met, again };
struct SubchannelMeeting {
    MeetingStep step = MeetingStep::none; // none also where queue pairs need no meeting
    std::uint32_t remote_qp = 0;
    std::uint32_t failures = 0;
    Nanoseconds again_at{0}; // to begin anew, if nothing is heard before
    std::string why;         // the last one came to nothing
};

// For how long nothing was heard of what its queue pair was given (recovery/silence_watch.h).
struct Silence {
    std::uint32_t seen = 0; // completions, at the last look
    bool missed = false;    // it was asked for its path, and long did not answer
    Nanoseconds lasts{0};
    Nanoseconds until = Nanoseconds::max(); // patience ends, whatever the path says
};

// Stripes under way whose times are taken, and since when the path carries these: since it was through with the one before,
// or since the first was posted.
struct TimedStripes {
    Bytes bytes = 0;
    Nanoseconds since{};
    Nanoseconds late{}; // it may have been so much earlier
};

// One connection to the peer over one path.
struct Subchannel {
    std::uint32_t local_rail = 0;
    std::uint32_t remote_rail = 0;
    std::uint32_t path = 0;              // of those between the two
    std::uint32_t remote_memory_key = 0; // of the peer's ring and credit
    BytesPerSecond rate{};               // of the slower rail of the two; 0: unknown
    std::unique_ptr<QueuePair> qp;       // null: the connection does without this path
    SubchannelMigration migration;
    SubchannelMeeting meeting;
    std::array<Bytes, 2> outstanding{};  // by Direction: of stripes posted and not complete
    std::uint32_t reads = 0;             // of these stripes: reads and atomics
    std::array<TimedStripes, 2> timed{}; // by Direction
    std::uint32_t completions = 0;       // with success, of what the silence watch looks after
    bool refused = false; // the error that its queue pair has is a one-sided operation's
    Silence silence;

    // Queue pairs of different rails may have the same number.
    bool has(std::uint32_t rail, std::uint32_t qp_number) const {
        return qp != nullptr && local_rail == rail && qp->number() == qp_number;
    }
};

// A message that waits for room, in the order of sending: embedded in send requests, a control message's
// own record, what is left of a message that goes in fragments, a message that is repeated after a repair,
// or the barrier that nothing passes until the repair is over.
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
    // Moves all of `other` behind what is there.
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

// A message that was written into the peer's ring, and of which it is not known whether it is there; its
// bytes follow the record.
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

// What becomes of writes into a peer's ring. Who sent a message by one was told that all is well; if it
// fails, somebody has to be told otherwise. Of a goodbye nobody expects anything.
class RingWork final : public WorkTarget {
public:
    explicit RingWork(Peer& peer) : peer_(peer) {}
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;

private:
    Peer& peer_;
};

// An empty write behind all that this side has posted besides transfers.
struct Flush {
    bool posted = false;
    bool done = false;       // nothing of that is under way any more
    std::uint32_t qp = 0;    // the queue pair that it is posted on ...
    std::uint32_t rail = 0;  // ... of that rail
    std::uint64_t posts = 0; // so many were posted by then, if that is shared

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

// What the peer's requests over a shared queue pair are known by; its own completions say nothing.
class QuietWork final : public WorkTarget {
public:
    void on_work_done(std::uint32_t, const WorkCompletion&) override {}
};

// A connection's ring and credit go over to another subchannel (connect/homes.cc).
struct HomeMove {
    bool active = false;
    bool held = false; // nothing but transfers is posted
    std::uint32_t to = 0;
    Nanoseconds hold_by{0};
    Flush flush;
};

// What is known of when to measure the peer's paths again (connect/measure.cc).
struct Measuring {
    bool active = false;          // it is being done
    bool close = false;           // the home is in doubt, or new
    std::uint32_t path = 0;       // active: the subchannel that has its turn
    std::uint32_t sent = 0;       // messages, when it was done last
    std::uint64_t lessons = 0;    // of the scheduler, then
    Nanoseconds at{0};            // not before
    std::uint32_t more = 0;       // so often twice as many bytes as usual
    std::uint32_t calm = 0;       // times in a row that the home was right
    std::uint32_t vain = 0;       // times in a row that nothing could be said
    std::uint32_t proof = 0;      // measurements left that a new home has to stand
    std::uint32_t taken_back = 0; // homes that did not stand them
};

// How far closing has come (connect/closing.cc).
struct Closing {
    Flush flush;
    bool told = false;   // the peer knows that nothing of ours is under way
    bool agreed = false; // the peer has told us the same
    std::uint32_t number =
        0; // of our last proposal or agreement; grows as long as the connection lives
    std::uint32_t heard = 0; // of the peer's last
    Nanoseconds began{0};
};

// How far the repair of a connection has come (connect/repair.cc).
struct Repair {
    bool active = false;  // from the failure until the connection is open again, or given up
    bool wanted = false;  // as soon as the state allows
    bool gentle = false;  // what is under way may come to its end first
    bool improve = false; // a path came back meanwhile
    bool fenced =
        false; // nothing of the old connection can touch memory of ours, or is outstanding
    std::uint32_t replaces = 0; // our attempt that the old connection was
    std::uint32_t expected = 0; // the first message that the peer has not got from us
    Nanoseconds began{0};
    Nanoseconds ask_at{0};                      // fenced: when to look for paths again
    Nanoseconds failed_at = Nanoseconds::max(); // its queue pairs were moved to the error state
    Nanoseconds quiet_at{0}; // shared ones: packets of one that has failed are gone by then
};

// The queue pairs of both sides meet, after the reply to a request.
struct PeerMeeting {
    bool asks = false; // this side goes to the other
    Nanoseconds began{0};
    Nanoseconds first_met = Nanoseconds::max(); // then the others are not waited for long
    std::array<std::byte, sizeof(Meeting::token)> token{};
};

// Of operations that the peer can be asked for.
struct AskChoices {
    static constexpr WayChoice::Way kDirect = 0;
    static constexpr WayChoice::Way kAsked = 1;
    static constexpr std::size_t kSizes =
        5; // of puts and gets: up to 256 B, and each four times the last
    std::array<WayChoice, kSizes> moves;
    WayChoice atomics;

    // REQUIRES: 1..kMostAsked
    WayChoice& of_move(Bytes length) {
        return length <= 256
                   ? moves[0]
                   : moves[(static_cast<std::size_t>(std::bit_width(length - 1)) - 7) / 2];
    }
    static_assert((std::bit_width(kMostAsked - 1) - 7) / 2 == kSizes - 1);
};

// How long data is copied: by who begins alone, by both ends, a part each, or by both ends through
// staging memory (protocol/together.cc). By pattern, since what the other end does meanwhile differs,
// and since a store into a line that another processor had last may cost much more than a load; and
// by size, from 64 KiB to 4 MiB, each twice the last.
struct ShareChoices {
    static constexpr std::size_t kSizes = 7;
    static constexpr WayChoice::Way kAlone = 0;
    static constexpr WayChoice::Way kTogether = 1;
    static constexpr WayChoice::Way kStaged = 2;
    enum class Pattern : std::uint8_t {
        message,  // a message; we have sent something since the last one
        stream,   // one of several that come one after the other
        crossing, // while there are some in both directions
        put,
        get,
    };
    static constexpr std::size_t kPatterns = 5;
    using Sizes = std::vector<WayChoice>; // empty until there is one

    std::array<Sizes, kPatterns> patterns;
    std::optional<WayChoice::Way> only; // the user wants no other
    bool crossed = false;       // at the end of the last one the other end copied something itself
    std::uint32_t crossing = 0; // so many more count as crossing
    std::uint32_t sent = 0;     // messages of ours when the last one came

    // One that begins learns from the next smaller or larger size, which goes much the same way.
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

// Of streams to a local peer, whether their messages above the eager limit go through the ring, copied by both sides,
// or are announced and copied by the receiver alone: by size, each twice the last.
using StreamChoices = std::array<WayChoice, 3>;
constexpr Bytes kStreamSizesFrom = 4096;
constexpr WayChoice::Way kThroughRing = 0; // the other: fetched

// Messages that are long enough for copy_choice and have gone since anything but finishes came (protocol/timed.cc).
struct Stream {
    std::uint32_t heard = 0;
    std::uint32_t sent = 0;
    WayChoice::Way way = kThroughRing;
    bool chosen = false;        // it is long: the way stays
    WayChoice* timed = nullptr; // which is to be told how long it took
    Nanoseconds start{0};
    Bytes bytes = 0; // of those that could go either way
};

constexpr std::uint32_t kNoHome = ~0u;

// What somebody wants a connection to be over who does not leave that to the policy.
enum class Wish : std::uint8_t {
    any,
    shared, // queue pairs that other peers use, too
    own,    // queue pairs of its own
};

// A process tells another one which messages to be matched it takes (protocol/back_pressure.h).
enum class Allowance : std::uint8_t { all, announcements, nothing };

// Messages of the peer that are kept here, since no receive was posted for them.
struct UnexpectedShare {
    Bytes bytes = 0;
    Bytes look_at = 0;               // so many: what it may send is to be decided
    Allowance told = Allowance::all; // it knows
};

// For the choice of the connection to close, and of the peer to connect next (connect/limits.cc).
struct Usage {
    std::uint32_t messages = 0; // both ways, when it was last looked at
    Nanoseconds active{0};      // when they were last seen to have grown
    Nanoseconds asked{0};       // for the connection
    Nanoseconds turn_began{0};  // when the connection opened, or began or ceased to yield
    bool required = false;      // the peer was refused the connection, and cannot do without
    Nanoseconds ask_at{0};      // not to be asked again before; for a one-sided operation ...
    Nanoseconds urgent_at{0};   // ... not before this
    std::uint32_t refusals = 0; // in a row
    std::uint32_t counted = 0;  // messages both ways, when channels were last selected
    std::uint32_t mapped = 0;   // received, when the map of sources was last added to
    bool chosen = false;        // by the selection of channels: others are closed for it
    Wish wish = Wish::any;      // what the next connection is to be over
    Nanoseconds own_after{0};   // not to be asked for queue pairs of its own again before
    bool asks_itself = false;   // for these: it had no room, and shares until it has some
};

class Peer {
public:
    // `queue`: the channel of the route's fabric.
    Peer(const ProcessAddress& process, const PeerRoute& way, DatagramChannel& queue,
         Bytes eager_most, Counters& counts)
        : at_once_below(eager_most + 1), counters(counts), eager_limit(eager_most),
          datagrams(queue), name(process.name), route(way), address(process) {}

    // What the peer takes of messages to be matched, from now on.
    void allow(Allowance allowance) {
        const Bytes below = copy_choice != nullptr ? CopyChoice::kTimedFrom : eager_limit + 1;
        allowed = allowance;
        at_once_below = allowance == Allowance::all ? below : 0;
    }

    // Room for a message of `length` bytes of body and payload on the channel that it takes, or null.
    std::byte* reserve(Bytes length) {
        if (!by_ring(length)) {
            return datagrams.reserve(length);
        }
        std::byte* const to = ring_out->reserve(length);
        if (to == nullptr) { // for ever, if the ring gets no memory for it
            ring_capacity = std::min(ring_capacity, ring_out->most());
        }
        return to;
    }
    void abandon(Bytes length) {
        if (by_ring(length)) {
            ring_out->abandon(length);
        }
    }
    // Makes what was reserved a message with the next sequence number. again: no room after all, the
    // reservation is gone. error: the path is broken.
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

    // A message of that length can go into the ring now, if there is room: nothing is to go before it.
    bool flows(Bytes length) const {
        return by_ring(length) && !has_pending() && state == ConnectState::open && !said_goodbye;
    }
    // The same as reserve and commit, for one that flows().
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
    // Both at once for what is sent most (RingWriter::store_short).
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
    // The same for a message that has its number already.
    Status commit_again(const MessageHeader& header) {
        return by_ring(header.length) ? ring_says(ring_out->commit(header))
                                      : datagrams.commit(datagram, header);
    }

    // What the ring's queue pair refuses for good can be sent once the connection is repaired.
    Status ring_says(Status status) {
        if (!status.is_error() || !repairable) {
            return status;
        }
        ring_broken = true;
        return Status::again(Reason::queue_full);
    }

    // The ring, if there is one that takes a message of that length.
    bool by_ring(Bytes length) const { return ring_out != nullptr && length <= ring_capacity; }
    // The longest body and payload of one message now.
    Bytes message_capacity() const {
        return ring_out != nullptr ? std::max(ring_capacity, datagrams.capacity())
                                   : datagrams.capacity();
    }

    // REQUIRES: there is ring_memory.
    RingMemory ring_layout() const { return {*ring_memory, ring_parts}; }

    bool has_pending() const { return !pending.empty(); }
    // The same, but for the barrier.
    bool has_waiting() const {
        const PendingSend* first = pending.front();
        return first != nullptr && (first != &barrier || first->next != nullptr);
    }
    // Paths that the connection has.
    std::size_t live_subchannels() const {
        return static_cast<std::size_t>(
            std::count_if(subchannels.begin(), subchannels.end(),
                          [](const Subchannel& each) { return each.qp != nullptr; }));
    }
    // The path that all takes; null: there are several, or the connection is not open.
    const Subchannel* only_subchannel() const {
        return state == ConnectState::open && subchannels.size() == 1 ? &subchannels.front()
                                                                      : nullptr;
    }
    // Null: the connection has queue pairs of its own, or none on that path.
    SharedQueuePair* shared_queue_pair(const Subchannel& subchannel) const {
        return shared ? static_cast<SharedQueuePair*>(subchannel.qp.get()) : nullptr;
    }
    // Null: none has that queue pair.
    Subchannel* find(std::uint32_t rail, std::uint32_t qp_number) {
        const auto found =
            std::find_if(subchannels.begin(), subchannels.end(),
                         [&](const Subchannel& each) { return each.has(rail, qp_number); });
        return found == subchannels.end() ? nullptr : &*found;
    }
    // Both ways.
    std::uint32_t messages() const { return next_send + next_receive; }
    // A connection is there, or coming.
    bool connecting() const {
        return state == ConnectState::requested || state == ConnectState::answered ||
               state == ConnectState::repairing;
    }
    // Both sides have said goodbye and ours is answered: what comes now belongs to what follows.
    bool goodbyes_over() const { return said_goodbye && heard_goodbye && goodbye_answered; }
    // And our answer is on its way.
    bool parted() const { return goodbyes_over() && !has_pending(); }

    // What every short message that is sent looks at: one cache line.
    alignas(kCacheLine) std::unique_ptr<RingWriter> ring_out; // null: datagrams
    Bytes ring_capacity = 0;
    // Of messages for Protocol::send_at_once: the others may have to be timed. 0: none.
    Bytes at_once_below;
    Bytes active_at_once = 0; // the same of active messages
    Counters& counters;
    PendingQueue pending; // what waits for room
    std::uint32_t next_send = 0;
    ConnectState state = ConnectState::idle;
    bool said_goodbye = false; // nothing but the answer to its goodbye follows from us

    // What every short message that is received looks at: one cache line.
    alignas(kCacheLine) EarlyMessage* early = nullptr; // by sequence
    std::uint64_t busy_at = 0;                         // the core's last pass that found a message
    std::uint32_t next_receive = 0;
    bool finishing = false;            // parted; the connection is about to be taken down
    bool unheard = false;              // it has failed: what comes may be behind what is missing
    std::optional<RingReader> ring_in; // the line ends with what such messages need of it

    // Hot.
    std::uint32_t messages_sent = 0; // towards connect_threshold; meaningful until connected
    std::uint32_t sent_by_then = 0;  // next_send, when the last long message came (Core::give_back)
    Bytes eager_limit;               // of two-sided messages
    DatagramChannel& datagrams;
    bool released = false;      // the user of the core has let go of it
    bool work_failed = false;   // a transfer or a write into the ring has ended with an error
    bool repairable = false;    // the connection is repaired when it breaks
    bool ring_broken = false;   // and has to be, since ring_out says so
    bool interrupted = false;   // the barrier is there
    bool abandoned = false;     // what completes of its stripes does not count any more
    bool heard_goodbye = false; // and we have answered
    bool failure_told = false;
    bool refusal_told = false;     // a one-sided operation that it refused
    bool goodbye_answered = false; // it has taken all we sent
    std::uint64_t goodbye_number = 0;

    Allowance allowed = Allowance::all; // what we may send
    UnexpectedShare unexpected;

    // Receiving.
    std::uint32_t credits_posted = 0;
    std::vector<std::byte> parts; // what has come of an active message in parts

    std::size_t stripes = 0; // posted and not complete
    std::size_t users = 0;   // transfers and operations that need the connection, or will
    std::size_t moves = 0;   // of them, puts and gets: they can go over the next one as well
    bool yields = false;     // the connection is wanted for others: no put or get is posted on it

    // What short one-sided operations look at, beside the state.
    alignas(kCacheLine) std::size_t one_sided = 0; // operations started and not complete
    std::vector<Subchannel> subchannels;
    const Registration* whole = nullptr; // of all our memory, once the protocol has looked for it
    std::unique_ptr<AskChoices> ask_choices;     // null: the peer is asked for no operation
    std::unique_ptr<ShareChoices> share_choices; // null: one end alone copies

    // Cold.
    alignas(kCacheLine) DatagramTarget datagram;
    std::uint64_t name;
    void* kept_by_user = nullptr; // opal_common_adaptib_peer_keep
    const PeerRoute route;
    ProcessAddress address;
    bool shared = false;                 // the subchannels' queue pairs are SharedQueuePairs
    std::uint64_t access_key = 0;        // if so: the peer's
    QuietWork quiet_work;                // if so
    std::uint32_t connection = 0;        // our attempt's number
    std::uint32_t remote_connection = 0; // the attempt of the peer's that we answered
    std::unique_ptr<Scheduler> scheduler;
    std::uint32_t home = kNoHome; // the subchannel of ring and credit, once it was chosen
    std::unique_ptr<Interleaving> interleaving;    // null: puts and gets go out as asked for
    std::unique_ptr<WaitingTransfers> waiting;     // null: no transfer has waited yet
    ListLink<Peer> transfers_link;                 // some wait for room, or for the connection
    PostedList posted;                             // transfers with stripes under way
    std::unique_ptr<CopyChoice> copy_choice;       // null: eager_limit stays as it is
    std::uint32_t finishes = 0;                    // received
    std::unique_ptr<StreamChoices> stream_choices; // if there is a copy_choice
    Stream stream;
    bool streaming = false;   // the next message may go through the ring, whatever the limit
    std::uint64_t offers = 0; // made to the peer
    // Of the peer, for its own; valid while ring_out's queue pair is.
    AnswerSlot* answers = nullptr;
    std::byte* answer_data = nullptr;
    Bytes answer_bytes = 0; // of the data in our own memory that have memory
    Bytes ring_bytes = 0;   // of the ring that is offered
    std::uint64_t ring_seen =
        0; // what had been consumed of it at the last look (core/idle_rings.cc)
    std::unique_ptr<MemoryRegion> ring_memory; // channel/ring_memory.h
    RingWriter::Target remote_ring;            // what ring_out writes into, 0 units: none offered
    RingParts ring_parts;                      // of it
    Registration ring_registration;            // of ring_memory, with the route's rails
    RingWork ring_work{*this};                 // of ring_out
    std::unique_ptr<RingWriter> ring_paused;   // ring_out, while closing
    Closing closing;
    FlushWork closing_flush{*this, closing.flush};
    HomeMove home_move;
    FlushWork home_flush{*this, home_move.flush};
    ListLink<Peer> home_link; // home_move is active
    Measuring measuring;
    std::uint64_t measure_address = 0; // of the peer; 0: none
    ListLink<Peer> measure_link;       // its paths may be measured
    Repair repair;
    PendingSend barrier{PendingSend::Kind::barrier};
    PendingQueue in_doubt; // RepeatedMessages, until the repair is over
    Usage usage;
    std::vector<std::unique_ptr<QueuePair>>
        kept;                            // by path, of the last connection (connect/pool.cc)
    ListLink<Peer> pool_link;            // ring_memory is kept, too
    bool reuses = false;                 // the connection that comes up takes it
    ListLink<Peer> slot_link;            // takes one of the connections that there may be
    ListLink<Peer> wanted_link;          // waits for one
    ListLink<Peer> closing_link;         // state is closing
    ListLink<Peer> yielding_link;        // yields
    ListLink<Peer> restrained_link;      // unexpected.told is not all
    std::uint32_t unconnected_paths = 0; // bit by pair: their queue pairs could not be connected
    ListLink<Peer> repair_link;          // a repair is wanted, or the state is repairing
    PeerMeeting meeting;
    ListLink<Peer> meeting_link;      // queue pairs meet
    std::uint64_t credit_address = 0; // where the peer wants to be told what we consumed
    ListLink<Peer> stalled_link;      // has pending sends

    PeerLife life;
    ListLink<Peer> life_link;         // it is asked whether it lives
    std::unique_ptr<PeerPaths> paths; // null: all are up, and always were
    ListLink<Peer> paths_link;        // known to the path repository
    ListLink<Peer> troubled_link;     // a path is not up

    ListLink<Peer> waiting_link;                // a handshake message could not be sent yet
    PendingQueue held;                          // requests started after our goodbye
    std::unique_ptr<ConnectBody> early_request; // a connection asked for before the last was over
    std::string failure;                        // why the state is failed
    std::uint32_t handshakes_owed = 0;          // bit by MessageType
    std::uint32_t refusal = 0;                  // RefusalReason of the last
};

inline void RingWork::on_work_done(std::uint32_t rail, const WorkCompletion& completion) {
    const RingWriter* writer =
        peer_.ring_out != nullptr ? peer_.ring_out.get() : peer_.ring_paused.get();
    Subchannel* const subchannel = peer_.find(rail, completion.qp_number);
    if (writer == nullptr || subchannel == nullptr || !writer->posts_to(*subchannel->qp)) {
        return; // of a connection that is over
    }
    if (completion.status != WorkStatus::success) {
        peer_.work_failed = peer_.work_failed || !peer_.said_goodbye;
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
