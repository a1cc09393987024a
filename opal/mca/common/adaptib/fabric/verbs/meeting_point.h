// SPDX-License-Identifier: BSD-3-Clause
// Where queue pairs of a rail meet those of others (QueuePair::meet) through a connection service.
//
// Purpose: what the rail, its queue pairs and its events know of such a service; rdma_cm.cc is the one there is.
// Ownership: the rail's; it forgets a queue pair before that ends.  Threads: one.
// May touch: base/, fabric/.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/status.h"
#include "fabric/fabric.h"
#include "fabric/verbs/port.h"

namespace adaptib::verbs {

struct RdmaCmCalls;
class VerbsQueuePair;
class VerbsRail;

class MeetingPoint {
public:
    virtual ~MeetingPoint() = default;
    virtual const WireMeetingPoint& address() const = 0;
    // Begins the next try of a queue pair that knows what it wants (VerbsQueuePair::wanted).
    virtual void meet(VerbsQueuePair& qp, const Meeting& meeting) = 0;
    virtual void forget(const VerbsQueuePair& qp) = 0;
    // Takes what has happened, no further than to the first event that is to be told. Never blocks.
    virtual void progress(std::deque<Event>& out) = 0;
};

// Errors: no_device (the port has no IP address, the kernel no rdma_cm), no_permission, no_memory,
// not_supported (built without librdmacm); error_text goes on behind the rail's name.
Status open_rdma_cm(VerbsRail& rail, const RdmaCmCalls& calls, std::unique_ptr<MeetingPoint>& out,
                    std::string& error_text);

} // namespace adaptib::verbs
