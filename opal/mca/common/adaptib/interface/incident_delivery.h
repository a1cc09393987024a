// SPDX-License-Identifier: BSD-3-Clause
// IncidentDelivery: hands the incidents of an endpoint to the environment (common_adaptib.h).
//
// Purpose: those who hear of an incident may call MPI, so they are called without the endpoint's
// lock. They are called where completed requests are reported: a request of its own, which the
// queue puts among the completed ones, brings that about, so that progress asks for nothing more.
// Threads: the queue with the endpoint's lock; the delivery without.
// May touch: every folder of the core; no header of Open MPI.
#pragma once

#include "common_adaptib.h"
#include "stats/counters.h"
#include "stats/incident_queue.h"

namespace adaptib {

class IncidentDelivery {
public:
    IncidentDelivery(opal_common_adaptib_core& endpoint, Counters& counters);
    IncidentDelivery(const IncidentDelivery&) = delete;
    IncidentDelivery& operator=(const IncidentDelivery&) = delete;

    IncidentQueue& queue() { return queue_; }

private:
    struct Request : opal_common_adaptib_request_t {
        IncidentDelivery* owner;
    };

    bool schedule();
    void deliver();

    opal_common_adaptib_core& endpoint_;
    IncidentQueue queue_;
    Request request_{};
};

} // namespace adaptib
