// SPDX-License-Identifier: BSD-3-Clause
// ConnectState and the progress of what is being done with a peer's connection: lane migration,
// measuring, closing, repair, connecting through rdma_cm.
//
// Purpose: the records that connect/ keeps in each peer, one for each of these activities.
// Ownership: the records belong to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, fabric/, peer/work_targets.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "base/wire_connect.h"
#include "fabric/fabric.h"
#include "peer/work_targets.h"

namespace adaptib {

enum class ConnectState : std::uint8_t {
    idle,      // datagrams only
    requested, // this process has sent a request; no reply yet
    answered,  // the peer has sent a request, this process a reply; no confirmation yet
    open,
    closing,   // open, but unused: a close was proposed, or agreed on
    repairing, // a path has failed: nothing is posted until the connection is made anew
    failed,    // nothing can be sent any more
};

// Migration of a connection's control lane (ring and credit) to another subchannel
// (connect/lane_migrations.h).
struct LaneMigration {
    bool active = false;
    bool paused = false; // nothing but transfers is posted
    std::uint32_t to = 0;
    Nanoseconds pause_by{0};
    Flush flush;
};

// State of measuring the peer's paths (connect/path_measurement.h).
struct Measuring {
    bool active = false;          // a measurement is under way
    bool close = false;           // the control lane is in doubt, or new
    std::uint32_t path = 0;       // active: the subchannel being measured
    std::uint32_t sent = 0;       // messages sent, at the last measurement
    std::uint64_t lessons = 0;    // of the scheduler, at that time
    Nanoseconds at{0};            // earliest time of the next
    std::uint32_t more = 0;       // doublings of the usual number of bytes
    std::uint32_t calm = 0;       // consecutive measurements that confirmed the control lane
    std::uint32_t vain = 0;       // consecutive inconclusive measurements
    std::uint32_t proof = 0;      // measurements that a new control lane has yet to pass
    std::uint32_t taken_back = 0; // control lanes that did not pass them
};

// Progress of closing (connect/closings.h).
struct Closing {
    Flush flush;
    bool told = false;        // the peer knows that nothing of this side is under way
    bool agreed = false;      // the peer has reported the same
    std::uint32_t number = 0; // of the last proposal or agreement; grows during the connection
    std::uint32_t heard = 0;  // of the peer's last
    Nanoseconds began{0};
    std::optional<ConnectNote> early; // the peer's, which came before its confirmation
};

// Progress of the repair of a connection (connect/repairs.h).
struct Repair {
    bool active = false;  // from the failure until the connection is open again, or given up
    bool wanted = false;  // begins as soon as the state allows
    bool gentle = false;  // work under way may complete first
    bool improve = false; // a path came back meanwhile
    bool fenced = false;  // nothing of the old connection is outstanding or can touch local memory
    std::uint32_t replaces = 0; // this side's attempt that became the old connection
    std::uint32_t expected = 0; // first message that the peer has not received
    Nanoseconds began{0};
    Nanoseconds ask_at{0};                      // fenced: when to look for paths again
    Nanoseconds failed_at = Nanoseconds::max(); // when queue pairs went to the error state
    Nanoseconds quiet_at{0}; // shared ones: packets of a failed one are gone by then
};

// Connecting of the queue pairs of both sides through rdma_cm, after the reply to a request.
struct PeerCmConnect {
    bool initiates = false; // this side does; the other one waits for it
    Nanoseconds began{0};
    Nanoseconds first_cm_connected = Nanoseconds::max(); // then the others get little time
    std::array<std::byte, sizeof(CmConnectParams::token)> token{};
};

} // namespace adaptib
