// SPDX-License-Identifier: BSD-3-Clause
// LifeWatch: asks peers of other hosts for which something waits whether they are alive.
//
// Purpose: a question goes to the peer's responder (fabric/fabric.h), over one of its paths, and is
// answered whatever the peer's process does. So an answer shows that the path carries both ways,
// that the process is alive, and whether it has called MPI since the last answer. A user that waits
// for long (datagrams that are not acknowledged, a handshake, a repair, the answer to a request)
// calls want(). The peer is asked at once, then at intervals that grow from kFirst to kMost, as
// long as it is awaited; but soon enough for kQuestions before it is given up, since questions and
// answers may be lost. Paths that are not up are asked by recovery/path_probes.h, through ask() as
// well.
//
//     waiting process   life_question -->   responder of the peer's rail
//                       <-- life_answer     repeats the sequence of that path's last question,
//                                           otherwise it is ignored
//
// A peer without a responder is asked nothing.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/, stats/, recovery/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "base/random.h"
#include "base/wire.h"
#include "peer/peer.h"
#include "recovery/liveness.h"
#include "stats/counters.h"

namespace adaptib {

class LifeAsker {
public:
    // Returns true if the peer's rail of that pair has a responder, be it in reach now or not.
    virtual bool has_responder(const Peer& peer, std::size_t pair) const = 0;
    // Returns false if that is impossible now, such as while this process's rail is down.
    virtual bool send_question(Peer& peer, std::size_t pair, const LifeBody& body) = 0;
    virtual bool is_awaited(const Peer& peer) const = 0;
    // Called when the peer has called MPI since the answer before.
    virtual void on_present(Peer& peer) = 0;

protected:
    ~LifeAsker() = default;
};

class LifeWatch {
public:
    static constexpr Nanoseconds kFirst{50'000'000};
    static constexpr Nanoseconds kMost{2'000'000'000};
    static constexpr std::int64_t kQuestions = 8;    // before a peer is given up, if there is time
    static constexpr Nanoseconds kLate{250'000'000}; // a later answer is not expected

    // `clock`: the attended one. `patience`: the time after which a silent peer is given up.
    LifeWatch(const Clock& clock, Random& random, Counters& counters, LifeAsker& asker,
              Nanoseconds patience)
        : clock_(clock), random_(random), counters_(counters), asker_(asker),
          most_(std::clamp(patience / kQuestions, kFirst, kMost)) {}

    // Called when something waits for the peer. Does nothing if none of its rails has a responder.
    void want(Peer& peer);
    // Same for a peer of which only a message is awaited: asks it if that is due, and does not keep
    // it. A peer whose last question is answered is asked `every` after the last evidence that it
    // is alive. A question that cannot be sent counts as one that is not answered.
    void look(Peer& peer, Nanoseconds every = Nanoseconds{0});
    // Called when the peer ends, or nothing waits for it: its silence so far is no evidence for who
    // waits for it later.
    void forget(Peer& peer);
    void run_timers();
    Nanoseconds deadline() const;

    // Returns false if there is no responder, or the question could not be sent now.
    bool ask(Peer& peer, std::size_t pair);
    // Handles the answer of a responder. Returns false if it is late, or was received before.
    bool on_answer(Peer& peer, std::size_t pair, const LifeBody& body);
    // Returns true if a question asked since then was answered over the path, and none is missing.
    bool answers(const Peer& peer, std::size_t pair, Nanoseconds since) const;

private:
    bool has_responder(const Peer& peer) const;
    void ask(Peer& peer, Nanoseconds now);

    const Clock& clock_;
    Random& random_;
    Counters& counters_;
    LifeAsker& asker_;
    const Nanoseconds most_; // longest interval between two questions
    IntrusiveList<Peer, &Peer::health, &PeerHealth::life_link> watched_;
};

} // namespace adaptib
