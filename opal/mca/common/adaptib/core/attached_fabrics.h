// SPDX-License-Identifier: BSD-3-Clause
// AttachedFabrics: the fabrics that a core uses, their rails, the rails' completion queues, and the
// routes over them.
//
// Purpose: takes the fabrics over, nearest first, and numbers their rails consecutively, in the
// order in which the process publishes them; opens the queues of each rail.
// Ownership: owns the fabrics and the completion queues. Threads: one at a time.
// May touch: base/, fabric/, channel/, peer/, recovery/, stats/, core/derived_options.h,
//   core/core_environment.h, core/routes.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/parameters.h"
#include "base/status.h"
#include "channel/shared_queue_pairs.h"
#include "core/attached_fabric.h"
#include "core/core_environment.h"
#include "core/routes.h"
#include "fabric/fabric.h"
#include "recovery/apm/migration_agent.h"
#include "recovery/completion_filter.h"

namespace adaptib {

class AttachedFabrics {
public:
    // Parts of the core that the rails' queues work with.
    struct Parts {
        bool tolerant; // paths that fail are replaced
        const Clock& attended;
        PathListener& path_failures;
        SharedQueuePairs* shared;  // null: none
        MigrationAgent* migration; // null: none
    };

    // `environment` outlives this object.
    explicit AttachedFabrics(const CoreEnvironment& environment) : environment_(environment) {}

    // Attaches the first rails of each fabric, as many as there is room for. Errors: no_device if a
    // fabric has no rail; `text` explains it to a person.
    Status attach(const Parameters& parameters, std::vector<std::unique_ptr<Fabric>> fabrics,
                  std::string& text);
    // Opens the queues of each rail, and fills in how peers reach it. `depth`: of the completion
    // queues. Errors: the status of a rail; `text` explains it to a person.
    Status open_rails(const Parts& parts, std::uint32_t depth, ProcessAddress& address,
                      std::string& text);

    // Tells that so many processes may contact this one, at once. An endpoint of the process that
    // may never be used, any but the first, prepares for them when a peer uses its fabric.
    void expect(std::uint32_t processes);

    std::vector<AttachedFabric>& all() { return fabrics_; }
    const std::vector<AttachedFabric>& all() const { return fabrics_; }
    RailList rails() const { return rails_; } // of all fabrics
    std::vector<RailRange> ranges() const;    // the rails of each fabric
    void report_slow_rails() const;
    // The completion queue of each rail.
    std::span<const std::unique_ptr<CompletionQueue>> cqs() const { return cqs_; }
    const Routes& routes() const { return *routes_; } // REQUIRES: attach() has succeeded

private:
    bool may_stay_unused() const { return endpoint_of(environment_.self) > 0; }
    Status attach(const Parameters& parameters, std::unique_ptr<Fabric> fabric, std::size_t room,
                  std::string& text);
    void open_responder(AttachedFabric& attached, const ProcessAddress& address);
    void open_target(std::uint32_t rail, SharedQueuePairs& shared);

    const CoreEnvironment& environment_;
    std::vector<AttachedFabric> fabrics_;
    std::optional<Routes> routes_; // set once the fabrics are attached
    std::vector<Rail*> rails_;
    std::vector<std::unique_ptr<CompletionQueue>> cqs_; // one per rail
};

} // namespace adaptib
