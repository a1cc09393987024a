// SPDX-License-Identifier: BSD-3-Clause
// Checks of a rail against a rail of another process.
//
// Purpose: each function is one check. Both processes call it at the same time, one of them as the
// initiator. It returns this process's outcome, or throws Failed or PartnerEnded. Together they
// cover what adaptib relies on in a device (fabric/README.md of the core), and what differs from
// one adapter to another.
// Threads: one.
// May touch: fabric/, the other headers of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "selftest/link.h"
#include "selftest/outcome.h"
#include "selftest/partner.h"

namespace adaptib::selftest {

struct Context {
    Fabric& fabric;
    Rail& rail;
    const RemoteRail& remote;
    Partner& partner;
    bool initiator = false;
    std::uint32_t path = 0;
};

struct Check {
    const char* name;
    std::function<Outcome(Context&)> run;
};

// Data sent, written and read over one path. Run for each path by itself.
Outcome check_path(Context& context);
// The others, in the order in which they run.
const std::vector<Check>& checks();

// checks_data.cc
Outcome check_placement(Context& context);
Outcome check_write_order(Context& context);
Outcome check_immediate(Context& context);
Outcome check_limits(Context& context);
Outcome check_depth(Context& context);
Outcome check_atomics(Context& context);
// checks_datagrams.cc
Outcome check_datagrams(Context& context);
Outcome check_address_handles(Context& context);
Outcome check_round_trip(Context& context);
// checks_errors.cc
Outcome check_wrong_key(Context& context);
Outcome check_not_ready(Context& context);
Outcome check_lost_peer(Context& context);
// checks_features.cc
Outcome check_shared_receives(Context& context);
Outcome check_dynamic(Context& context);
Outcome check_migration(Context& context);

} // namespace adaptib::selftest
