// SPDX-License-Identifier: BSD-3-Clause
// The silence watch: queue pairs that say nothing of what was posted, neither success nor error.
//
// Purpose: an adapter tells of a dead path by an error, after its own timeout and retries; some fall silent
// instead, and never tell. So each queue pair with work whose completion is awaited is looked at, a few times in
// the parameter failure_timeout. Any completion is a sign of life. After half of that time without one the path
// is suspect, and asked (recovery/path_probes.h): if the peer is heard over others and not over this one it has
// failed, by the end of failure_timeout. If it answers, the queue pair is slow, which long transfers over busy
// links are: it is given kSlow times as long, and what its bytes take at kSlowest. Then the path is reported as
// failed, too. So is that which had not answered for long and does again, while its queue pair stays silent:
// some devices never say a word of what was posted before.
//
// Our own absence is not the device's silence: the time between two looks counts as kEvery at most.
// A peer that computes answers nothing over any path; its paths are suspect, and stay in use.
// Writes into a ring are signaled seldom: an empty one is sent behind those that are not.
// Within a host nothing is watched: there completions may take the other process' time.
// Threads: one at a time (the core's lock).
// May touch: base/, peer/, recovery/.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "peer/peer.h"
#include "recovery/path_repository.h"

namespace adaptib {

class SilenceWatch {
public:
    static constexpr std::int64_t kLooks = 16; // in `timeout`
    static constexpr std::int64_t kSlow = 8;
    static constexpr double kSlowest = 4e6;         // bytes a second
    static constexpr std::uint32_t kUnanswered = 4; // questions: that is long

    struct Options {
        Nanoseconds timeout{}; // parameter failure_timeout
        const Clock* clock = nullptr;
    };
    SilenceWatch(const Options& options, PathRepository& paths)
        : options_(options), paths_(paths) {}

    // A look at all peers is due; `posted` changes with what is written into rings or behind it, `awaited`: stripes
    // are under way.
    bool due(std::uint64_t posted, bool awaited) const {
        return options_.clock->now() >= deadline(posted, awaited);
    }
    // max: nothing is awaited, as far as is known.
    Nanoseconds deadline(std::uint64_t posted, bool awaited) const {
        return paths_.on() && (awaited || busy_ || posted != posted_) ? next_ : Nanoseconds::max();
    }
    // begin_look(); look_at() each peer; end_look().
    void begin_look(std::uint64_t posted);
    void look_at(Peer& peer);
    void end_look() { next_ = options_.clock->now() + options_.timeout / kLooks; }

private:
    void look_at(Peer& peer, std::size_t pair);
    static bool awaits(const Peer& peer, const Subchannel& subchannel);
    bool is_over(const Subchannel& subchannel) const;

    Options options_;
    PathRepository& paths_;
    Nanoseconds next_{0};
    Nanoseconds looked_{0};
    Nanoseconds passed_{0}; // since the look before, as far as it counts
    std::uint64_t posted_ = 0;
    bool busy_ = false;
};

} // namespace adaptib
