// SPDX-License-Identifier: BSD-3-Clause
// ConnectContext: the options, rails, counters, events and listener that the classes of connect/
// share.
//
// Purpose: ConnectOptions, which do not change after construction; ConnectionListener, the owner of
// the connections, which learns of their events (connect/connection_events.h).
// Ownership: the ConnectionManager owns the context; the rest belongs to its owner and outlives it.
// Threads: one at a time.
// May touch: base/, channel/, fabric/, peer/, recovery/, schedule/, stats/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "base/severity.h"
#include "base/sharing.h"
#include "base/status.h"
#include "channel/shared_queue_pairs.h"
#include "connect/connection_events.h"
#include "fabric/fabric.h"
#include "peer/peer.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/liveness.h"
#include "schedule/scheduler.h"
#include "stats/counters.h"

namespace adaptib {

// Questions and registrations that the classes of connect/ make in the middle of their work. None
// leads back into that work:
//   * is_usable changes nothing;
//   * choose_pairs and take_pairs change the route; goes_without notes how long that is, and writes
//     a notice;
//   * the rings' changes only change the core's list of rings to poll, which has to hold a ring
//     exactly as long as there is one;
//   * a path that could not be connected is noted, and suspect at most, at which the core does
//     nothing more. is_usable has to know before the next path is chosen.
class DirectConnectionListener {
public:
    // Returns true if the connection may use the path, by its number in PeerRoute::pairs: it has
    // not failed, or all have and its rail is up.
    virtual bool is_usable(const Peer& peer, std::size_t pair) = 0;
    // Chooses which pairs of rails a connection joins that this side is about to request: others
    // than before, if none of those works. Returns false if they stay. REQUIRES: the peer has no
    // queue pairs, except from the pool.
    virtual bool choose_pairs(Peer& peer) = 0;
    // Takes the pairs of the peer's request. Returns false if these are the ones that there are.
    virtual bool take_pairs(Peer& peer, const ConnectBody& request) = 0;
    // Returns true if the peer goes without a connection for now, since its queue pairs carry
    // nothing where datagrams pass (PeerConnection::without). `told`: the peer says so.
    virtual bool goes_without(Peer& peer, bool told) = 0;
    virtual void on_ring_offered(Peer& peer) = 0;   // poll peer.in.ring from now on
    virtual void on_ring_withdrawn(Peer& peer) = 0; // before it is freed
    // The queue pair of that path could not be connected; the connection does without it.
    virtual void on_path_unconnected(Peer& peer, std::size_t pair, const std::string& why) = 0;

protected:
    ~DirectConnectionListener() = default;
};

// The owner of the connections. All that it acts on reaches it as an event.
class ConnectionListener : public DirectConnectionListener, public ConnectionEventHandler {
protected:
    ~ConnectionListener() = default;
};

// Times of measuring a peer's paths (path_measurement.h).
struct MeasureOptions {
    std::uint32_t messages = 256;     // sent to the peer since the last measurement
    Nanoseconds every{1'000'000'000}; // at most; less often while nothing is found
    Nanoseconds again{10'000'000};    // while the control lane is in doubt
};

// Order in which the packets of a write into this process's memory become visible.
enum class Placement : std::uint8_t { as_device_says, in_order, any_order };

struct ConnectOptions {
    std::uint64_t self = 0;
    std::uint64_t key = 0; // the key that this process publishes
    std::uint64_t ring_max = 0;
    Placement placement = Placement::as_device_says;
    bool ring_check = false;        // posted messages to peers carry a checksum
    std::uint64_t connect_max = 0;  // 0: no limit but the device's
    std::uint64_t connect_pool = 0; // closed connections whose queue pairs and rings are kept
    bool fault_tolerance = false;   // broken connections are repaired
    Nanoseconds failure_timeout{1'000'000'000};
    std::uint8_t answer_timeout = 18; // of queue pairs, in their encoding
    std::uint8_t answer_retries = 6;
    const Liveness* liveness = nullptr; // of peers that a repair or rdma_cm waits for
    Witness* witness = nullptr;
    SchedulerOptions scheduler; // only policies that exist
    const Clock* clock = nullptr;
    const AttendedClock* attended = nullptr; // for repairs and rdma_cm
    Random* random = nullptr;
    MigrationAgent* migration = nullptr; // null: none
    Sharing sharing = Sharing::never;
    SharedQueuePairs* shared = nullptr; // null: none
    // Minimum idle time before a chosen connection is closed for one that is not chosen.
    Nanoseconds chosen_idle{100'000'000};
    MeasureOptions measure;
    MessageFunction message = [](Severity, const std::string&) {}; // to people
    // Pause before a peer that was refused queue pairs of its own may be chosen for them again;
    // doubled for each consecutive refusal.
    Nanoseconds own_pause{1'000'000'000};
};

struct ConnectContext {
    const ConnectOptions options;
    const RailList rails;
    const std::span<const std::unique_ptr<CompletionQueue>> cqs; // of each rail's queue pairs
    Counters& counters;
    ConnectionEvents& events;
    DirectConnectionListener& listener;

    // `shared`: peers write over the rail's DC target.
    bool places_in_order(std::uint32_t rail, bool shared) const {
        const RailInfo& info = rails[rail]->info();
        const bool says = shared ? info.target_places_in_order : info.places_in_order;
        return options.placement == Placement::as_device_says
                   ? says
                   : options.placement == Placement::in_order;
    }
    // Returns the longest message that a queue pair of the rail takes inline.
    Bytes inline_bytes(std::uint32_t rail) const {
        return std::min(kRingInline, rails[rail]->info().inline_bytes);
    }
};

} // namespace adaptib
