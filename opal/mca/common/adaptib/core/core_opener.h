// SPDX-License-Identifier: BSD-3-Clause
// CoreOpener: makes the parts of a core from the parameters and the environment, in the order of
// their dependencies.
//
// Purpose: attaches the fabrics, opens their rails, encodes the address to publish, and sets up all
// that a core consists of. The options that follow from parameters and rails alone are in
// core/derived_options.h.
// Threads: one. The object is not needed any more once the core is open.
// May touch: every folder of the core.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/parameters.h"
#include "base/status.h"
#include "core/core_environment.h"
#include "core/core_parts.h"
#include "fabric/fabric.h"
#include "select/policy.h"
#include "stats/counters.h"

namespace adaptib {

class CoreOpener {
public:
    CoreOpener(const Parameters& parameters, CoreParts& parts);

    // REQUIRES: is called once. Errors: not_supported if the rails of a fabric cannot carry the
    // core's traffic, or the status of a rail; `text` explains it to a person.
    Status open(std::vector<std::unique_ptr<Fabric>> fabrics, std::string& text);

private:
    void open_migration();
    void open_paths();
    void plan();
    void watch_memory();
    void open_sharing();
    void open_connections(std::uint64_t key);
    void open_protocol(std::uint32_t depth);
    void open_peers();
    void open_selection();
    void open_progress();
    void begin_reactions();
    void check_threshold();
    void check_atomics(std::span<const RailRange> fabrics);
    RailList rails() const { return parts_.fabrics.rails(); }

    const Parameters& parameters_;
    CoreParts& parts_;
    const CoreEnvironment& environment_;
    Counters& counters_;
    Nanoseconds failure_timeout_;
    ChannelPlan channels_; // set once the fabrics are attached
    bool watches_memory_ = false;
};

} // namespace adaptib
