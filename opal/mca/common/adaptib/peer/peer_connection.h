// SPDX-License-Identifier: BSD-3-Clause
// PeerConnection: the part of a Peer for the handshake, the limits, the pool and the closing of its
// connection (connect/).
//
// Ownership: the part belongs to the Peer. Threads: one at a time (the core's lock).
// May touch: base/, channel/, fabric/, peer/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "base/units.h"
#include "base/wire_connect.h"
#include "channel/ring_writer.h"
#include "fabric/fabric.h"
#include "peer/activity.h"
#include "peer/connect_events.h"
#include "peer/connection.h"
#include "peer/work_targets.h"

namespace adaptib {

// What the pool keeps of the last connection, besides the ring's memory.
struct KeptConnection {
    std::vector<std::unique_ptr<QueuePair>> queue_pairs; // by path
    ListLink<Peer> link;                                 // linked while in the pool
    bool reused = false;                                 // by the connection that is coming up
};

// The peer goes without a connection until then: its queue pairs carry nothing, but datagrams pass.
// Written by ConnectionReactions::goes_without alone.
struct WithoutConnection {
    Nanoseconds until{0};
    std::uint32_t times = 0; // that this was so
};

struct PeerConnection {
    explicit PeerConnection(Peer& peer) : ring_work(peer), closing_flush(peer, closing.flush) {}

    std::uint32_t number = 0;        // of this side's attempt
    std::uint32_t remote_number = 0; // of the peer's attempt that was answered
    bool shared = false;             // the subchannels' queue pairs are SharedQueuePairs
    std::uint64_t access_key = 0;    // if so: the peer's
    std::uint8_t key_epoch = 0;      // the peer's: its earlier keys mean nothing
    QuietWork quiet_work;            // if so
    RingTarget remote_ring;          // the ring that out.ring writes into, 0 units: none offered
    RingWork ring_work;              // of out.ring
    std::unique_ptr<RingWriter> ring_closing;   // out.ring, while closing
    std::unique_ptr<ConnectBody> early_request; // came before the last one was over
    std::uint32_t handshakes_owed = 0;          // bit by MessageType
    ListLink<Peer> owing_link; // linked while a handshake message could not be sent yet
    std::uint32_t refusal = 0; // RefusalReason of the last
    PeerCmConnect cm_connect;
    ListLink<Peer> cm_connect_link; // linked while queue pairs connect through rdma_cm
    PeerActivity activity;
    ListLink<Peer> slot_link;     // linked while it occupies a connection
    ListLink<Peer> wanted_link;   // linked while it waits for a connection
    ListLink<Peer> yielding_link; // linked while it yields
    KeptConnection kept;
    WithoutConnection without;
    Closing closing;
    FlushWork closing_flush;
    ListLink<Peer> closing_link; // linked while state is closing
    PeerConnectEvents events;
};

} // namespace adaptib
