// SPDX-License-Identifier: BSD-3-Clause
// ProcessWatch: checks whether awaited peers live (recovery/liveness.h), and finds those that do
// not.
//
// Purpose: for a process of this host the operating system knows. While it runs, its silence means
// nothing; once it has ended, it is given up within kEvery, as soon as everything that it left
// behind has been taken. A process of another host is asked, and its responder answers
// (recovery/life_watch.h); if it has none, only its datagrams tell. The runtime that started the
// job may report the end of any process; that counts as well.
// Threads: one at a time (the core's lock), but for EndedProcesses::report.
// May touch: base/, fabric/, channel/, peer/, recovery/, protocol/, core/datagram_paths.h,
//   core/peer_directory.h.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/wire.h"
#include "channel/datagram.h"
#include "core/datagram_paths.h"
#include "core/peer_directory.h"
#include "fabric/rail.h"
#include "peer/peer.h"
#include "protocol/protocol.h"
#include "recovery/ended_processes.h"
#include "recovery/life_watch.h"
#include "recovery/liveness.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"

namespace adaptib {

class ProcessWatch final : public Witness, public LifeAsker {
public:
    static constexpr Nanoseconds kEvery{250'000'000};

    struct Options {
        const Clock* clock = nullptr;
        const Clock* attended = nullptr; // for all that peers' answers are timed by
        Random* random = nullptr;
        const Liveness* liveness = nullptr;
    };
    ProcessWatch(const Options& options, RailList rails, PathRepository& paths,
                 DatagramPaths& datagram_paths, Counters& counters)
        : options_(options), rails_(rails), paths_(paths), datagram_paths_(datagram_paths),
          life_(*options.attended, *options.random, counters, *this, options.liveness->patience()) {
    }
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

    LifeWatch& life() { return life_; }
    const LifeWatch& life() const { return life_; }
    EndedProcesses& ended() { return ended_; }
    const EndedProcesses& ended() const { return ended_; }

    // Returns the standing of a peer for which something has waited since then.
    DatagramChannel::Standing standing_of(Peer& peer, Nanoseconds since);
    // Returns the contacted peers that have been reported to have ended since the last call. Such a
    // process that is contacted later, for the first time or again, is unreachable
    // (DatagramPaths::open).
    std::vector<Peer*> take_ended(const PeerDirectory& peers);
    // True if find_ended() is due.
    bool is_due(Nanoseconds now) const { return now >= watch_at_; }
    // Looks at all awaited processes, asks those that nothing else shows to live, and returns those
    // that have ended.
    std::vector<Peer*> find_ended(const PeerDirectory& peers, const Protocol& protocol);

    // Witness
    bool may_live(Peer& peer, Nanoseconds since) override;
    // LifeAsker
    bool has_responder(const Peer& peer, std::size_t pair) const override;
    bool send_question(Peer& peer, std::size_t pair, const LifeBody& body) override;
    bool is_awaited(const Peer& peer) const override;
    void on_present(Peer& peer) override;

private:
    Reach look_for(Peer& peer);
    void attend(Peer& peer);
    void ask_for(Peer& peer, Nanoseconds every);

    Options options_;
    RailList rails_;
    PathRepository& paths_;
    DatagramPaths& datagram_paths_;
    LifeWatch life_;
    EndedProcesses ended_;
    Nanoseconds watch_at_{0}; // next check of the awaited processes
};

} // namespace adaptib
