// SPDX-License-Identifier: BSD-3-Clause
// Path probes: ask, in the background, whether paths that are not up carry anything.
//
// Purpose: finds out that a failed path works again, and whether a suspect one has failed. A
// question goes over the path itself, as a datagram without a number that may get lost. The
// receiver answers over the same path, and is thanked, so that both sides know that both directions
// work.
//
//     asking side            probe -->           other side
//                        <-- probe_answer        path up (asking side)
//                           probe_thanks -->     path up (answering side)
//
// If the peer's rail has a responder, that is asked instead, by recovery/life_watch.h, and answers
// whatever the process does. A side that has asked so, and found that the path works again, sends
// thanks as well, which makes the other side ask at once.
//
// A failed path is asked after a rest, then at intervals that grow from kFirst to kMost, without
// end while the local rail is up. A suspect path has failed once the peer was heard after each of
// kIgnored consecutive questions and has answered none; each counts once, and only if it could be
// sent. That takes less than half of `timeout`. So that a peer that has nothing else to send is
// heard, another path, that of its datagrams if possible, is asked as well. A peer that computes is
// not heard, and its path is suspect for as long. A path that was never expected to work
// (PathRecord::worked) is not asked. One that cannot be asked, as it carries no datagrams, is taken
// for up when its turn comes. Probes carry the current address of the sender's rail, and so
// announce a changed address (a LID, a RoCE GID). A responder does not tell its process, and thanks
// may get lost: where the local rail has got another address, the peer's process is probed over the
// paths of this rail, even over those that are up, until it answers one of them.
// Within a host nobody is asked: the system and the peer's memory tell whether the peer is alive,
// and its rail takes anything. A peer to which no path has been up for long is given up, by the
// rule of recovery/liveness.h.
// Threads: one at a time (the core's lock).
// Source: Vishnu, 10.3.3 (path recovery); here both sides may ask, since one may have noticed
// alone.
// May touch: base/, fabric/, peer/, stats/, recovery/.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/random.h"
#include "base/wire.h"
#include "peer/peer.h"
#include "recovery/life_watch.h"
#include "recovery/liveness.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"

namespace adaptib {

class ProbeSender {
public:
    // Returns what is known of the path without a question.
    virtual Reach reach(const Peer& peer, std::size_t pair) = 0;
    // Returns true if the path carries datagrams.
    virtual bool can_ask(const Peer& peer, std::size_t pair) const = 0;
    // Returns false if that is impossible now.
    virtual bool send_probe(Peer& peer, std::size_t pair, MessageType type,
                            const ProbeBody& body) = 0;
    virtual void on_address_moved(Peer& peer, std::size_t pair) = 0;
    // No path has been up for that long.
    virtual void on_partition(Peer& peer, Nanoseconds lasted) = 0;

protected:
    ~ProbeSender() = default;
};

class PathProbes {
public:
    static constexpr Nanoseconds kFirst{50'000'000};
    static constexpr Nanoseconds kMost{2'000'000'000};
    static constexpr std::uint32_t kIgnored = 8; // datagrams may get lost

    struct Options {
        const Liveness* liveness = nullptr;
        Witness* witness = nullptr;
        LifeWatch* life = nullptr;
        Nanoseconds timeout{1'000'000'000}; // parameter failure_timeout
        const Clock* clock = nullptr;
        Random* random = nullptr;
    };
    PathProbes(const Options& options, PathRepository& paths, Counters& counters,
               ProbeSender& sender)
        : options_(options), paths_(paths), counters_(counters), sender_(sender) {}

    // Sends due questions. deadline(): when the next is due; max: all paths are up.
    void run_timers();
    Nanoseconds deadline();
    // Handles a probe that came over the pair; it has passed check_message.
    void on_probe(Peer& peer, std::size_t pair, MessageType type, const ProbeBody& body);
    // Handles an answer of the peer's responder over the pair (recovery/life_watch.h).
    void on_answer(Peer& peer, std::size_t pair, const LifeBody& body);

private:
    bool is_asked(const Peer& peer, std::size_t pair) const;
    Nanoseconds lost_at(const Peer& peer) const;
    bool goes_on(Peer& peer, Nanoseconds now);
    bool is_announced(const Peer& peer, std::size_t pair) const;
    void ask(Peer& peer, std::size_t pair, Nanoseconds now);
    void announce(Peer& peer, std::size_t pair, Nanoseconds now);
    bool send_probe(Peer& peer, std::size_t pair);
    bool send_question(Peer& peer, std::size_t pair);
    bool is_ignored(const Peer& peer, PathRecord& record) const;
    void cut_off(Peer& peer, std::size_t pair);
    std::size_t other_path(const Peer& peer, std::size_t pair) const;
    void learn_address(Peer& peer, std::size_t pair, const RailAddress& now,
                       std::uint32_t datagram_qp, std::uint32_t responder_qp);

    Options options_;
    PathRepository& paths_;
    Counters& counters_;
    ProbeSender& sender_;
};

} // namespace adaptib
