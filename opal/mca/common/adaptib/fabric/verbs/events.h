// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events of devices, translated to those of the fabric interface.
//
// An event is acknowledged as soon as it is read, because destroying an object waits for that.
// Ownership: the fabric's.  Threads: one.
// May touch: base/, fabric/, libibverbs.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/verbs/device.h"
#include "fabric/verbs/rail.h"

namespace adaptib::verbs {

class EventReader {
public:
    using Rails = std::vector<std::unique_ptr<Rail>>;
    using Devices = std::vector<std::unique_ptr<Device>>;

    // Takes the next event of any device; false: there is none now. Never blocks.
    bool next(const Rails& rails, const Devices& devices, Event& out);
    // Adds an event.
    void report(EventKind kind, std::uint32_t rail) {
        waiting_.push_back({kind, rail, 0, nullptr});
    }

private:
    void read(const Rails& rails, Device& device);
    void take(const Rails& rails, Device& device, const ibv_async_event& event);
    void take_of_queue_pair(const ibv_async_event& event);
    void take_of_port(VerbsRail& rail, ibv_event_type type);
    void look_for_armed(VerbsRail& rail);
    void look_at_suspects(VerbsRail& rail);

    std::deque<Event> waiting_;
};

} // namespace adaptib::verbs
