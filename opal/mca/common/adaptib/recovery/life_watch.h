// SPDX-License-Identifier: BSD-3-Clause
// LifeWatch: peers of other hosts for whom something waits are asked whether they live.
//
// Purpose: a question goes to the peer's responder (fabric/fabric.h), over one of its paths, and is
// answered whatever the peer's process does; so an answer says that the path carries both ways,
// that the process is alive, and whether it has called MPI since the last one. Who waits for long
// (datagrams that are not acknowledged, a handshake, a repair, the answer to a request) calls
// want(); the peer is asked at once, then at intervals that grow from kFirst to kMost, as long as
// it is awaited. Paths that are not up are asked by recovery/path_probes.h, through ask() as well.
//
//     who waits   life_question -->   responder of the peer's rail
//                 <-- life_answer     the same sequence, of that path's last question: else it
//                 counts for nothing
//
// Where the peer has no responder nothing is asked.
// Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/, observe/, recovery/.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "base/random.h"
#include "base/wire.h"
#include "observe/counters.h"
#include "peer/peer.h"
#include "recovery/liveness.h"

namespace adaptib {

class LifeAsker {
public:
    // The peer's rail of that pair has a responder, which a datagram of ours can be sent to.
    virtual bool has_responder(const Peer& peer, std::size_t pair) const = 0;
    // False: not now.
    virtual bool send_question(Peer& peer, std::size_t pair, const LifeBody& body) = 0;
    virtual bool is_awaited(const Peer& peer) const = 0;
    // It has called MPI since the answer before.
    virtual void on_present(Peer& peer) = 0;

protected:
    ~LifeAsker() = default;
};

class LifeWatch {
public:
    static constexpr Nanoseconds kFirst{50'000'000};
    static constexpr Nanoseconds kMost{2'000'000'000};
    static constexpr Nanoseconds kLate{250'000'000}; // an answer that takes so long does not come

    // `clock`: the attended one.
    LifeWatch(const Clock& clock, Random& random, Counters& counters, LifeAsker& asker)
        : clock_(clock), random_(random), counters_(counters), asker_(asker) {}

    // Something waits for the peer. Nothing happens if none of its rails has a responder.
    void want(Peer& peer);
    // The same of a peer of which only a message is awaited: it is asked if that is due, and is not
    // kept.
    void look(Peer& peer);
    // The peer ends, or nobody waits for it.
    void forget(Peer& peer);
    void run_timers();
    Nanoseconds deadline() const;

    // False: there is no responder, or the question could not be sent now.
    bool ask(Peer& peer, std::size_t pair);
    // The answer of a responder. False: it is late, or was heard before.
    bool on_answer(Peer& peer, std::size_t pair, const LifeBody& body);
    // Since then a question was answered over the path, and none is missing.
    bool answers(const Peer& peer, std::size_t pair, Nanoseconds since) const;

private:
    bool has_responder(const Peer& peer) const;
    void ask(Peer& peer, Nanoseconds now);

    const Clock& clock_;
    Random& random_;
    Counters& counters_;
    LifeAsker& asker_;
    IntrusiveList<Peer, &Peer::life_link> watched_;
};

} // namespace adaptib
