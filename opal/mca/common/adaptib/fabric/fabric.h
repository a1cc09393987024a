// SPDX-License-Identifier: BSD-3-Clause
// The fabric interface: verbs-shaped, implemented by verbs (hardware), shm (one host) and sim.
//
// Purpose: everything that the core asks of a wire. Each call mirrors one of libibverbs, so that
// the verbs fabric is thin and an RDMA engineer recognizes it. The semantics are those of the
// InfiniBand Architecture, vol. 1, ch. 9-11; fabric/README.md states them call by call. Anything
// that a device may lack is a capability flag that the core asks for (RailInfo::has), never an
// #ifdef.
//
// Shape: every object has public non-virtual calls over private virtual *_impl.
// Ownership: the unique_ptr that a create call returns owns the object. Children are destroyed
//   first: queue pairs before the queues, memory regions and address handles that they use; those
//   before their rail; rails before the fabric.
// Threads: one thread at a time uses an object (under the caller's lock). Nothing here blocks,
//   except that a fabric without an engine of its own (shm) may copy data inside post_send.
// Errors: Status; outputs are set only when it is ok.
// Parts: this header holds the Fabric and brings in the whole interface, which nearly all users
//   need. A header that needs one part includes that one:
//     capability.h            what a rail can do
//     rail_address.h          RailAddress, PathSpec
//     work.h                  work requests
//     completion_queue.h      completions, CompletionQueue
//     shared_receive_queue.h  SharedReceiveQueue
//     memory_region.h         rights, MemoryRegion
//     address_handle.h        AddressHandle
//     qp_attributes.h         QpInit, QpAttributes
//     queue_pair.h            QueuePair
//     rail.h                  Rail, with all of the above
//     event.h                 Event
//     answerer.h              Answerer
// May touch: base/, and these headers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/copy_costs.h"
#include "base/status.h"
#include "fabric/answerer.h"
#include "fabric/event.h"
#include "fabric/rail.h"

namespace adaptib {

// Memory words, in two cache lines, that show whether a poll would find nothing.
struct PollHint {
    const std::atomic<std::uint64_t>* next = nullptr; // nonzero: something has arrived
    bool busy = true; // there is work to continue, or there are completions to take

    bool idle() const { return !busy && next->load(std::memory_order_acquire) == 0; }
};

class Fabric {
public:
    virtual ~Fabric() = default;
    std::span<const std::unique_ptr<Rail>> rails() const { return rails_; }
    // Takes the next asynchronous event, if there is one.
    bool poll_event(Event& out) { return poll_event_impl(out); }
    // Gives each rail, as far as it can have one, a responder: a datagram queue pair with that
    // access key. It answers each question of up to kMostQuestion bytes with the answerer's reply,
    // to the queue pair that sent it, whatever this process does meanwhile. The answerer outlives
    // the fabric. Questions and replies may get lost, and there may be fewer replies than
    // questions. Not ok: there is no responder.
    Status respond(const Answerer& answerer, std::uint64_t access_key) {
        return respond_impl(answerer, access_key);
    }
    // Number of the rail's responder; 0: it has none.
    std::uint32_t responder_qp(std::uint32_t rail) const { return responder_qp_impl(rail); }
    // Notices for a person about how the fabric came up ("single copy: off, process_vm_readv is
    // forbidden ..."), one line each; empty when everything is as requested.
    const std::vector<std::string>& notices() const { return notices_; }
    // Measured cost of copies, where the processor copies the data; otherwise empty.
    const std::optional<CopyCosts>& copy_costs() const { return copy_costs_; }
    // While the poll hint is idle, the caller need not poll completion queues, except in one pass
    // of ten or so, because polls also do rare work. Null: there is no poll hint. Lives as long as
    // the fabric.
    const PollHint* poll_hint() const { return poll_hint_; }

protected:
    std::vector<std::unique_ptr<Rail>> rails_;
    std::vector<std::string> notices_;
    std::optional<CopyCosts> copy_costs_;
    const PollHint* poll_hint_ = nullptr;

private:
    virtual bool poll_event_impl(Event& out) = 0;
    virtual Status respond_impl(const Answerer&, std::uint64_t) {
        return Status::error(Reason::not_supported);
    }
    virtual std::uint32_t responder_qp_impl(std::uint32_t) const { return 0; }
};

} // namespace adaptib
