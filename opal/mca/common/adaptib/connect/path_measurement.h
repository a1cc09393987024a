// SPDX-License-Identifier: BSD-3-Clause
// PathMeasurement: measures the rates of the ports to a peer now and then, for programs that stripe
// nothing: short messages go over one port only, that of the control lane, and teach nothing about
// the others (schedule/control_lane.h).
//
// A peer with several ports is due when so many messages went to it (MeasureOptions) and no stripe
// has taught anything about its paths meanwhile. Then each port has its turn, one after the other:
// an empty write, and some of kMeasureBytes right behind it, into memory that the peer offers for
// this. The time from the completion of the first to that of the last is what the bytes take,
// whatever was posted before. Completions are seen when the program polls for them: the true time
// lies between two limits. If these are far apart the measurement is void, and the next one uses
// more bytes, for a program that polls seldom.
//
// A control lane in doubt is measured again soon, and is left after a few measurements. An idle
// port may promise more than it keeps (a shaper's credit, links that others use now and then): so
// the new lane is measured closely for a while, and may be revoked; after each revocation the next
// try comes later.
//
// A process measures one peer at a time. A connection is not closed while it is measured. Peers
// that are silent, have one port, store into rings (shared memory) or share queue pairs (DC) are
// not measured.
// Errors: a path that fails is found out as by any other work; the measurement is given up.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/, schedule/, stats/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/intrusive_list.h"
#include "base/work_target.h"
#include "connect/connect_context.h"
#include "connect/control_lanes.h"
#include "connect/lane_migrations.h"

namespace adaptib {

class PathMeasurement final : private WorkTarget {
public:
    PathMeasurement(const ConnectContext& context, ControlLanes& lanes, LaneMigrations& migrations)
        : context_(context), lanes_(lanes), migrations_(migrations) {}

    // Measures the peer's paths from now on, if that can be. REQUIRES: the peer is open.
    void add(Peer& peer);
    // Called when the peer's queue pairs are not used any more.
    void stop(Peer& peer);
    // Begins a measurement if one is due.
    void begin_some() {
        if (!measured_.empty() && context_.options.clock->now() >= begin_at_) [[unlikely]] {
            begin();
        }
    }
    // Returns true if completions are awaited that must be polled for often.
    bool active() const { return current_.peer != nullptr; }
    // Called after each poll for completions.
    void on_polled() {
        if (active()) [[unlikely]] {
            current_.polled = context_.options.clock->now();
        }
    }

private:
    // Measurement of one path after the other of a peer.
    struct Measurement {
        Peer* peer = nullptr; // null: nothing is measured
        std::vector<SubchannelStats> up;
        std::size_t at = 0;        // index into `up` of the path being measured
        std::uint32_t parts = 0;   // writes with data
        std::uint32_t awaited = 0; // completions
        bool vain = false;         // the result is unusable
        bool begun = false;        // the empty write has completed
        Nanoseconds posted{0};
        Nanoseconds polled{0};       // when completions were last polled for
        Nanoseconds begun_after{0};  // the empty write was not complete yet ...
        Nanoseconds begun_by{0};     // ... and was
        std::vector<PortRate> rates; // results; bytes a second
    };
    void on_work_done(std::uint32_t rail, const WorkCompletion& completion) override;
    bool is_due(Peer& peer, Nanoseconds now) const;
    void begin();
    void next();
    bool post(Peer& peer, std::uint32_t index);
    void note_rate(Nanoseconds least, Nanoseconds most);
    void end();

    Measurement current_;
    const ConnectContext& context_;
    ControlLanes& lanes_;
    LaneMigrations& migrations_;
    std::vector<SubchannelStats> subchannel_stats_; // scratch
    Nanoseconds begin_at_{0};
    IntrusiveList<Peer, &Peer::control, &PeerControlLane::measure_link> measured_;
};

} // namespace adaptib
