// SPDX-License-Identifier: BSD-3-Clause
// FabricEvents: takes the fabrics' events and notices, and acts on them.
//
// Purpose: a rail goes down or comes up, changes its address, loses its target; a queue pair fails
// without a completion; paths migrate; connections through rdma_cm proceed; peers go. Each event
// goes to the part of the core that it concerns. Polled now and then.
// Threads: one at a time (the core's lock).
// May touch: every folder of the core.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/severity.h"
#include "base/units.h"
#include "channel/shared_queue_pairs.h"
#include "connect/connection_manager.h"
#include "core/attached_fabric.h"
#include "core/datagram_paths.h"
#include "core/departures.h"
#include "core/peer_directory.h"
#include "fabric/rail.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/completion_filter.h"
#include "recovery/path_repository.h"
#include "stats/counters.h"
#include "stats/run_history.h"

namespace adaptib {

class FabricEvents {
public:
    // The parts of the core that events concern.
    struct Parts {
        std::vector<AttachedFabric>& fabrics;
        RailList rails;
        SharedQueuePairs* shared; // null: none
        PathRepository& paths;
        MigrationAgent* migration; // null: none
        DatagramPaths& datagram_paths;
        ConnectionManager& connections;
        PeerDirectory& peers;
        Departures& departures;
        Protocol& protocol;
        PathListener& path_failures;
        const Counters& counters;
    };
    FabricEvents(std::string host, MessageFunction message, const Parts& parts)
        : host_(std::move(host)), message_(std::move(message)), parts_(parts) {}

    static constexpr Nanoseconds kEvery{10'000'000}; // between two polls by run_timers()

    void poll();
    // Polls if that is due: passes may be long, so events do not wait for housekeeping.
    void run_timers(Nanoseconds now) {
        if (now >= poll_at_) {
            poll_at_ = now + kEvery;
            poll();
        }
    }
    // Passes the fabrics' notices on; there may be some only once there is a peer.
    void report_notices();

private:
    void poll(AttachedFabric& attached);
    void report_notices(AttachedFabric& attached);
    void note(IncidentKind kind, std::uint32_t rail) const {
        note_incident(parts_.counters, {.kind = kind, .rail = static_cast<std::uint8_t>(rail)});
    }
    std::string device_of(std::uint32_t rail) const;
    void report_lost(const AttachedFabric& attached, std::uint32_t rail);
    void on_device_restored(AttachedFabric& attached, std::uint32_t rail);
    void fail_peers_on(std::uint32_t rail);
    void fail_loopbacks_on(std::uint32_t rail);
    bool renew_target(std::uint32_t rail, std::uint32_t qp_number);
    void on_address_changed(AttachedFabric& attached, std::uint32_t rail);
    void on_renumbered(AttachedFabric& attached, std::uint32_t rail);

    std::string host_; // of this process
    MessageFunction message_;
    Parts parts_;
    Nanoseconds poll_at_{0};
    std::vector<std::string> lost_; // devices that are away
};

} // namespace adaptib
