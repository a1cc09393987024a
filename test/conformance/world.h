// SPDX-License-Identifier: BSD-3-Clause
// World: some nodes with a fabric each, for the conformance suite.
//
// Purpose: the tests of this folder are written against fabric/fabric.h and this class only, so that the
// same tests hold every implementation to fabric/README.md. A fabric joins the suite with a file
// <name>_world.cc that calls add_world from a static initialiser.
// Ownership: the World owns its fabrics; a test ends all objects of a node before the World.
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

    // At least two. Every node reaches every other one, and rail i of one reaches rail i of another.
    virtual std::size_t nodes() const = 0;
    virtual Fabric& fabric(std::size_t node) = 0;

    // Lets the fabrics work until the predicate, which polls, is true; false when `limit` of the fabric's time is
    // over before. Virtual time advances between two calls of the predicate.
    virtual bool run_until(const std::function<bool()>& predicate, Nanoseconds limit) = 0;

    // Controls. A world that lacks one says so, and the tests that need it are skipped.
    virtual bool can_switch_rails() const { return false; }
    virtual bool switch_rail(std::size_t /*node*/, std::size_t /*rail*/, bool /*up*/) {
        return false;
    }
    virtual bool can_slow_rails() const { return false; }
    // Nominal rate / factor; 1 = as before.
    virtual bool slow_rail(std::size_t /*node*/, std::size_t /*rail*/, std::uint32_t /*factor*/) {
        return false;
    }
    // Whether QueuePair::execute has to carry out what is short and in order: on memory of the rail's
    // (`allocated`), or of the caller's.
    virtual bool executes(bool /*allocated*/) const { return false; }
    // What the adapters of this world may call that status of the table in fabric/README.md instead.
    virtual WorkStatus other_name(WorkStatus status) const { return status; }
    // Why "Suite.Test" cannot pass here, through no fault of the fabric; empty: it has to.
    virtual std::string known_defect(const std::string& /*test*/) const { return {}; }
    // Whether fences work; else random programs wait for their reads and atomics.
    virtual bool fences() const { return true; }
    // Ends a node's fabric. REQUIRES: all objects of that node are gone.
    virtual bool can_end_nodes() const { return false; }
    virtual bool end_node(std::size_t /*node*/) { return false; }
};

struct WorldFactory {
    std::string name; // letters, digits and _
    // Null with `error` set when the world cannot come up: the test fails. With `skip` set instead: this
    // machine lacks what the world is made of (a device, a permission), the test is skipped.
    std::function<std::unique_ptr<World>(std::string& error, std::string& skip)> make;
};

std::vector<WorldFactory>& worlds();
bool add_world(WorldFactory factory);

} // namespace adaptib::conformance
