// SPDX-License-Identifier: BSD-3-Clause
// FlowPath: a path between two ports, with the links that a flow of one engine takes over it.
//
// Ownership: the queue pair's; the path belongs to the network.  Threads: one.
// May touch: simulator/network/{adapter,network}.h.
#pragma once

#include <vector>

#include "simulator/network/adapter.h"
#include "simulator/network/network.h"

namespace adaptib::sim {

class FlowPath {
public:
    void use(const Engine& engine, Path& path) {
        path_ = &path;
        links_.clear();
        if (engine.link != kNoIndex) {
            links_.push_back(engine.link);
        }
        links_.insert(links_.end(), path.links.begin(), path.links.end());
    }
    void clear() { path_ = nullptr; }

    Path* get() const { return path_; } // null: none
    Path& operator*() const { return *path_; }
    Path* operator->() const { return path_; }
    // The link of the engine, if it has one, then those of the path.
    const std::vector<LinkIndex>& links() const { return links_; }

private:
    Path* path_ = nullptr;
    std::vector<LinkIndex> links_;
};

} // namespace adaptib::sim
