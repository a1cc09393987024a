// SPDX-License-Identifier: BSD-3-Clause
#include "interface/incident_delivery.h"

#include <cstdint>
#include <vector>

#include "base/process_name.h"
#include "interface/handle.h"

namespace adaptib {

namespace {

opal_common_adaptib_incident_t told(const Incident& incident, std::uint32_t endpoint) {
    const bool of_peer = incident.peer != Incident::kNoPeer;
    return {.kind = static_cast<std::uint32_t>(incident.kind),
            .endpoint = endpoint,
            .rank = of_peer ? static_cast<std::int32_t>(rank_of(incident.peer)) : -1,
            .job = of_peer ? static_cast<std::int32_t>(spawned_job_of(incident.peer)) : -1,
            .rail = incident.rail != Incident::kNoRail ? std::int32_t{incident.rail} : -1,
            .lasted_ns = static_cast<std::uint64_t>(incident.lasted.count())};
}

} // namespace

IncidentDelivery::IncidentDelivery(opal_common_adaptib_core& endpoint, Counters& counters)
    : endpoint_(endpoint), queue_(counters, [this] { return schedule(); }) {
    request_.owner = this;
    request_.complete = [](opal_common_adaptib_request_t* request) {
        static_cast<Request*>(request)->owner->deliver();
    };
}

// Returns false while the endpoint is being opened.
bool IncidentDelivery::schedule() {
    if (endpoint_.protocol == nullptr) {
        return false;
    }
    endpoint_.protocol->completed().push(request_);
    return true;
}

void IncidentDelivery::deliver() {
    std::vector<Incident> incidents;
    {
        const Guard guard(&endpoint_, false);
        incidents = queue_.take();
    }
    const opal_common_adaptib_environment_t& environment = endpoint_.process.environment();
    for (const Incident& incident : incidents) {
        const opal_common_adaptib_incident_t one = told(incident, endpoint_.index);
        environment.incident(environment.context, &one);
    }
}

} // namespace adaptib
