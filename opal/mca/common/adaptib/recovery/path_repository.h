// SPDX-License-Identifier: BSD-3-Clause
// The path repository: state of each path to each peer, since when, and how often it failed.
//
// Purpose: the one place that knows which paths can be used. It is told of port events (all paths
// of a rail at once) and of successful repairs and migrations; connection setup queries it, and it
// tells a listener of each change. A path is a pair of rails, a local one and one of the peer's, by
// its number in PeerRoute::pairs.
//
//     up, suspect --port event, a queue pair fails, questions are ignored--> failed
//     failed --the port is active again--> suspect
//     up --datagrams are not acknowledged, or a queue pair is silent--> suspect
//     suspect, failed --a question is answered, or a connection uses it--> up
//
// Paths that are not up are probed (recovery/path_probes.h). A suspect path is used as before: a
// peer that computes answers nothing, over whatever path. But a suspect path that had failed is not
// used before it is up. A path that fails again within seconds rests ever longer before it is
// asked, even if its port is active again, while there are other paths (flap hold-down).
//
// A rail over which some peers have failed and none has ever answered leads nowhere, or to nobody:
// paths of further peers over it begin as failed, so that these peers do not find that out each for
// itself. Each is probed, and the first answer ends that.
//
// Lines for people: one per path; if a rail takes many paths down or up, one for all of them; and
// at most kLinesPerSecond a second, with the number of those left out.
// Invariants: a peer of which all paths were always up has no record. With the parameter
// fault_tolerance off all paths are up whatever is reported.
// Ownership: knows peers from add() to remove(); the peers are the caller's.
// Threads: one at a time (the core's lock).
// Source: Vishnu, 10.3 (path repository, completion filter, path recovery).
// May touch: base/, fabric/, peer/, stats/.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/intrusive_list.h"
#include "peer/peer.h"
#include "stats/counters.h"

namespace adaptib {

class PathObserver {
public:
    // Called when a path has changed; usable() already reflects that. May report further failures.
    virtual void on_path_changed(Peer& peer, std::size_t pair, PathState was, PathState now,
                                 const std::string& why) = 0;
    virtual void on_path_line(const std::string& line) = 0; // for a person

protected:
    ~PathObserver() = default;
};

class PathRepository {
public:
    struct Options {
        bool on = true; // parameter fault_tolerance
        std::string host;
        const Clock* clock = nullptr;
    };
    static constexpr std::uint32_t kLinesPerSecond = 8;
    static constexpr std::size_t kSilentPeers = 4; // of a rail that leads nowhere

    PathRepository(const Options& options, RailList rails, Counters& counters,
                   PathObserver& observer)
        : options_(options), rails_(rails), counters_(counters), observer_(observer),
          rail_down_(rails.size(), false), rail_silent_(rails.size(), false),
          rail_carried_(rails.size(), false) {}

    bool on() const { return options_.on; }
    // Adds a peer. Its paths over rails that are down are failed from the beginning.
    void add(Peer& peer);
    void remove(Peer& peer);
    void forget(Peer& peer); // drops all knowledge of its paths: it has left
    bool watches(const Peer& peer) const { return on() && peer.health.paths_link.linked(); }

    // ---- Asking

    PathState state(const Peer& peer, std::size_t pair) const {
        return peer.health.paths == nullptr ? PathState::up
                                            : peer.health.paths->records[pair].state;
    }
    // Returns true if the path is not known to have failed since it last worked.
    bool usable(const Peer& peer, std::size_t pair) const {
        return peer.health.paths == nullptr || peer.health.paths->records[pair].usable();
    }
    std::size_t usable_count(const Peer& peer) const;
    // Returns how many queue pairs in a row have failed on the path without carrying anything.
    std::uint32_t vain(const Peer& peer, std::size_t pair) const {
        return peer.health.paths == nullptr ? 0 : peer.health.paths->records[pair].vain;
    }
    bool is_reachable(std::uint32_t rail, const RailAddress& remote) const {
        return rails_[rail]->is_reachable(remote);
    }
    bool rail_down(std::uint32_t rail) const { return rail_down_[rail]; }
    // Returns true if no path is up; sets `since` to the beginning of that.
    bool without_path(const Peer& peer, Nanoseconds& since) const;
    // Peers with a path that is not up, or with one over a rail whose address they may not know.
    bool all_well() const { return troubled_.empty(); }
    template <class F> void for_each_troubled(F&& f) {
        for (Peer* peer = troubled_.front(); peer != nullptr;) {
            Peer* const next = troubled_.next(*peer);
            f(*peer);
            peer = next;
        }
    }
    // "node3/mlx5_1:1 -> node7/mlx5_0:1"
    std::string path_text(const Peer& peer, std::size_t pair) const;
    // Returns state and history of every path that ever was not up, a line each.
    std::string report() const;

    // ---- Telling

    void report_suspect(Peer& peer, std::size_t pair, const std::string& why);
    // `line`: also write a line for people.
    void report_failure(Peer& peer, std::size_t pair, const std::string& why, bool line = true);
    // Called when an arrival from the peer shows that the path carries both ways.
    void report_success(Peer& peer, std::size_t pair, bool line = true);
    // A queue pair on that path has failed. `carried`: something posted to it has completed.
    void report_queue_pair_failure(Peer& peer, std::size_t pair, const std::string& why,
                                   bool carried, bool line = true);
    // Called when a queue pair on that path has completed something.
    void report_carried(Peer& peer, std::size_t pair);
    // Gives the peer's subchannels other pairs of its route (peer/route.h). Returns false if they
    // are the same. REQUIRES: none of them has a queue pair.
    bool pair_anew(Peer& peer, std::span<const std::uint8_t> order);
    // Failed paths that rest are asked now: both sides do without paths, and have none in common.
    void end_rests(Peer& peer);
    // Changes all paths over a local rail. Restored ones have to be tried first: they are suspect,
    // and probed.
    void rail_failed(std::uint32_t rail, const std::string& why);
    void rail_restored(std::uint32_t rail);
    // A local rail has another address, which all peers have to be told.
    void rail_readdressed(std::uint32_t rail);
    // The peer knows the present address of the path's local rail.
    void report_announced(Peer& peer, std::size_t pair);
    // Reports lines that were left out. Called now and then.
    void run_timers();
    Nanoseconds deadline() const;

private:
    PathRecord& record_of(Peer& peer, std::size_t pair);
    void change(Peer& peer, std::size_t pair, PathState to, const std::string& why, bool line);
    void note_without(Peer& peer);
    void note_trouble(Peer& peer);
    void look_at_rail(std::uint32_t rail);
    static bool carries(const Peer& peer, std::size_t pair);
    void say(const std::string& line);

    Options options_;
    RailList rails_;
    Counters& counters_;
    PathObserver& observer_;
    std::vector<bool> rail_down_;
    std::vector<bool> rail_silent_;  // kSilentPeers have failed over it, and it has carried nothing
    std::vector<bool> rail_carried_; // it has carried something, as far as anybody looked
    IntrusiveList<Peer, &Peer::health, &PeerHealth::paths_link> peers_;
    IntrusiveList<Peer, &Peer::health, &PeerHealth::troubled_link> troubled_;
    Nanoseconds lines_since_{0};
    std::uint32_t lines_ = 0;
    std::uint32_t left_out_ = 0;
};

} // namespace adaptib
