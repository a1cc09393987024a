// SPDX-License-Identifier: BSD-3-Clause
// Several complete cores in one process, over the shared-memory fabric, driven by one thread.
//
// Purpose: protocol tests without mpirun: Cores world(2); world.send(0, 1, ...); world.run(...).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/core.h"
#include "fabric/shm/shm_fabric.h"
#include "unit/core/address_table.h"
#include "unit/core/test_request.h"

namespace adaptib::test {

// Non-contiguous data: `bytes` taken every `stride` bytes of memory, in elements of `element` bytes
// that are never split by the packer.
struct Strided {
    std::vector<std::byte> memory;
    std::size_t element;
    std::size_t stride;

    Strided(std::size_t bytes, std::size_t element_bytes, std::size_t stride_bytes)
        : memory(bytes / element_bytes * stride_bytes), element(element_bytes),
          stride(stride_bytes) {}
    std::byte& at(std::size_t i) { return memory[i / element * stride + i % element]; }
    Data data();

private:
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length);
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length);
};

inline Data contiguous(void* base, std::size_t bytes) {
    return {base, bytes, nullptr, nullptr, nullptr};
}
inline Data contiguous(std::vector<std::byte>& buffer) {
    static std::byte nothing;
    return contiguous(buffer.empty() ? &nothing : buffer.data(), buffer.size());
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);

// A message of a pattern, with buffers to receive it into.
struct PatternMessage {
    PatternMessage(std::size_t from_node, std::size_t bytes, std::size_t seed)
        : from(from_node), sent(pattern(bytes, seed)), got(bytes), scattered(bytes, 1, 3) {
        for (std::size_t i = 0; i < bytes; ++i) {
            scattered.at(i) = sent[i];
        }
    }
    std::size_t from;
    std::vector<std::byte> sent;
    std::vector<std::byte> got;
    Strided scattered;
    TestRequest send;
    TestRequest receive;
    bool receive_refused = false;
};

struct Options {
    Parameters parameters = default_parameters();
    std::function<void(std::size_t node, Parameters&)> parameters_of; // changes for single nodes
    std::uint64_t seed = 1;
    std::vector<std::uint16_t> wire_versions; // per node; empty: the real one
    std::vector<std::uint64_t> names;         // per node; empty: those of Cores::name
    // Host of each node. Empty: all are on one, with one fabric. Otherwise a node has two
    // fabrics: shm for the nodes of its own host, and shm of another kind for all nodes; without
    // `far` only the first one.
    std::vector<std::uint64_t> hosts;
    bool far = true;
    // User namespace of each node, which can open no shared memory of other ones. Empty: all
    // nodes are in one.
    std::vector<std::uint32_t> user_spaces;
    bool timed = false;           // costs are measured, by the clock below
    const bool* yields = nullptr; // as in Core::Environment; so is the next
    std::uint64_t tight_ticks = 0;
    std::vector<Trace*> traces;          // of each node; empty: none has one
    std::optional<CopyCosts> copy_costs; // the nodes take these costs of copies for granted
    // Wraps each node's fabric, or the second one if there are two; empty: no wrapper.
    std::function<std::unique_ptr<Fabric>(std::size_t node, std::unique_ptr<Fabric>, const Clock&)>
        wrap;
};

// Time that only the test advances, and that tells the test when a core reads it.
class WatchedClock final : public Clock {
public:
    Nanoseconds now() const override {
        if (at_now) {
            at_now();
        }
        return clock_.now();
    }
    void advance(Nanoseconds by) { clock_.advance(by); }

    std::function<void()> at_now; // set while one thread alone works

private:
    ManualClock clock_;
};

class Cores {
    struct Node {
        explicit Node(std::uint64_t seed) : random(seed) {}

        Counters counters;
        Random random;
        std::vector<std::string> messages;
        std::unique_ptr<Core> core;
    };

public:
    explicit Cores(std::size_t nodes, Options options = {});
    ~Cores();

    std::size_t size() const { return nodes_.size(); }
    // Ends a node's core and fabric, which make no progress any more.
    void end(std::size_t node) { nodes_[node]->core.reset(); }
    Core& core(std::size_t node) { return *nodes_[node]->core; }
    Counters& counters(std::size_t node) { return nodes_[node]->counters; }
    const std::vector<std::string>& messages(std::size_t node) { return nodes_[node]->messages; }
    static std::uint64_t name(std::size_t node) { return (std::uint64_t{7} << 32) | node; }
    Peer* peer(std::size_t from, std::size_t to);
    // Lets the nodes find a process that is none of them.
    void publish(std::uint64_t name, std::vector<std::byte> address) {
        table_.blobs[name] = std::move(address);
    }

    Status send(std::size_t from, std::size_t to, std::int32_t tag, const Data& data,
                TestRequest& request, bool synchronous = false, std::uint32_t context = 0);
    // Tries the fast path; false: not sent.
    bool try_send(std::size_t from, std::size_t to, std::int32_t tag, const Data& data);
    Status receive(std::size_t at, std::int32_t source, std::int32_t tag, const Data& data,
                   TestRequest& request, std::uint32_t context = 0);

    void progress(std::size_t node, bool again = false);
    void progress();
    // Makes progress until `condition`; false if it does not come true in many passes.
    bool run(const std::function<bool()>& condition);
    bool run(const std::vector<TestRequest*>& requests);

    WatchedClock clock;

private:
    AddressTable table_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

// Sends `rounds` messages each way between nodes 0 and 1, one after another, and checks payloads.
void exchange(Cores& world, std::size_t bytes, int rounds);

} // namespace adaptib::test
