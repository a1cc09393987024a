// SPDX-License-Identifier: BSD-3-Clause
// Completion queues and their events (IBA vol. 1, 11.4.2).
#include "engine.h"

namespace adaptib::hca {
namespace {

void overrun(CompletionQueue& cq) {
    cq.overrun = true;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = public_cq(cq);
    of(cq.ex.context)->events.push(event);
}

} // namespace

void complete(CompletionQueue& cq, const ibv_wc& wc, bool solicited) {
    if (cq.overrun) {
        return;
    }
    if (cq.entries.size() >= static_cast<std::size_t>(cq.ex.cqe)) {
        overrun(cq);
        return;
    }
    cq.entries.push_back({wc, static_cast<std::uint64_t>(now_ns())});
    cq.count.store(static_cast<unsigned>(cq.entries.size()));
    const bool notify =
        cq.armed && (!cq.solicited_only || solicited || wc.status != IBV_WC_SUCCESS);
    if (notify && cq.ex.channel != nullptr) {
        cq.armed = false;
        of(cq.ex.channel)->events.push(&cq);
    }
}

} // namespace adaptib::hca
