// SPDX-License-Identifier: BSD-3-Clause
// Events: what happens to the rails, queue pairs and peers of a fabric (Fabric::poll_event).
// Threads: value types.
// May touch: nothing.
#pragma once

#include <cstdint>

namespace adaptib {

class SharedReceiveQueue;

enum class EventKind : std::uint8_t {
    port_active,
    port_error,
    address_changed, // LID, GID or partition may have changed: Rail::address()
    qp_fatal,
    path_migrated,
    path_migration_error,
    armed, // a loaded alternate path is ready
    srq_limit,
    device_fatal,    // the rail's device fails, or is removed
    device_restored, // it is back: the rail's queue pairs have to be made anew, and have no peer
    cm_connected,    // QueuePair::cm_connect has succeeded
    cm_failed,       // it has failed; Rail::last_error_text() says why until the next poll_event
    peer_changed,    // a peer is gone or refuses this process: AddressHandle::standing() tells
};

struct Event {
    EventKind kind = EventKind::port_active;
    std::uint32_t rail = 0;      // index into Fabric::rails
    std::uint32_t qp_number = 0; // events of queue pairs
    SharedReceiveQueue* srq = nullptr;
};

} // namespace adaptib
