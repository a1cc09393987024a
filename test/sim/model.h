// SPDX-License-Identifier: BSD-3-Clause
// Model: is what a set of cores was seen to do with messages allowed by MPI?
//
// Purpose: the order in which messages of different senders arrive is free, so the model does not predict:
// it is given the whole history of a run and says what in it cannot be. Time is the place in the one order
// in which the calls and completions of all ranks happened; no two have the same.
//
// How. Messages of one envelope to one rank are matched in the order of sending, by receives in the order
// of posting, whatever else happens: so the k-th such receive got the k-th such message, and its length
// and payload have to be those. What remains is whether there are moments of arrival that explain it all:
//   * a message arrives after its send and, if it was matched or settled, before what shows that;
//   * those of one sender and context arrive in the order of sending;
//   * a receive (or probe) that took m would have taken any other message that it fits, that had arrived,
//     and that nothing had taken: so any other that it fits and that was taken later arrived later;
//   * a message that a cancelled receive fits, and nothing posted earlier took, arrived after the cancel;
//   * active messages and messages of one sender arrive in the order of sending, unless messages
//     are held back.
// Each is "this before that", so the question is whether a graph has a cycle, and a time between bounds.
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
    std::uint32_t id = 0; // for texts, as all ids here
    std::uint32_t receiver = 0;
    Envelope envelope; // source: the sender
    Bytes bytes = 0;
    std::uint64_t payload = 0; // its seed
    bool synchronous = false;
    Time started = 0;
    Time completed = kNever;
    int status = 0;
};

// A receive, or a claim (matched probe) with the receive of what it took.
struct Received {
    std::uint32_t id = 0;
    std::uint32_t rank = 0;
    Envelope pattern;
    Bytes room = 0;
    Time posted = 0;
    bool at_once = false; // it took a message that had arrived before; claims always do
    Time cancelled = kNever;
    Time completed = kNever;
    int status = 0;
    std::int32_t source = 0;
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

// Each list in the order of starting (or happening).
struct History {
    std::vector<SentMessage> messages;
    std::vector<Received> receives;
    std::vector<Probed> probes;
    std::vector<SentActive> actives;
    std::vector<DeliveredActive> delivered;
    bool holds_back = false; // messages may have to wait at their senders until they are asked for
    std::vector<Time> settled; // by then all that had been sent has arrived
};

// What MPI does not allow in a history that ended with everything received or cancelled; none: all is well.
std::vector<std::string> check(const History& history);

} // namespace adaptib::torture
