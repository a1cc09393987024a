// SPDX-License-Identifier: BSD-3-Clause
// Point where queue pairs of a rail connect with those of others (QueuePair::cm_connect) through a
// connection service.
//
// Purpose: everything that the rail, its queue pairs and its events know of such a service.
// rdma_cm.cc is the only one.
// Ownership: the rail's; it forgets a queue pair before the queue pair ends.  Threads: one.
// May touch: base/, fabric/.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/status.h"
#include "fabric/event.h"
#include "fabric/qp_attributes.h"
#include "fabric/verbs/port.h"

namespace adaptib::verbs {

struct RdmaCmCalls;
class VerbsQueuePair;
class VerbsRail;

class CmService {
public:
    virtual ~CmService() = default;
    virtual const WireCmAddress& address() const = 0;
    // Begins the next attempt of a queue pair, with the attributes of VerbsQueuePair::wanted.
    virtual void cm_connect(VerbsQueuePair& qp, const CmConnectParams& params) = 0;
    virtual void forget(const VerbsQueuePair& qp) = 0;
    // Handles pending events of the service, up to the first one that the caller must be told.
    // Never blocks.
    virtual void progress(std::deque<Event>& out) = 0;
};

// Errors: no_device (the port has no IP address, or the kernel no rdma_cm), no_permission,
// no_memory, not_supported (built without librdmacm); error_text continues a sentence that begins
// with the rail's name.
Status open_rdma_cm(VerbsRail& rail, const RdmaCmCalls& calls, std::unique_ptr<CmService>& out,
                    std::string& error_text);

} // namespace adaptib::verbs
