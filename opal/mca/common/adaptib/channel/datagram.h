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

    static Status create(Rail& rail, const Identity& identity, const Clock& clock,
                         Counters& counters, std::unique_ptr<DatagramChannel>& out);
    ~DatagramChannel();

    // Bytes of body and payload that one message carries.
    Bytes capacity() const { return capacity_; }
    std::uint32_t qp_number() const { return qp_->number(); }
    Rail& rail() { return rail_; }

    // Room to fill in, or null if nothing can be sent now. A reservation that is not committed sends
    // nothing and holds nothing.
    // REQUIRES: length <= capacity().
    std::byte* reserve(Bytes length);
    // again: the target has no room; the reservation is gone. error(unreachable): it was let go.
    Status commit(DatagramTarget& target, const MessageHeader& header);

    // A target that acknowledges nothing for so long has failed; without this, never.
    void give_up_after(Nanoseconds patience) { patience_ = patience; }
    void on_failure(FailureHandler handler) { failure_ = std::move(handler); }
    void resolve_by(Resolver resolver) { resolver_ = std::move(resolver); }

    // Acknowledges and sends again what is due. deadline(): when that is next; max: never.
    void run_timers();
    Nanoseconds deadline() const;
    // Something was sent that is not acknowledged yet.
    bool unacknowledged() const;
    // The target ends: what it has not acknowledged is dropped.
    void forget(DatagramTarget& target);

    // Hands arrived messages to `receiver`, at most `limit`; returns how many completions it took.
    std::size_t poll(const Receiver& receiver, std::size_t limit);

private:
    struct Slot {
        std::uint64_t to = 0; // the target's name
        std::uint32_t bytes = 0;
        bool under_way = false; // its completion is outstanding
        bool kept = false;      // until it is acknowledged
    };
    DatagramChannel(Rail& rail, const Identity& identity, const Clock& clock, Counters& counters)
        : rail_(rail), identity_(identity), clock_(clock), counters_(counters),
          reliable_(rail.info().has(Capability::reliable_ud)) {}
    Status open();
    Status post_receive(std::uint32_t index);
    void handle_receive(const WorkCompletion& completion, const Receiver& receiver);
    bool accept(const DatagramHeader& prefix, bool acknowledges);
    DatagramHeader prefix_for(const DatagramTarget& target) const;
    void acknowledge(DatagramTarget& target);
    void repeat(DatagramLink& link, std::uint32_t slot, Nanoseconds now);
    Status post(const DatagramTarget& target, std::uint32_t slot);
    void mind(DatagramLink& link);
    void release(std::uint32_t slot);
    std::byte* slot_at(std::uint32_t slot) const {
        return static_cast<std::byte*>(send_memory_->address()) + slot * slot_bytes_;
    }

    Rail& rail_;
    Identity identity_;
    const Clock& clock_;
    Counters& counters_;
    bool reliable_; // of itself
    Bytes capacity_ = 0;
    Bytes slot_bytes_ = 0;
    std::unique_ptr<MemoryRegion> send_memory_;
    std::unique_ptr<MemoryRegion> receive_memory_;
    std::unique_ptr<CompletionQueue> cq_;
    std::unique_ptr<QueuePair> qp_;
    std::vector<std::uint32_t> free_sends_; // never grows past its first size
    std::vector<Slot> sends_;
    Nanoseconds patience_ = Nanoseconds::max();
    FailureHandler failure_;
    Resolver resolver_;
    IntrusiveList<DatagramLink, &DatagramLink::timer_link> minded_; // have a deadline
    std::array<WorkCompletion, 16> batch_; // scratch of poll; the receiver must not poll
};

} // namespace adaptib
