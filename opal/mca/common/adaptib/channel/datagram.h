// SPDX-License-Identifier: BSD-3-Clause
// The datagram channel: messages of any number of peers through one queue (UD; shm's shared queue).
//
// Purpose: costs nothing per peer; carries whatever goes to peers that have no connection, and the
// connection handshake. One message per datagram. Who sends proves to belong to us by the key that
// this process published; anything else is counted as a bad packet and dropped.
// Requires: a rail with Capability::ud and reliable_ud.
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

#include "base/status.h"
#include "base/wire.h"
#include "fabric/fabric.h"
#include "observe/counters.h"

namespace adaptib {

// Where datagrams to one peer go. Owned by the peer.
struct DatagramTarget {
    std::unique_ptr<AddressHandle> handle;
    std::uint32_t qp = 0;
    std::uint64_t key = 0; // the one the target published
    std::uint64_t name = 0;
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

    static Status create(Rail& rail, const Identity& identity, Counters& counters,
                         std::unique_ptr<DatagramChannel>& out);
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
    Status commit(const DatagramTarget& target, const MessageHeader& header);

    void on_failure(FailureHandler handler) { failure_ = std::move(handler); }

    // Hands arrived messages to `receiver`, at most `limit`; returns how many completions it took.
    std::size_t poll(const Receiver& receiver, std::size_t limit);

private:
    DatagramChannel(Rail& rail, const Identity& identity, Counters& counters)
        : rail_(rail), identity_(identity), counters_(counters) {}
    Status open();
    Status post_receive(std::uint32_t index);
    void handle_receive(const WorkCompletion& completion, const Receiver& receiver);

    Rail& rail_;
    Identity identity_;
    Counters& counters_;
    Bytes capacity_ = 0;
    Bytes slot_bytes_ = 0;
    std::vector<std::byte> memory_; // of both regions
    std::unique_ptr<MemoryRegion> send_memory_;
    std::unique_ptr<MemoryRegion> receive_memory_;
    std::unique_ptr<CompletionQueue> cq_;
    std::unique_ptr<QueuePair> qp_;
    std::vector<std::uint32_t> free_sends_; // never grows past its first size
    std::vector<std::uint64_t> sent_to_;    // by send slot: the target's name
    FailureHandler failure_;
    std::array<WorkCompletion, 16> batch_; // scratch of poll; the receiver must not poll
};

} // namespace adaptib
