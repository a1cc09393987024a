// SPDX-License-Identifier: BSD-3-Clause
// A node that makes progress while a test waits for it within a call.
// Threads: one of its own, beside which no other thread may use the node's core.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include "cores.h"

namespace adaptib::test {

// Makes progress on a node until it goes out of scope.
class Attentive {
public:
    Attentive(Cores& world, std::size_t node)
        : thread_([this, &world, node] {
              while (!over_.load(std::memory_order_relaxed)) {
                  world.progress(node);
              }
          }) {}
    ~Attentive() {
        over_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

} // namespace adaptib::test
