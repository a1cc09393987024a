// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel: messages of any number of peers through one queue (UD; shm's shared queue).
//
// Purpose: costs nothing per peer; carries whatever goes to peers that have no connection, and the
// connection handshake. One message per datagram. Who sends proves to belong to us by the key that
// this process published, which only who has a look at what the job exchanges (PMIx) knows: the queue
// pair's Q_Key is made of it (31 or 32 bits, so that the adapter drops what other programs send), and all
// 64 bits stand in each message, beside the sender's own; what has others is counted as a bad packet and
// dropped.
// Over a rail whose datagrams are not reliable (Capability::reliable_ud), each peer's are numbered,
// acknowledged and sent again (channel/datagram_link.h), and whoever drives the channel calls
// run_timers() at deadline().
// Rails: one port (queue pair, receives) on each rail that it is given. A target's datagrams go over one of
// them, and over another when its owner moves it: asked for when they are not acknowledged, when a datagram
// ends with an error, or when the adapter does not even say that it has sent one. Where there are several
// ports datagrams are numbered even if each rail is reliable, since moving is not.
// Requires: a rail with Capability::ud.
// Threads: one at a time.
// Source: Takagi et al., section 2 (shared send/receive channel); Yu, Gao, Panda, section 4.1 (UD
//   before a connection is up).
// May touch: base/, fabric/, observe/.
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
#include "observe/counters.h"

namespace adaptib {

// Where datagrams to one peer go. Owned by the peer; stays where it is once it has a link.
struct DatagramTarget {
    std::unique_ptr<AddressHandle> handle;
    std::uint32_t qp = 0;
    std::uint64_t key = 0; // the one the target published
    std::uint64_t name = 0;
    std::unique_ptr<DatagramLink> link; // where datagrams are not reliable: made with the first
    std::uint8_t port = 0;              // of the channel, whose rail `handle` is of
    std::uint8_t pair = 0;              // of the owner's, who chooses the path
    // Where and when the last datagram came from it, if they have links: our port, its rail.
    std::uint8_t heard_port = 0;
    std::uint8_t heard_rail = 0;
    // Its owner was asked for another path so, and how often it moved since something was acknowledged.
    bool doubted = false;
    bool coming = false; // there is no handle, and its owner tries for one: what is sent waits
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

    // A datagram to process `to` ended with an error: it is lost, and what follows it cannot be taken.
    using FailureHandler = std::function<void(std::uint64_t to, WorkStatus status)>;

    // The target for a sender whose datagram has arrived; null: it cannot be answered now, and the
    // datagram is dropped, to come again. Asked only where datagrams are not reliable.
    using Resolver = std::function<DatagramTarget*(std::uint64_t from, std::uint64_t from_key)>;

    // What speaks against the path of a target.
    enum class Trouble : std::uint8_t {
        unanswered, // sent several times and not acknowledged; maybe the peer is busy
        stuck,      // the adapter does not say that it has sent anything
        failed,     // a datagram ended with an error, and the port was begun anew
        given_up, // nothing was acknowledged, and its owner has said that it is lost; it is forgotten
    };
    // What its owner knows of a target that does not acknowledge what it was sent.
    enum class Standing : std::uint8_t {
        doubtful, // nothing certain: it may be busy, or the path may be at fault
        present,  // it lives and calls MPI, and the path is sound: what was sent was lost
        absent,   // it lives, and what was sent has arrived as far as its queue: it does not listen
        lost,
    };
    // Of a target that was first sent at `since` what it has not acknowledged.
    using Judge = std::function<Standing(DatagramTarget& target, Nanoseconds since)>;
    // Is to choose another path for the target by move(), if there is one, unless it is given up.
    using Mover = std::function<void(DatagramTarget& target, Trouble trouble, WorkStatus status)>;
    // A target that was doubted has acknowledged something.
    using AnswerHandler = std::function<void(DatagramTarget& target)>;
    // An unsequenced message over a path that need not be the target's own: it has no number.
    using ProbeHandler =
        std::function<void(std::uint64_t from, std::uint64_t from_key, std::uint32_t port,
                           std::uint8_t rail, const MessageHeader& header, const std::byte* body)>;

    // `first`: the number of rails[0] among those that the process publishes.
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
    // Datagrams have numbers.
    bool linked() const { return !reliable_; }

    // Room to fill in, or null if nothing can be sent now. A reservation that is not committed sends
    // nothing and holds nothing.
    // REQUIRES: length <= capacity().
    std::byte* reserve(Bytes length);
    // again: the target has no room, or is `coming`; the reservation is gone. error(peer_gone): it
    // was let go.
    Status commit(DatagramTarget& target, const MessageHeader& header);

    // Asked before something is sent again to a target that has not answered twice; without this no
    // target is lost.
    void judge_by(Judge judge) { judge_ = std::move(judge); }
    void on_failure(FailureHandler handler) { failure_ = std::move(handler); }
    void resolve_by(Resolver resolver) { resolver_ = std::move(resolver); }
    // Fault tolerance: targets are moved. What an adapter has not sent for `timeout` is stuck; a target that
    // acknowledges nothing for a part of that is doubted.
    // `find`: the target of a process; null: there is none (any more).
    using Finder = std::function<DatagramTarget*(std::uint64_t name)>;
    void tolerate(Nanoseconds timeout, Finder find, Mover mover, AnswerHandler answered) {
        timeout_ = timeout;
        find_ = std::move(find);
        mover_ = std::move(mover);
        answered_ = std::move(answered);
    }
    void on_probe(ProbeHandler handler) { probe_ = std::move(handler); }

    // From now on the target's datagrams go over `port` by `handle` to `qp`; what it has not acknowledged
    // is sent again there.
    void move(DatagramTarget& target, std::uint32_t port, std::unique_ptr<AddressHandle> handle,
              std::uint32_t qp);
    // Sends a message without a number: it may get lost. False: not now.
    bool send_probe(const DatagramTarget& target, std::uint32_t port,
                    std::unique_ptr<AddressHandle> handle, std::uint32_t qp,
                    const MessageHeader& header, const void* body);

    // Acknowledges and sends again what is due. deadline(): when that is next; max: never.
    void run_timers();
    Nanoseconds deadline() const;
    // Something is not acknowledged whose receiver cannot have left; not only what connects, and a goodbye's answer.
    bool owes(const DatagramTarget& target) const;
    // The port's rail is reached elsewhere, or speaks with another partition: its queue pair is
    // begun anew.
    void renew(std::uint32_t port) {
        ports_[port].broken = true; // the next poll sees to it
        ports_[port].mend_at = Nanoseconds{0};
    }
    // A queue pair has failed. False: it is none of the channel's.
    bool on_fatal(std::uint32_t port, std::uint32_t qp_number);
    // As its owner knows, the target listens again: what it lacks is sent soon.
    void listens(DatagramTarget& target);
    // The target ends: what it has not acknowledged is dropped.
    void forget(DatagramTarget& target);

    // Hands arrived messages to `receiver`, at most `limit`; returns how many completions it took.
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
        Nanoseconds posted{0};      // last, where datagrams have numbers, and of probes

        bool under_way_over(std::uint32_t port) const { return (under_way & bit_of(port)) != 0; }
    };
    // The first `posts` sends of its port may name it.
    struct Retired {
        std::unique_ptr<AddressHandle> handle;
        std::uint64_t posts;
    };
    // What the channel has of one rail.
    struct Port {
        Rail* rail = nullptr;
        std::unique_ptr<MemoryRegion> receive_memory;
        std::unique_ptr<CompletionQueue> cq;
        std::unique_ptr<QueuePair> qp;
        std::vector<Retired> retired;
        std::uint64_t posts = 0; // sends
        std::uint64_t ended = 0; // of them, which end in their order
        std::uint32_t receives = 0;
        Bytes receive_bytes = 0; // of each
        std::uint32_t life = 0;  // which of the queue pair's: completions of earlier ones are over
        bool broken = false;     // to be begun anew ...
        Nanoseconds mend_at{0};  // ... not before
    };
    // The first port's rail has allocated the memory; it is registered with the others.
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
    void doubt(DatagramTarget& target, Trouble trouble, WorkStatus status);
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

    std::vector<Port> ports_; // the first at least; their number stays
    std::uint32_t first_;
    Identity identity_;
    const Clock& clock_;
    Counters& counters_;
    bool reliable_ = true; // of itself
    Bytes capacity_ = 0;
    Bytes slot_bytes_ = 0;
    std::vector<SendBlock> blocks_;
    std::uint32_t next_port_ = 0;           // of those after the first, polled next
    std::vector<std::uint32_t> free_sends_; // all slots at most
    std::vector<Slot> sends_;
    Judge judge_;
    FailureHandler failure_;
    Resolver resolver_;
    Nanoseconds timeout_ = Nanoseconds::max();
    Finder find_;
    Mover mover_; // empty: no fault tolerance
    AnswerHandler answered_;
    ProbeHandler probe_;
    std::vector<DatagramTarget*> alone_; // owe acknowledgements that nothing else will carry
    std::vector<Failed> failed_;         // since the last poll
    IntrusiveList<DatagramLink, &DatagramLink::timer_link> minded_; // have a deadline
    std::array<WorkCompletion, 16> batch_; // scratch of poll; the receiver must not poll
};

} // namespace adaptib
