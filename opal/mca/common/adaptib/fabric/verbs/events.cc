// SPDX-License-Identifier: BSD-3-Clause
// Reads asynchronous events.
#include "fabric/verbs/events.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/invariant.h"
#include "fabric/verbs/qp.h"
#include "fabric/verbs/queues.h"

namespace adaptib::verbs {

namespace {

constexpr int kMostAtOnce = 64; // events that are not reported to the caller
constexpr std::size_t kArmedAtOnce = 16;

bool of_queue_pair(ibv_event_type type) {
    return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
           type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_PATH_MIG ||
           type == IBV_EVENT_PATH_MIG_ERR || type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

bool of_port(ibv_event_type type) {
    return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
           type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_GID_CHANGE ||
           type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_CLIENT_REREGISTER;
}

} // namespace

bool EventReader::next(const Rails& rails, const Devices& devices, Event& out) {
    if (waiting_.empty()) {
        for (const auto& device : devices) {
            read(rails, *device);
        }
        for (const auto& each : rails) {
            auto& rail = static_cast<VerbsRail&>(*each);
            look_for_armed(rail);
            look_at_suspects(rail);
            if (rail.take_broken()) {
                waiting_.push_back({EventKind::device_fatal, rail.index(), 0, nullptr});
            }
            for (const std::uint32_t number : rail.fatal()) {
                waiting_.push_back({EventKind::qp_fatal, rail.index(), number, nullptr});
            }
            rail.fatal().clear();
        }
        for (std::size_t i = 0; i < rails.size() && waiting_.empty(); ++i) {
            auto& rail = static_cast<VerbsRail&>(*rails[i]);
            if (rail.cm_service() != nullptr) {
                rail.cm_service()->progress(waiting_);
            }
        }
    }
    if (waiting_.empty()) {
        return false;
    }
    out = waiting_.front();
    waiting_.pop_front();
    ADAPTIB_INVARIANT(out.rail < rails.size(), "an event names a rail of its fabric", out.rail,
                      rails.size());
    return true;
}

// Stops at the first event that is reported: the object that it names must not end before the
// caller sees the event.
void EventReader::read(const Rails& rails, Device& device) {
    ibv_async_event event{};
    for (int i = 0; i < kMostAtOnce && waiting_.empty() &&
                    device.calls().get_async_event(device.context(), &event) == 0;
         ++i) {
        take(rails, device, event);
        device.calls().ack_async_event(&event);
    }
}

// Not reported: COMM_EST (the first message says more), SQ_DRAINED (SQD is not used), SM_CHANGE
// (the subnet manager is not used), WQ_FATAL (no WQs are created). CLIENT_REREGISTER: a new subnet
// manager may have assigned other LIDs.
void EventReader::take(const Rails& rails, Device& device, const ibv_async_event& event) {
    if (of_queue_pair(event.event_type)) {
        take_of_queue_pair(event);
        return;
    }
    if (event.event_type == IBV_EVENT_CQ_ERR) {
        if (event.element.cq->cq_context != nullptr) {
            static_cast<VerbsCompletionQueue*>(event.element.cq->cq_context)->fail();
        }
        return;
    }
    if (event.event_type == IBV_EVENT_SRQ_ERR || event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
        auto& srq = *static_cast<VerbsSharedReceiveQueue*>(event.element.srq->srq_context);
        if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
            waiting_.push_back({EventKind::srq_limit, srq.rail().index(), 0, &srq});
            return;
        }
        for (VerbsQueuePair* qp : srq.qps()) {
            // A DC target without a number is not in the adapter, so nothing of it can fail.
            if (qp->number() != 0 && qp->fatal()) {
                srq.rail().fatal().push_back(qp->number());
            }
        }
        return;
    }
    if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
        device.lose();
    }
    for (const auto& each : rails) {
        auto& rail = static_cast<VerbsRail&>(*each);
        if (&rail.device() != &device) {
            continue;
        }
        if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
            rail.set_down();
            waiting_.push_back({EventKind::device_fatal, rail.index(), 0, nullptr});
        } else if (of_port(event.event_type) && event.element.port_num == rail.port().number) {
            take_of_port(rail, event.event_type);
        }
    }
}

void EventReader::take_of_queue_pair(const ibv_async_event& event) {
    auto* qp = static_cast<VerbsQueuePair*>(event.element.qp->qp_context);
    if (qp == nullptr) {
        return; // a trial queue pair (VerbsRail::probe)
    }
    const std::uint32_t rail = qp->rail().index();
    switch (event.event_type) {
    case IBV_EVENT_PATH_MIG:
        qp->path_migrated();
        waiting_.push_back({EventKind::path_migrated, rail, qp->number(), nullptr});
        break;
    case IBV_EVENT_PATH_MIG_ERR:
        waiting_.push_back({EventKind::path_migration_error, rail, qp->number(), nullptr});
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (qp->last_state() == QpState::error) {
            break; // no news
        }
        [[fallthrough]];
    default:
        if (qp->fatal()) {
            waiting_.push_back({EventKind::qp_fatal, rail, qp->number(), nullptr});
        }
        break;
    }
}

void EventReader::take_of_port(VerbsRail& rail, ibv_event_type type) {
    switch (type) {
    case IBV_EVENT_PORT_ERR:
        rail.set_down();
        waiting_.push_back({EventKind::port_error, rail.index(), 0, nullptr});
        break;
    case IBV_EVENT_PORT_ACTIVE:
        rail.read_again();
        if (rail.broken()) {
            break;
        }
        waiting_.push_back({EventKind::port_active, rail.index(), 0, nullptr});
        break;
    default:
        rail.read_again();
        waiting_.push_back({EventKind::address_changed, rail.index(), 0, nullptr});
        break;
    }
}

// Each check is a call to the adapter, so only some queue pairs are checked at a time, in turn.
void EventReader::look_for_armed(VerbsRail& rail) {
    std::vector<VerbsQueuePair*>& list = rail.rearming();
    const std::size_t count = std::min(list.size(), kArmedAtOnce);
    std::rotate(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count), list.end());
    const auto asked = list.end() - static_cast<std::ptrdiff_t>(count);
    list.erase(std::remove_if(
                   asked, list.end(),
                   [&](VerbsQueuePair* qp) {
                       if (!qp->armed()) {
                           return false;
                       }
                       waiting_.push_back({EventKind::armed, rail.index(), qp->number(), nullptr});
                       return true;
                   }),
               list.end());
}

void EventReader::look_at_suspects(VerbsRail& rail) {
    for (const VerbsQueuePair* qp : std::exchange(rail.suspects(), {})) {
        if (qp->needs_event()) {
            waiting_.push_back({EventKind::qp_fatal, rail.index(), qp->number(), nullptr});
        }
    }
}

} // namespace adaptib::verbs
