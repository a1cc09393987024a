// SPDX-License-Identifier: BSD-3-Clause
// AddressHandle: a peer's rail as the target of datagrams and of DC requests; what is known of the
// peer's process.
//
// Ownership: Rail::create_ah makes a handle, and its caller owns it, longer than the queue pairs
//   that use it.
// Threads: one thread at a time uses a handle.
// May touch: base/.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace adaptib {

// What Rail::create_ah returns while the handle is being made elsewhere: it is going to be there
// soon.
constexpr Status kNotYet = Status::again(Reason::not_connected);
// Status while the address does not answer; that may pass.
constexpr Status kUnanswered = Status::again(Reason::unreachable);
// Returns true if it may return a handle later.
constexpr bool may_be_reached(Status status) { return status.is_again() || status.wants_room(); }

// State of the process behind an address handle, and of the path to it, as far as the host's system
// or the fabric knows without asking that process.
enum class Reach : std::uint8_t {
    unknown, // only a reply could tell
    ended,   // the process has ended; AddressHandle::standing() says so from now on
    cut_off, // the process lives; a datagram sent to it now is lost
    good,    // the process lives; earlier datagrams are in its queue or were taken
};

class AddressHandle {
public:
    virtual ~AddressHandle() = default;
    // Returns true if the peer is known to run on the one processor that this process may run on:
    // the two take turns, and each spends time of both. Asks the system each time (some
    // microseconds).
    bool shares_processor() const { return shares_processor_impl(); }
    // State of the peer, without a system call. ok: nothing is known against it; no_device: it has
    // closed its fabric; peer_gone: it has ended without closing; any other reason: it has refused
    // this process (Rail::refuse), and `text` explains that to a person.
    Status standing(std::string& text) const { return standing_impl(text); }

private:
    virtual bool shares_processor_impl() const { return false; }
    virtual Status standing_impl(std::string&) const { return kOk; }
};

} // namespace adaptib
