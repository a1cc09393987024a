// SPDX-License-Identifier: BSD-3-Clause
// Driver: any number of complete cores, and the order of their turns.
//
// Purpose: the cores as a torture run sees them, on any fabric. The operations are those of the C
// interface (common_adaptib.h), in the same steps; they are virtual so that a test can spoil one
// and show that the models notice. One rank at a time has its turn: its core's progress, then
// `turn`.
// Ownership: the driver owns the cores; requests and buffers are the caller's and outlive the
// driver.
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
#include "simulator/faults/fault.h"
#include "simulator/torture/endpoints.h"

namespace adaptib::torture {

struct Program;

// The faults (simulator/faults/fault.h) that a program sets in lines "fault NAME VALUE", for the
// fabric of a rank.
// datagram_doubled, datagram_delayed, request_fails, request_fails_done, completion_delayed,
// send_refused, create_qp_fails, modify_fails, commit_fails, cm_connect_fails: in this many of a
// thousand cases, until that many milliseconds of time have passed (until; without it: always).
// The same with _nth: once, in this case, counted from 1.
// lacks_whole_memory, lacks_direct, lacks_reliable_ud: 1: the rails hide these capabilities.
// cm_connects: 1: queue pairs connect through a connection manager.
fault::FaultPlan fault_plan(const Program& program, std::uint32_t rank);

using OneSidedOperation = opal_common_adaptib_one_sided_t;
using Remote = opal_common_adaptib_remote_t;

// Result of starting an operation.
struct Started {
    Status status;
    bool complete = false; // the completion is not reported
    bool matched = false;  // receives: matched a message that had arrived
};

struct Found {
    std::int32_t source = 0;
    std::int32_t tag = 0;
    Bytes bytes = 0;
    InboundMessage* message = nullptr; // set if claimed
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
    // Called for an active message.
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
    // Messages of the cores to the user: none in a world without faults.
    virtual std::vector<std::string> messages() = 0;

    // Called in each turn of a rank. Inside it the rank may ask for its next turn after some ticks
    // (wake), or compute for some ticks: meanwhile it does nothing, not even progress.
    std::function<void(std::uint32_t rank)> turn;
    // Called when the world has ended a rank's process without a word. told: the runtime is about
    // to tell the others.
    std::function<void(std::uint32_t rank, bool told)> died;
    virtual void wake(std::uint32_t rank, std::uint64_t ticks) = 0;
    virtual void compute(std::uint32_t rank, std::uint64_t ticks) = 0;
    // Gives turns until `done`. Returns false if nothing more can happen.
    virtual bool run(const std::function<bool()>& done) = 0;
    // Runs progress until all data under way has arrived.
    virtual void settle() = 0;

    // Virtual time; the time until which something held operations up: the last change of a port or
    // cable, the end of a computation; and how soon after that all operations end, at most. 0 where
    // time is not virtual.
    virtual Nanoseconds time() const { return Nanoseconds{0}; }
    virtual Nanoseconds held_up_until() const { return Nanoseconds{0}; }
    virtual Nanoseconds ends_within() const { return Nanoseconds{0}; }

    // Number of injected faults so far.
    virtual std::uint64_t faults() const = 0;
    // Number of datagrams so far, of a world.
    virtual std::uint64_t datagrams() const { return 0; }

    // Which ranks are endpoints of the same process, and the names of all.
    virtual const sim::Endpoints& endpoints() const = 0;

    // Runs progress of a rank's core and reports completed requests. Returns the number of events.
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
    // Releases a peer, as after MPI_Comm_disconnect; the next operation gets it again.
    void release(std::uint32_t rank, std::uint32_t to);
    // Tells the peers of a rank that nobody has released that its process ends.
    void leave(std::uint32_t rank);
    // Ends the process of a rank, with its other endpoints, without a word. In a world only.
    virtual void kill(std::uint32_t) {}
    // Tells a rank, as the runtime does, that the process of another one has ended.
    void report_ended(std::uint32_t rank, std::uint32_t gone);
    // Switches the channel of a peer in use, as the selection of channels may do at any time.
    void switch_channel(std::uint32_t rank, std::uint32_t to, bool connected);

    // Exposes memory to the other ranks; `own` holds the registration if one was needed.
    Status expose(std::uint32_t rank, void* base, Bytes bytes, std::uint32_t access,
                  OpenWindow& own, Remote& remote);
    void listen(Listener& listener);
    // Number of receives that wait for a message.
    std::size_t posted(std::uint32_t rank);
    std::size_t unexpected(std::uint32_t rank);

private:
    // Null in `out`: the rank itself.
    Status peer(std::uint32_t rank, std::uint32_t to, Peer*& out);

    struct Ear {
        Listener* listener;
        std::uint32_t rank;
    };
    std::vector<std::unique_ptr<Ear>> ears_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Peer*> peers_; // in use
};

} // namespace adaptib::torture
