// SPDX-License-Identifier: BSD-3-Clause
// The silence watch: finds queue pairs that report nothing about posted work, neither success nor
// error.
//
// Purpose: an adapter reports a dead path by an error, after its own timeout and retries; some fall
// silent instead, and never report. So each queue pair with work whose completion is awaited is
// checked, a few times in the parameter failure_timeout. Any completion is a sign of life. After
// half of that time without one the path is suspect, and probed (recovery/path_probes.h): if the
// peer is heard over other paths and not over this one, the path has failed, by the end of
// failure_timeout. If the path answers, the queue pair may be slow, as it is with long transfers
// over busy links, or its device has lost a packet and sends it again: it gets half as long again
// as both take, plus the time that its bytes take at kSlowest. Then the path is reported as failed,
// too: over RoCE, say, a queue pair sends to the MAC address that it was given when it was
// connected, and datagrams by new handles to that of today. A path that cannot be asked or does not
// answer, and queue pairs that many peers share, which wait behind each other, get kAbsent times as
// long. A path that did not answer for long and answers again, while its queue pair stays silent,
// has failed: some devices never complete what was posted before.
// A queue pair that its adapter can migrate (recovery/apm) survives a failed path; but it is given
// no longer than failure_timeout to complete something.
//
// Absence of this process is not silence of the device: the time between two checks counts as at
// most timeout / kLooks.
// A peer that computes answers nothing over any path; its paths are suspect, and stay in use.
// Writes into a ring are rarely signaled: an empty signaled write is posted behind the unsignaled
// ones.
// Within a host nothing is watched: there completions may take the other process's time.
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
    static constexpr std::int64_t kLooks = 16; // checks in `timeout`
    static constexpr std::int64_t kAbsent = 8;
    static constexpr double kSlowest = 4e6;         // bytes a second
    static constexpr std::uint32_t kUnanswered = 4; // questions without an answer: long

    struct Options {
        Nanoseconds timeout{}; // parameter failure_timeout
        Nanoseconds answer{};  // that devices wait for, before they send again (answer_timeout)
        const Clock* clock = nullptr;
    };
    SilenceWatch(const Options& options, PathRepository& paths)
        : options_(options), paths_(paths) {}

    // Returns true if a check of all peers is due; `posted` changes with each write into rings,
    // behind these, or of credit; `awaited`: stripes are under way.
    bool due(std::uint64_t posted, bool awaited) const {
        return options_.clock->now() >= deadline(posted, awaited);
    }
    // max: nothing is awaited, as far as is known.
    Nanoseconds deadline(std::uint64_t posted, bool awaited) const {
        return paths_.on() && (awaited || busy_ || posted != posted_) ? next_ : Nanoseconds::max();
    }
    // Order of calls: begin_look(); look_at() for each peer; end_look().
    void begin_look(std::uint64_t posted);
    // Returns true if a queue pair of the peer completes nothing any more, so that its connection
    // is to be repaired.
    bool look_at(Peer& peer);
    void end_look() { next_ = options_.clock->now() + options_.timeout / kLooks; }

private:
    bool look_at(Peer& peer, std::size_t pair);
    static bool awaits(const Peer& peer, const Subchannel& subchannel);
    bool is_over(const Peer& peer, std::size_t pair) const;
    static Nanoseconds time_at_slowest(const Subchannel& subchannel);

    Options options_;
    PathRepository& paths_;
    Nanoseconds next_{0};
    Nanoseconds looked_{0};
    Nanoseconds passed_{0}; // since the check before, as far as it counts
    std::uint64_t posted_ = 0;
    bool busy_ = false;
};

} // namespace adaptib
