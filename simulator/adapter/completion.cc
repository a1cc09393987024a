// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and their events (IBA vol. 1, 11.4.2).
#include "engine.h"

namespace adaptib::hca {
namespace {

void overrun(CompletionQueue& cq) {
    cq.overrun = of(cq.ex.context)->device->description->rule(Rule::cq_overrun) != 0;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = public_cq(cq);
    of(cq.ex.context)->events.push(event);
}

} // namespace

void complete(CompletionQueue& cq, const Completion& completion, bool solicited) {
    if (cq.overrun) {
        return;
    }
    if (cq.entries.size() >= static_cast<std::size_t>(cq.ex.cqe)) {
        overrun(cq);
        return;
    }
    cq.entries.push_back(completion);
    cq.entries.back().nanoseconds = static_cast<std::uint64_t>(now_ns());
    cq.count.store(static_cast<unsigned>(cq.entries.size()));
    const bool notify =
        cq.armed && (!cq.solicited_only || solicited || completion.wc.status != IBV_WC_SUCCESS);
    if (notify && cq.ex.channel != nullptr) {
        cq.armed = false;
        of(cq.ex.channel)->events.push(&cq);
    }
}

bool take(CompletionQueue& cq, Completion& completion) {
    if (cq.entries.empty()) {
        return false;
    }
    completion = cq.entries.front();
    cq.entries.pop_front();
    cq.count.store(static_cast<unsigned>(cq.entries.size()));
    if (completion.sender != nullptr) {
        completion.sender->release(completion.places);
    }
    return true;
}

} // namespace adaptib::hca
