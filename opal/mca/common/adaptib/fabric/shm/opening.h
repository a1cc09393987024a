// SPDX-License-Identifier: BSD-3-Clause
// Opens the file of a peer's segment; tries two ways in turn.
//
// Purpose: /proc/<pid>/fd comes first, because it needs no help of the peer. Where the system
// refuses it (another user namespace, a process that is not dumpable, a /proc that hides it), the
// peer's DescriptorServer is asked. A mapped file needs neither again, except to grow the queue's
// ring.
// Threads: functions without state.
// May touch: base/, obstacle.h, process.h, segment_address.h, descriptor_server.h.
#pragma once

#include "base/status.h"
#include "fabric/shm/obstacle.h"
#include "fabric/shm/segment_address.h"

namespace adaptib::shm {

// Returns true if the process has a server that this process finds by its name. In another network
// namespace the name may be a stranger's, who would learn the request key.
bool can_ask_server(const WireAddress& wire);

// `fd` becomes the caller's. Errors: peer_gone; no_permission; no_memory (a later try may succeed);
// unreachable. `obstacle` says more about all but the first.
Status open_segment_of(const WireAddress& wire, int& fd, Obstacle& obstacle);

} // namespace adaptib::shm
