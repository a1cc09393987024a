// SPDX-License-Identifier: BSD-3-Clause
// CoreEnvironment: time, randomness, addresses and messages to people, which come to a core from
// outside, and the place of its process in the job.
//
// Ownership: the caller's; all that is pointed to outlives the core.
// May touch: base/, connect/, memory/, stats/, base/severity.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/biased_lock.h"
#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/process_name.h"
#include "base/random.h"
#include "base/severity.h"
#include "base/wire.h"
#include "connect/connect_context.h"
#include "memory/gather_costs.h"
#include "protocol/lost_peers.h"
#include "stats/counters.h"

namespace adaptib {

struct CoreEnvironment {
    std::uint64_t self = 0;
    std::uint32_t local_rank = 0; // among the job's processes of this host
    std::uint32_t local_processes = 1;
    std::string host;
    std::string left_out; // why there are no other fabrics; for messages on unreachable peers
    std::uint16_t wire_version = kWireVersion; // another one only to test the refusal
    Bootstrap* bootstrap = nullptr;
    const Clock* clock = nullptr;
    Random* random = nullptr;
    Counters* counters = nullptr;
    MessageFunction message;
    // The cores of one process ask it, so that one of them tells the user. Empty: each break is
    // news.
    LostPeers::IsNews is_news;
    const BiasedLock* lock = nullptr; // taken by all that call the core; null: one thread calls
    bool maps_sources = false;        // record messages by source and time, for Core::source_map()
    const bool* yields = nullptr;     // the process yields its CPU when it found nothing; null: no
    // Idle passes at most this far apart (base/spin.h) show that the caller does nothing but
    // wait.
    std::uint64_t tight_ticks = 250;
    bool timed = false; // the clock is the machine's, so costs can be measured with it
    // Costs of copied and gathered messages. Empty: measured if `timed`, else assumed.
    std::function<GatherCosts()> gather_costs;
    // Returns true if ExposedMemory::forget() will be called for memory that is unmapped.
    // Called if registrations are to be cached, before a device's fabric has threads. Empty: no.
    std::function<bool()> watch_memory;
    // Called before memory is registered that is going to stay so. Returns false if forget() will
    // not be called for all memory any more; may call it. Empty: nothing changes.
    std::function<bool()> still_watches_memory;
    MeasureOptions measure;

    // Returns true for the first endpoint of the job's first process.
    bool is_first_process() const { return rank_of(self) == 0 && endpoint_of(self) == 0; }
};

} // namespace adaptib
