// SPDX-License-Identifier: BSD-3-Clause
// RepairSteps: takes the steps of repairs (connect/repairs.h says when each is due), and those on
// which both sides have to agree.
//
// A queue pair of its own can be moved to the error state, or destroyed: then none of its work is
// under way. A shared one is drained instead (connect/shared_draining.h). If it does not complete
// its work in time, or if it has failed, all its users give it up, and each has its connection made
// anew. A healthy shared queue pair is never failed for a repair that the other side wants, so that
// failures do not spread.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, memory/, peer/, stats/.
#pragma once

#include <cstdint>

#include "base/wire_connect.h"
#include "connect/closings.h"
#include "connect/connect_context.h"
#include "connect/connection_resources.h"
#include "connect/handshake_messages.h"
#include "connect/lane_migrations.h"
#include "connect/offered_rings.h"
#include "connect/path_measurement.h"
#include "connect/queue_pairs.h"
#include "connect/repairs.h"

namespace adaptib {

class RepairStepsListener {
public:
    // This side is fenced, and the other side has requested the connection anew: the request can be
    // accepted.
    virtual void on_kept_request(Peer& peer, const ConnectBody& request) = 0;

protected:
    ~RepairStepsListener() = default;
};

class RepairSteps final : public RepairListener {
public:
    struct Parts {
        QueuePairs& queue_pairs;
        OfferedRings& offered_rings;
        ConnectionResources& resources;
        HandshakeMessages& messages;
        Closings& closings;
        LaneMigrations& lane_migrations;
        SharedDraining& draining;
        Repairs& repairs;
        PathMeasurement& measurement;
    };
    RepairSteps(const ConnectContext& context, const Parts& parts, RepairStepsListener& listener)
        : context_(context), parts_(parts), listener_(listener) {}

    // Waits for a path: no path is usable for both sides; each looks for one independently.
    void wait_for_path(Peer& peer);
    // Takes the other side's word that it is fenced, and lacks this side's messages from `expected`
    // on. REQUIRES: the repair is active; the other side has fenced; what it had stored in the ring
    // is taken.
    void take_over(Peer& peer, std::uint32_t expected);
    // Destroys the queue pairs of the peer, which do not complete their work. Called from
    // ConnectionEventHandler::on_abandoned, since completions from before must not be taken, nor
    // any other event handled, in between.
    void abandon(Peer& peer);
    // Called when the connection is open again.
    void end(Peer& peer);

private:
    void on_repair_begins(Peer& peer) override;
    void on_repair_late(Peer& peer) override;
    void on_repair_quiet(Peer& peer) override;
    void on_repair_fenced(Peer& peer) override;
    void on_repair_ready(Peer& peer) override;
    void destroy_initiators(Peer& peer);
    void drop_ring_writer(Peer& peer);

    const ConnectContext& context_;
    const Parts parts_;
    RepairStepsListener& listener_;
};

} // namespace adaptib
