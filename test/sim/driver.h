// SPDX-License-Identifier: BSD-3-Clause
// Driver: any number of complete cores, and whose turn it is.
//
// Purpose: what a torture run sees of the cores, whatever fabric they stand on. The operations are those of
// the C interface (common_adaptib.h), in the same steps; they are virtual so that a test can show that what
// it spoils is noticed. One rank at a time has its turn: its core's progress, then `turn`.
// Ownership: the driver owns the cores; requests and buffers are the caller's and outlive the driver.
// Threads: one.
// May touch: the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/core.h"

namespace adaptib::torture {

using OneSidedOperation = opal_common_adaptib_one_sided_t;
using Remote = opal_common_adaptib_remote_t;

// How the start of an operation went.
struct Started {
    Status status;
    bool complete = false; // nothing will be reported
    bool matched = false;  // receives: by a message that was there
};

struct Found {
    std::int32_t source = 0;
    std::int32_t tag = 0;
    Bytes bytes = 0;
    InboundMessage* message = nullptr; // claimed
};

struct Send {
    std::uint32_t to = 0;
    Envelope envelope;
    Data data{};
    bool synchronous = false;
    bool at_once = false;
};

class Listener {
public:
    // An active message.
    virtual void on_active(std::uint32_t rank, std::uint64_t from, std::uint8_t tag,
                           const std::byte* payload, Bytes length) = 0;

protected:
    ~Listener() = default;
};

class Driver {
public:
    virtual ~Driver() = default;

    virtual std::uint32_t ranks() const = 0;
    virtual Core& core(std::uint32_t rank) = 0;
    virtual Counters& counters(std::uint32_t rank) = 0;
    // What the cores said to people: nothing, in a world without faults.
    virtual std::vector<std::string> messages() = 0;

    // What a rank does in its turn; from inside it, it may ask for the next one in so many ticks, or
    // compute so long: it does nothing meanwhile, be it progress.
    std::function<void(std::uint32_t rank)> turn;
    virtual void wake(std::uint32_t rank, std::uint64_t ticks) = 0;
    virtual void compute(std::uint32_t rank, std::uint64_t ticks) = 0;
    // Turns, until `done`. False: nothing will happen any more.
    virtual bool run(const std::function<bool()>& done) = 0;
    // Progress, until all that is under way has arrived.
    virtual void settle() = 0;

    static std::uint64_t name(std::uint32_t rank) { return (std::uint64_t{1} << 32) | rank; }

    // Moves a rank's core; what has completed is reported. Returns the number of events.
    std::size_t progress(std::uint32_t rank);

    virtual Started send(std::uint32_t rank, const Send& what, UserRequest& request);
    virtual Started receive(std::uint32_t rank, const Envelope& pattern, const Data& data,
                            UserRequest& request);
    virtual bool find(std::uint32_t rank, const Envelope& pattern, Found& found);
    virtual bool claim(std::uint32_t rank, const Envelope& pattern, Found& found);
    virtual Started receive_claimed(std::uint32_t rank, InboundMessage& message, const Data& data,
                                    UserRequest& request);
    virtual bool cancel(std::uint32_t rank, UserRequest& request);
    virtual Started send_active(std::uint32_t rank, std::uint32_t to, std::uint8_t tag,
                                const Data& data, bool at_once, UserRequest& request);
    virtual Started one_sided(std::uint32_t rank, std::uint32_t to,
                              const OneSidedOperation& operation, const Registration* region,
                              bool at_once, UserRequest& request);
    // The user lets go of a peer, as after MPI_Comm_disconnect; what is started later gets it again.
    void release(std::uint32_t rank, std::uint32_t to);
    // The channel of a peer in use is another one, as the selection of channels may have it at any time.
    void switch_channel(std::uint32_t rank, std::uint32_t to, bool connected);

    // Makes memory known to the others; `own` holds what had to be registered for it.
    Status expose(std::uint32_t rank, void* base, Bytes bytes, std::uint32_t access,
                  OpenWindow& own, Remote& remote);
    void listen(Listener& listener);
    // Receives that wait for a message.
    std::size_t posted(std::uint32_t rank);
    std::size_t unexpected(std::uint32_t rank);

private:
    // Null in `out`: ourselves.
    Status peer(std::uint32_t rank, std::uint32_t to, Peer*& out);

    struct Ear {
        Listener* listener;
        std::uint32_t rank;
    };
    std::vector<std::unique_ptr<Ear>> ears_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Peer*> peers_; // in use
};

} // namespace adaptib::torture
