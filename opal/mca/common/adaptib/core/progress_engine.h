// SPDX-License-Identifier: BSD-3-Clause
// ProgressEngine: the passes that move a core forward (core/core.h gives their order).
//
// Purpose: most passes find nothing, or only messages in rings; those take a few instructions.
// Every kTimersEvery passes timers run. Owns the parts that only passes move: the rings with the
// delivery of their messages and the return of credit, departures, the fabrics' events, timers.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "connect/connection_manager.h"
#include "core/attached_fabrics.h"
#include "core/channel_selection.h"
#include "core/contacts.h"
#include "core/core_environment.h"
#include "core/credit_return.h"
#include "core/datagram_paths.h"
#include "core/delivery.h"
#include "core/departures.h"
#include "core/fabric_events.h"
#include "core/peer_directory.h"
#include "core/process_watch.h"
#include "core/ring_poller.h"
#include "core/startup.h"
#include "core/timers.h"
#include "protocol/protocol.h"
#include "select/cost_meter.h"

namespace adaptib {

class ProgressEngine {
public:
    struct Options {
        std::uint32_t idle_looks = 0; // RingPoller's
        Nanoseconds failure_timeout{0};
        Nanoseconds answer_time{0}; // answer_timeout, as devices have it
    };
    // The parts of the core that it moves, or hands to its own.
    struct Parts {
        AttachedFabrics& fabrics;
        const AttendedClock& attended;
        SharedQueuePairs* shared; // null: none
        PathRepository& paths;
        MigrationAgent* migration; // null: none
        DatagramPaths& datagram_paths;
        Contacts& contacts;
        ProcessWatch& watch;
        PathProbes& probes;
        PeerDirectory& peers;
        ConnectionManager& connections;
        Protocol& protocol;
        Startup& startup;
        ChannelSelection& selection;
        CostMeter* meter; // null: costs are the model's
        PathListener& path_failures;
    };
    ProgressEngine(const Options& options, const CoreEnvironment& environment, const Parts& parts);
    ProgressEngine(const ProgressEngine&) = delete;
    ProgressEngine& operator=(const ProgressEngine&) = delete;

    // One pass. Returns the number of events. `again`: the caller only waits, so an idle pass may
    // take longer (RingPoller::look_again).
    std::size_t progress(bool again);
    // Takes completions of connected queue pairs, a few of each rail. Returns their number.
    std::size_t poll_completions();
    // The peer's ring is polled in each pass from now on.
    void heat(Peer& peer) { rings_.heat(peer, tick_); }

    RingPoller& rings() { return rings_; }
    const RingPoller& rings() const { return rings_; }
    Delivery& delivery() { return delivery_; }
    Departures& departures() { return departures_; }
    FabricEvents& events() { return events_; }
    Timers& timers() { return timers_; }
    const Timers& timers() const { return timers_; }

private:
    static constexpr std::uint64_t kTimersEvery = 64; // passes

    std::size_t pass(bool again);
    std::size_t pass_with_timers(bool again);
    bool is_idle() const;
    bool others_idle() const;
    bool nothing_else() const;
    std::size_t look_after_others(bool idle);
    void handle_peer_events();
    std::size_t poll_datagrams();
    std::size_t time_channels();
    void housekeeping();
    void keep_alive();

    std::uint64_t tick_ = 0;
    std::uint64_t timers_at_ = kTimersEvery; // tick_ of the next pass that runs them
    std::uint64_t keep_alive_at_ = 0;        // not before this tick
    std::span<AttachedFabric> fabrics_;
    Protocol& protocol_;
    ConnectionManager& connections_;
    PeerDirectory& peers_;
    ChannelSelection& selection_;
    CostMeter* meter_; // null: costs are the model's
    const Clock& clock_;
    Delivery delivery_;
    CreditReturn credit_;
    RingPoller rings_;
    Departures departures_;
    FabricEvents events_;
    Timers timers_;
};

} // namespace adaptib
