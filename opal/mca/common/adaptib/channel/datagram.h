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
// channel calls run_timers() at deadline().
// Rails: one port (queue pair, receives) on each rail that it is given. A target's datagrams go
// over one of them, and over another when the owner moves the target. The channel asks for that
// when datagrams are not acknowledged, when one ends with an error, or when the adapter does not
// even complete the send. With several ports datagrams are numbered even if each rail is reliable,
// since a move is not.
// Requires: a rail with Capability::ud.
// Threads: one at a time.
// Source: Takagi et al., section 2 (shared send/receive channel); Yu, Gao, Panda, section 4.1 (UD
// before a connection is up).
// May touch: base/, fabric/, stats/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "base/status.h"
#include "base/wire.h"
#include "channel/datagram_link.h"
#include "fabric/fabric.h"
#include "stats/counters.h"

namespace adaptib {

// Destination of the datagrams to one peer. Owned by the peer; must not move in memory once it has
// a link.
struct DatagramTarget {
    std::unique_ptr<AddressHandle> handle;
    std::uint32_t qp = 0;
    std::uint64_t key = 0; // the key that the target published
    std::uint64_t name = 0;
    std::unique_ptr<DatagramLink> link; // if datagrams are not reliable; made with the first one
    std::uint8_t port = 0;              // of the channel; `handle` is of its rail
    std::uint8_t pair = 0;              // the owner's number of the path, which it chooses
    // Origin and time of the target's last datagram, if there are links: port of this process, rail
    // of the target.
    std::uint8_t heard_port = 0;
    std::uint8_t heard_rail = 0;
    // doubted: the owner was asked for another path. moves: number of moves since something was
    // acknowledged.
    bool doubted = false;
    bool coming = false; // no handle yet, but the owner tries for one: messages wait
    std::uint32_t moves = 0;
    Nanoseconds heard{0};
};

class DatagramChannel {
public:
    struct Identity {
        std::uint64_t name = 0; // this process
        std::uint64_t key = 0;
    };
    // `from` is the sender's name, `from_key` the key that it published.
    using Receiver = std::function<void(std::uint64_t from, std::uint64_t from_key,
                                        const MessageHeader& header, const std::byte* body)>;

    // Called when a datagram to process `to` ended with an error: it is lost, and the target cannot
    // accept later ones.
    using FailureHandler = std::function<void(std::uint64_t to, WorkStatus status)>;

    // Returns the target for a sender whose datagram has arrived; null: it cannot be answered now,
    // and the channel drops the datagram, which will be sent again. Called only if datagrams are
    // not reliable.
    using Resolver = std::function<DatagramTarget*(std::uint64_t from, std::uint64_t from_key)>;

    // Reason to doubt the path of a target.
    enum class PathFailure : std::uint8_t {
        unanswered, // sent several times, not acknowledged; maybe the peer is busy
        stuck,      // the adapter does not complete the sends
        failed,     // a datagram ended with an error; the port was restarted if need be
        given_up,   // nothing was acknowledged and the owner reported it lost; it is forgotten
    };
    // The owner's knowledge of a target that does not acknowledge.
    enum class Standing : std::uint8_t {
        doubtful, // nothing certain: it may be busy, or the path may be at fault
        present,  // it is alive and calls MPI, and the path is sound: datagrams were lost
        absent,   // it is alive, and datagrams have arrived in its queue: it does not listen
        lost,
    };
    // Judges a target; `since`: when its oldest unacknowledged datagram was first sent.
    using Judge = std::function<Standing(DatagramTarget& target, Nanoseconds since)>;
    // Must choose another path for the target by move(), if there is one, unless the target is
    // given up.
    using PathFailureHandler =
        std::function<void(DatagramTarget& target, PathFailure failure, WorkStatus status)>;
    // Called when a doubted target has acknowledged something.
    using AnswerHandler = std::function<void(DatagramTarget& target)>;
    // Receives an unsequenced message. It has no number, and its path need not be the target's own.
    using ProbeHandler =
        std::function<void(std::uint64_t from, std::uint64_t from_key, std::uint32_t port,
                           std::uint8_t rail, const MessageHeader& header, const std::byte* body)>;

    // `first`: the number of rails[0] among the rails that the process publishes.
    static Status create(RailList rails, std::uint32_t first, const Identity& identity,
                         const Clock& clock, Counters& counters,
                         std::unique_ptr<DatagramChannel>& out);
    static Status create(Rail& rail, const Identity& identity, const Clock& clock,
                         Counters& counters, std::unique_ptr<DatagramChannel>& out) {
        Rail* const only = &rail;
        return create({&only, 1}, 0, identity, clock, counters, out);
    }
    ~DatagramChannel();

    // Bytes of body and payload that one message carries.
    Bytes capacity() const { return capacity_; }
    std::uint32_t ports() const { return static_cast<std::uint32_t>(ports_.size()); }
    std::uint32_t qp_number(std::uint32_t port = 0) const { return ports_[port].qp->number(); }
    Rail& rail(std::uint32_t port = 0) const { return *ports_[port].rail; }
    // Returns true if datagrams are numbered.
    bool linked() const { return !reliable_; }

    // Returns room for a message, or null if nothing can be sent now. An uncommitted reservation
    // sends nothing and occupies nothing.
    // REQUIRES: length <= capacity().
    std::byte* reserve(Bytes length);
    // again: the target has no room, or is `coming`; the reservation is gone. error(peer_gone): the
    // target was released.
    Status commit(DatagramTarget& target, const MessageHeader& header);

    // Sets the judge, which is called before something is sent again to a target that has not
    // answered twice; without a judge no target is lost.
    void judge_by(Judge judge) { judge_ = std::move(judge); }
    void on_failure(FailureHandler handler) { failure_ = std::move(handler); }
    void resolve_by(Resolver resolver) { resolver_ = std::move(resolver); }
    // Turns fault tolerance on: targets are moved. A send that the adapter has not completed for
    // `timeout` is stuck; a target that acknowledges nothing for a part of that is doubted.
    // `find`: returns the target of a process; null: there is none (any more).
    using Finder = std::function<DatagramTarget*(std::uint64_t name)>;
    void tolerate(Nanoseconds timeout, Finder find, PathFailureHandler handler,
                  AnswerHandler answered) {
        timeout_ = timeout;
        find_ = std::move(find);
        path_failure_ = std::move(handler);
        answered_ = std::move(answered);
    }
    void on_probe(ProbeHandler handler) { probe_ = std::move(handler); }

    // Sends the target's datagrams over `port`, by `handle`, to `qp` from now on; sends
    // unacknowledged ones again there.
    void move(DatagramTarget& target, std::uint32_t port, std::unique_ptr<AddressHandle> handle,
              std::uint32_t qp);
    // Sends a message without a number, which may get lost. Returns false if that is impossible
    // now.
    bool send_probe(const DatagramTarget& target, std::uint32_t port,
                    std::unique_ptr<AddressHandle> handle, std::uint32_t qp,
                    const MessageHeader& header, const void* body);

    // Acknowledges and sends again what is due. deadline(): when that is next; max: never.
    void run_timers();
    Nanoseconds deadline() const;
    // Returns true if an unacknowledged message exists whose receiver cannot have left: a sequenced
    // one, other than the answer to a disconnect.
    bool owes(const DatagramTarget& target) const;
    // Restarts the port's queue pair: its rail has another address, or uses another partition.
    void renew(std::uint32_t port) {
        ports_[port].broken = true; // the next poll does it
        ports_[port].mend_at = Nanoseconds{0};
    }
    // Reports that a queue pair has failed. Returns false if it is none of the channel's.
    bool on_fatal(std::uint32_t port, std::uint32_t qp_number);
    // Called when the owner knows that the target listens again: what it lacks is sent soon.
    void listens(DatagramTarget& target);
    // Ends the target: drops what it has not acknowledged.
    void forget(DatagramTarget& target);

    // Passes arrived messages to `receiver`. Takes at most `limit` completions per port polled;
    // returns how many it took.
    std::size_t poll(const Receiver& receiver, std::size_t limit);

private:
    static constexpr std::uint8_t bit_of(std::uint32_t port) {
        return static_cast<std::uint8_t>(1u << port);
    }
    struct Slot {
        std::uint64_t to = 0; // the target's name
        std::uint32_t bytes = 0;
        std::uint8_t under_way = 0; // bit by port: its completion is outstanding
        bool kept = false;          // until it is acknowledged
        Nanoseconds posted{0}; // time of the last post, if datagrams have numbers or for a probe

        bool under_way_over(std::uint32_t port) const { return (under_way & bit_of(port)) != 0; }
    };
    // Address handle that the first `posts` sends of its port may use.
    struct Retired {
        std::unique_ptr<AddressHandle> handle;
        std::uint64_t posts;
    };
    // State of the channel on one rail.
    struct Port {
        Rail* rail = nullptr;
        std::unique_ptr<MemoryRegion> receive_memory;
        std::unique_ptr<CompletionQueue> cq;
        std::unique_ptr<QueuePair> qp;
        std::vector<Retired> retired;
        std::uint64_t posts = 0; // sends
        std::uint64_t ended = 0; // of these, which end in order
        std::uint32_t receives = 0;
        Bytes receive_bytes = 0; // of each
        // Incarnation of the queue pair; completions of earlier ones do not count
        std::uint32_t life = 0;
        bool broken = false;    // to be restarted ...
        Nanoseconds mend_at{0}; // ... not before
    };
    // Send slots. The rail of the first port allocates the memory; it is registered with the
    // others.
    static constexpr std::uint32_t kSendSlots = 64;
    struct SendBlock {
        std::unique_ptr<MemoryRegion> memory;
        std::array<std::unique_ptr<MemoryRegion>, kMaxRails> regions; // by port
        std::array<std::uint32_t, kMaxRails> keys{};
    };
    struct Failed {
        std::uint32_t port;
        std::uint64_t to;
        WorkStatus status;
    };
    static_assert(kMaxRails <= 8, "Slot::under_way");

    DatagramChannel(std::uint32_t first, const Identity& identity, const Clock& clock,
                    Counters& counters)
        : first_(first), identity_(identity), clock_(clock), counters_(counters) {}
    Status open(RailList rails);
    Status add_slots();
    void make_room();
    Status open_port(Port& port, std::uint32_t receives);
    Status start(Port& port);
    void restart(std::uint32_t port);
    std::size_t poll_port(std::uint32_t port, const Receiver& receiver, std::size_t limit);
    Status post_receive(Port& port, std::uint32_t index);
    void handle_receive(std::uint32_t port, const WorkCompletion& completion,
                        const Receiver& receiver);
    void handle_failed_send(std::uint32_t port, std::uint64_t to, WorkStatus status);
    bool accept(const DatagramHeader& prefix, bool acknowledges, std::uint32_t port);
    DatagramHeader prefix_for(const DatagramTarget& target) const;
    void doubt(DatagramTarget& target, PathFailure failure, WorkStatus status);
    void handle_refused(DatagramTarget& target, Status status);
    Status send_again(DatagramTarget& target, std::uint32_t slot, Nanoseconds now);
    void mend(std::uint32_t port);
    void acknowledge(DatagramTarget& target);
    void repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now);
    void give_up(DatagramTarget& target);
    Status post(const DatagramTarget& target, std::uint32_t slot);
    Status post(std::uint32_t port, const AddressHandle& handle, std::uint32_t qp,
                std::uint64_t key, std::uint32_t slot);
    void fill(std::uint32_t slot, const DatagramTarget& target, const DatagramHeader& prefix,
              const MessageHeader& header);
    void acknowledge_alone();
    void mind(DatagramLink& link);
    bool is_stuck(std::uint32_t port, Nanoseconds now) const;
    void retire(std::uint32_t port, std::unique_ptr<AddressHandle> handle);
    static void drop_retired(Port& port);
    void release(std::uint32_t slot);
    void over(std::uint32_t slot, std::uint32_t port);
    std::byte* slot_at(std::uint32_t slot) const {
        return static_cast<std::byte*>(blocks_[slot / kSendSlots].memory->address()) +
               slot % kSendSlots * slot_bytes_;
    }

    std::vector<Port> ports_; // at least one; the number stays
    std::uint32_t first_;
    Identity identity_;
    const Clock& clock_;
    Counters& counters_;
    bool reliable_ = true; // neither rails nor moves lose datagrams
    Bytes capacity_ = 0;
    Bytes slot_bytes_ = 0;
    std::vector<SendBlock> blocks_;
    std::uint32_t next_port_ = 0;           // of the ports after the first: polled next
    std::vector<std::uint32_t> free_sends_; // at most all slots
    std::vector<Slot> sends_;
    Judge judge_;
    FailureHandler failure_;
    Resolver resolver_;
    Nanoseconds timeout_ = Nanoseconds::max();
    Finder find_;
    PathFailureHandler path_failure_; // empty: no fault tolerance
    AnswerHandler answered_;
    ProbeHandler probe_;
    std::vector<DatagramTarget*> alone_; // owe acknowledgements that nothing else will carry
    std::vector<Failed> failed_;         // since the last poll
    IntrusiveList<DatagramLink, &DatagramLink::timer_link> minded_; // links with a deadline
    std::array<WorkCompletion, 16> batch_; // scratch of poll; the receiver must not poll
};

} // namespace adaptib
