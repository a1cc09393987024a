// SPDX-License-Identifier: BSD-3-Clause
// Model: checks that MPI allows the observed behavior of a set of cores.
//
// Purpose: the order in which messages of different senders arrive is free, so the model does not
// predict: it takes the whole history of a run and reports everything in it that is impossible.
// Time is the position in the one order in which the calls and completions of all ranks happened;
// no two have the same.
//
// Method. Messages of one envelope to one rank are matched in the order of sending, by receives in
// the order of posting, whatever else happens: so the k-th such receive got the k-th such message,
// and its length and payload have to be those. It remains to find times of arrival that explain
// everything:
//   * a message arrives after its send and, if it was matched or settled, before the event that
//     shows it;
//   * messages of one sender and context arrive in the order of sending;
//   * a receive (or probe) that took m would have taken any other message that it fits, that had
//     arrived, and that nothing had taken: so any other message that it fits and that was taken
//     later arrived later;
//   * a message that a cancelled receive fits, and that no receive posted earlier took, arrived
//     after the cancel;
//   * active messages and messages of one sender arrive in the order of sending, unless messages
//     are held back.
// Each rule is "this before that", so the check is for cycles in a graph, and for times between
// bounds.
// Threads: one.
// May touch: base/, match/envelope.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "common_adaptib.h"
#include "match/envelope.h"

namespace adaptib::torture {

using Time = std::uint64_t;
constexpr Time kNever = ~Time{0};

struct SentMessage {
    std::uint32_t id = 0; // for error texts, as are all ids here
    std::uint32_t receiver = 0;
    Envelope envelope; // source: the sender
    Bytes bytes = 0;
    std::uint64_t payload = 0; // seed of the payload
    bool synchronous = false;
    Time started = 0;
    Time completed = kNever;
    int status = 0;
};

// A receive, or a claim (matched probe) with its receive.
struct Received {
    std::uint32_t id = 0;
    std::uint32_t rank = 0;
    Envelope pattern;
    Bytes room = 0;
    Time posted = 0;
    bool at_once = false; // it took a message that had arrived before; true for all claims
    Time cancelled = kNever;
    Time completed = kNever;
    int status = 0;
    std::int32_t source = Envelope::kAnySource; // until it is known
    std::int32_t tag = 0;
    Bytes bytes = 0;
    std::uint64_t digest = 0; // of the bytes received
};

// A probe, or a claim that found nothing.
struct Probed {
    std::uint32_t id = 0;
    std::uint32_t rank = 0;
    Envelope pattern;
    Time when = 0;
    bool found = false;
    std::int32_t source = 0;
    std::int32_t tag = 0;
    Bytes bytes = 0;
};

struct SentActive {
    std::uint32_t id = 0;
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
    std::uint8_t tag = 0;
    Bytes bytes = 0;
    std::uint64_t payload = 0;
    Time started = 0;
    Time completed = kNever;
    int status = 0;
};

struct DeliveredActive {
    std::uint32_t sender = 0;
    std::uint32_t receiver = 0;
    std::uint8_t tag = 0;
    Bytes bytes = 0;
    std::uint64_t digest = 0;
    Time when = 0;
};

// Each list is in order of start (or occurrence).
struct History {
    std::vector<SentMessage> messages;
    std::vector<Received> receives;
    std::vector<Probed> probes;
    std::vector<SentActive> actives;
    std::vector<DeliveredActive> delivered;
    bool holds_back = false; // senders may have to hold messages back until a receive asks for them
    std::vector<Time> settled; // times at which all messages sent before had arrived
};

// Returns what is wrong with a completed receive that is said to have got this message; empty:
// nothing.
std::string difference(const Received& receive, const SentMessage& message);

// Returns the violations of MPI in a history that ended with everything received or cancelled;
// empty if there are none.
std::vector<std::string> check(const History& history);

} // namespace adaptib::torture
