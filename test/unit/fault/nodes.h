// SPDX-License-Identifier: BSD-3-Clause
// Two shm fabrics in one process, the first one with faults, and what the tests of this
// folder do with them.
//
// Purpose: Nodes nodes(rails); nodes.plan.faults...; End a, b; nodes.connect(a, b); post, poll,
// look. Throws if the set-up fails.
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "simulator/faults/fault.h"

namespace adaptib::test {

constexpr std::uint32_t kQueueKey = 0x1adab;
constexpr std::size_t kMemory = 1 << 16;

struct End {
    std::size_t node = 0;
    std::size_t rail = 0;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<QueuePair> qp;
    std::vector<WorkCompletion> got;
};

class Nodes {
public:
    explicit Nodes(fault::FaultPlan with = {}, std::uint32_t rails = 1);

    Rail& rail(std::size_t node, std::size_t index = 0) { return *fabric[node]->rails()[index]; }
    // Adds a row to the plan, from now on.
    void plan_fault(const fault::PlannedFault& fault) { plan.faults.push_back(fault); }

    End end(std::size_t node, QpType type, std::size_t rail_index = 0);
    void connect(End& a, End& b); // RC, from RESET
    void start_ud(End& e);

    std::byte* memory(std::size_t node, std::size_t offset = 0) {
        return bytes[node].data() + offset;
    }
    Gather gather(std::size_t node, std::size_t offset, Bytes length, std::size_t rail_index = 0) {
        return {memory(node, offset), length, regions[node][rail_index]->local_key()};
    }
    // Posts a `write` or `read` of `length` bytes between node 0's offset and the
    // same one of node 1.
    Status post(End& from, std::uint64_t wr_id, Opcode opcode, std::size_t offset, Bytes length,
                std::uint32_t flags = kSignaled);
    // Sends to the end whose address handle start_ud got.
    Status post_datagram(End& from, End& to, std::uint64_t wr_id, std::size_t offset, Bytes length);
    Status post_receive(End& e, std::uint64_t wr_id, std::size_t offset, Bytes length);

    // Polls all of these ends, `passes` times.
    void poll(std::initializer_list<End*> ends, int passes = 100);

    ManualClock clock;
    fault::FaultPlan plan; // of node 0
    fault::FaultLog log;
    std::vector<Nanoseconds> wakes; // times at which node 0 asked to be polled
    std::unique_ptr<Fabric> fabric[2];
    std::vector<std::byte> bytes[2];
    std::vector<std::unique_ptr<MemoryRegion>> regions[2]; // by rail
    std::unique_ptr<AddressHandle> handle;                 // from 0 to 1
};

// Two nodes with a connection from node 0 to node 1, and words for node 0 to write.
struct Connected : Nodes {
    explicit Connected(fault::FaultPlan with = {}, std::uint32_t rails = 1,
                       std::size_t rail_index = 0)
        : Nodes(std::move(with), rails), a(end(0, QpType::rc, rail_index)),
          b(end(1, QpType::rc, rail_index)) {
        connect(a, b);
        std::fill(bytes[0].begin(), bytes[0].end(), std::byte{1});
    }
    bool written(std::size_t i) { return *memory(1, i * 8) == std::byte{1}; }
    void write(std::uint64_t i) { ASSERT_TRUE(post(a, i, Opcode::write, i * 8, 8).ok()); }

    End a;
    End b;
};

std::vector<std::uint64_t> ids(const std::vector<WorkCompletion>& completions);
std::vector<WorkStatus> statuses(const std::vector<WorkCompletion>& completions);

} // namespace adaptib::test
