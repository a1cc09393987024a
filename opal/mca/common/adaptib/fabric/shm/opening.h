// SPDX-License-Identifier: BSD-3-Clause
// Opening the file of a peer's segment: the ways, tried in turn.
//
// Purpose: /proc/<pid>/fd first, which takes no help of the peer's. Where the system refuses that
// (another user namespace, a process that is not dumpable, a /proc that hides it), the peer's
// DescriptorServer is asked. A file that has been mapped needs neither again, but for growing.
// Threads: functions without state.
// May touch: base/, obstacle.h, process.h, segment_address.h, descriptor_server.h.
#pragma once

#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/shm/obstacle.h"
#include "fabric/shm/segment_address.h"

namespace adaptib::shm {

// `fd` is the caller's. Errors: peer_gone; no_permission; no_memory: may go better later;
// unreachable. `obstacle` says more of all but the first.
Status open_segment_of(const WireAddress& wire, int& fd, Obstacle& obstacle);

} // namespace adaptib::shm
