// SPDX-License-Identifier: BSD-3-Clause
// World: several nodes with one fabric each, for the conformance suite.
//
// Purpose: the tests of this folder use only fabric/fabric.h and this class, so that the same tests
// hold every implementation to fabric/README.md. A fabric joins the suite with a file
// <name>_world.cc that calls add_world from a static initializer.
// Ownership: the World owns its fabrics; a test destroys all objects of a node before the World.
// Threads: one.
// May touch: fabric/, base/, gtest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "fabric/fabric.h"

namespace adaptib::conformance {

class World {
public:
    virtual ~World() = default;

    // Number of nodes: at least two. Every node reaches every other one, and rail i of one reaches
    // rail i of another.
    virtual std::size_t nodes() const = 0;
    virtual Fabric& fabric(std::size_t node) = 0;

    // Lets the fabrics work until the predicate, which polls, is true. Returns false when `limit`
    // of the fabric's time has passed first. Virtual time advances between two calls of the
    // predicate.
    virtual bool run_until(const std::function<bool()>& predicate, Nanoseconds limit) = 0;

    // Controls. A world without a control returns false here; tests that need it are skipped.
    virtual bool can_switch_rails() const { return false; }
    virtual bool switch_rail(std::size_t /*node*/, std::size_t /*rail*/, bool /*up*/) {
        return false;
    }
    virtual bool can_slow_rails() const { return false; }
    // Slows the rail to its nominal rate / factor; 1 restores it.
    virtual bool slow_rail(std::size_t /*node*/, std::size_t /*rail*/, std::uint32_t /*factor*/) {
        return false;
    }
    // Says if QueuePair::rma_now must complete a short request that is next in order, on memory
    // that the rail allocated (`allocated`) or that the caller owns.
    virtual bool rma_now_works(bool /*allocated*/) const { return false; }
    // True if this world's adapters may report `other` in place of `status` of the table in
    // fabric/README.md.
    virtual bool may_report(WorkStatus /*other*/, WorkStatus /*status*/) const { return false; }
    // The reason why "Suite.Test" cannot pass here through no fault of the fabric; empty if the
    // test must pass.
    virtual std::string known_defect(const std::string& /*test*/) const { return {}; }
    // True if fences work; otherwise random programs wait for their reads and atomics.
    virtual bool fences() const { return true; }
    // Ends a node's fabric. REQUIRES: all objects of that node are gone.
    virtual bool can_end_nodes() const { return false; }
    virtual bool end_node(std::size_t /*node*/) { return false; }
};

struct WorldFactory {
    std::string name; // letters, digits and _
    // Returns null when the world cannot come up. With `error` set the test fails; with `skip` set
    // the test is skipped, since this machine lacks something that the world needs (a device, a
    // permission).
    std::function<std::unique_ptr<World>(std::string& error, std::string& skip)> make;
};

std::vector<WorldFactory>& worlds();
bool add_world(WorldFactory factory);

} // namespace adaptib::conformance
