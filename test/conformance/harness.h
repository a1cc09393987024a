// SPDX-License-Identifier: BSD-3-Clause
// Harness of the conformance suite: the fixture with its queues, queue pairs and buffers.
//
// Purpose: a test states only its subject; creating, connecting, polling and patterns are here.
// Errors: set-up that fails throws, and GoogleTest reports the test as failed.
// Ownership: the fixture owns everything; TearDown destroys it in the order that fabric.h requires.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/world.h"

namespace adaptib {

// Prints a Status for GoogleTest.
void PrintTo(const Status& status, std::ostream* out);
void PrintTo(const WorkStatus& status, std::ostream* out);

namespace conformance {

void PrintTo(const WorldFactory& world, std::ostream* out);

constexpr Nanoseconds kLong{10'000'000'000}; // longer than any healthy operation
constexpr Nanoseconds kQuiet{20'000'000};    // duration of a check that nothing happens

// All rights that memory or a queue pair can grant.
constexpr std::uint32_t kAllAccess = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic;

// A completion queue and the completions polled from it.
struct Queue {
    std::size_t node = 0;
    std::unique_ptr<CompletionQueue> cq;
    std::deque<WorkCompletion> got;
};

// Registered memory, owned by the caller or allocated by the rail.
struct Buffer {
    std::size_t node = 0;
    std::vector<std::uint64_t> words; // empty: allocated by the rail
    std::unique_ptr<MemoryRegion> region;

    std::byte* data() const { return static_cast<std::byte*>(region->address()); }
    Bytes size() const { return region->length(); }
    Gather gather(Bytes offset, Bytes length) const {
        return {data() + offset, length, region->local_key()};
    }
    std::uint64_t remote(Bytes offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(data()) + offset;
    }
    std::uint32_t key() const { return region->remote_key(); }
};

// 8-byte words of a buffer, which atomics act on.
inline std::uint64_t word(const Buffer& b, std::size_t index = 0) {
    std::uint64_t value = 0;
    std::memcpy(&value, b.data() + index * 8, 8);
    return value;
}
inline void set_word(const Buffer& b, std::size_t index, std::uint64_t value) {
    std::memcpy(b.data() + index * 8, &value, 8);
}

struct EndOptions {
    QpType type = QpType::rc;
    std::size_t rail = 0;
    std::uint32_t send_depth = 64;
    std::uint32_t receive_depth = 64;
    std::uint32_t max_gather = 1;
    Bytes inline_bytes = 0;
    bool signal_all = false;
    SharedReceiveQueue* srq = nullptr;
    Queue* send_queue = nullptr;    // null: one of its own
    Queue* receive_queue = nullptr; // null: one of its own
};

// A queue pair with its queues.
struct End {
    std::size_t node = 0;
    std::size_t rail = 0;
    Queue* send = nullptr;
    Queue* receive = nullptr;
    std::unique_ptr<QueuePair> qp;
};

struct RcOptions {
    std::uint32_t access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
    std::uint8_t rnr_retry = 7;
    std::uint8_t rnr_timer = 1; // the shortest
    std::uint8_t timeout = 14;  // 67 ms
    std::uint8_t retry_count = 2;
    std::optional<std::uint32_t> max_target_reads;
    std::uint32_t first_psn = 0; // each reconnection uses another one
};

constexpr std::uint32_t kRcInit = kQpState | kQpAccess;
constexpr std::uint32_t kRcReceive = kQpState | kQpPath | kQpRemote | kQpReceiveLimits;
constexpr std::uint32_t kRcSend = kQpState | kQpRetry | kQpSendPsn | kQpSendLimits;
constexpr std::uint32_t kUdInit = kQpState | kQpKey;
constexpr std::uint32_t kUdReceive = kQpState;
constexpr std::uint32_t kUdSend = kQpState | kQpSendPsn;

constexpr std::uint64_t kTestKey = 0x1ee7c0de;

class Fixture : public testing::TestWithParam<WorldFactory> {
protected:
    void SetUp() override;
    void TearDown() override;

    World& world() { return *world_; }
    std::size_t nodes() const { return world_->nodes(); }
    Fabric& fabric(std::size_t node) { return world_->fabric(node); }
    Rail& rail(std::size_t node, std::size_t index = 0) { return *fabric(node).rails()[index]; }
    const RailInfo& info(std::size_t index = 0) { return rail(0, index).info(); }
    std::size_t rail_count() { return fabric(0).rails().size(); }
    bool has(Capability c) { return info().has(c); }
    // Without kRemoteAtomic where the rail has no atomics and would refuse that right.
    std::uint32_t rights(std::uint32_t wanted = kAllAccess) {
        return has(Capability::atomic64) ? wanted
                                         : wanted & ~static_cast<std::uint32_t>(kRemoteAtomic);
    }

    Queue& queue(std::size_t node, std::uint32_t depth = 1024, std::size_t rail_index = 0);
    Buffer& memory(std::size_t node, Bytes size, std::uint32_t access = kAllAccess,
                   std::size_t rail_index = 0);
    Buffer& allocated(std::size_t node, Bytes size, std::uint32_t access = kAllAccess,
                      std::size_t rail_index = 0);
    SharedReceiveQueue& srq(std::size_t node, std::uint32_t depth, std::size_t rail_index = 0);
    AddressHandle& handle(std::size_t node, std::size_t to, std::size_t rail_index = 0);
    End& end(std::size_t node, const EndOptions& options = {});
    End& rc_end(std::size_t node) { return end(node); }
    // Two connected RC queue pairs.
    struct Pair {
        End& a;
        End& b;
    };
    Pair rc_pair(std::size_t from = 0, std::size_t to = 1, const EndOptions& options = {},
                 const RcOptions& rc = {});
    void destroy(End& e) { e.qp.reset(); }
    void destroy(Buffer& b) { b.region.reset(); }
    void destroy_node_objects(std::size_t node);

    QpAttributes rc_attributes(End& self, End& peer, QpState state, const RcOptions& rc = {});
    void connect(End& a, End& b, const RcOptions& rc = {});
    void connect_one(End& self, End& peer, const RcOptions& rc = {});
    void start_ud(End& e, std::uint64_t key = kTestKey);
    PathSpec path(std::size_t to, std::size_t rail_index = 0);

    // Polls every queue once.
    void poll();
    bool wait(const std::function<bool()>& predicate, Nanoseconds limit = kLong);
    // Waits for `count` completions in all; returns false when they do not come.
    bool wait_for(const Queue& q, std::size_t count, Nanoseconds limit = kLong);
    // Polls for kQuiet; returns false when a completion arrives in one of these queues.
    bool stays_empty(const std::vector<const Queue*>& queues);
    bool wait_state(const End& e, QpState state, Nanoseconds limit = kLong);
    bool wait_event(std::size_t node, EventKind kind, Event& out, Nanoseconds limit = kLong);

    Status post_receive(End& e, std::uint64_t wr_id, const std::vector<Gather>& scatter);
    Status post_receive(SharedReceiveQueue& q, std::uint64_t wr_id,
                        const std::vector<Gather>& scatter);
    // Posts a request; while post_send returns "again", polls and repeats the call.
    Status post(End& e, const SendWork& work, Nanoseconds limit = kLong);
    // Succeeds if `got` is the wanted status, or the world's other name for it.
    testing::AssertionResult ended(std::optional<WorkStatus> got, WorkStatus wanted) const;
    // Posts one signaled request and returns its completion's status; nothing when no completion
    // comes.
    std::optional<WorkStatus> run(End& e, SendWork work, Nanoseconds limit = kLong);
    // Posts a request whose gather list is wrong. Succeeds if it ends with local_protection_error,
    // or if post_send refuses it, which must leave the queue pair in RTS.
    testing::AssertionResult refused_locally(End& e, SendWork work);

private:
    std::unique_ptr<World> world_;
    // Destroyed from the last to the first.
    std::vector<std::unique_ptr<Buffer>> buffers_;
    struct HandleEntry {
        std::size_t node;
        std::unique_ptr<AddressHandle> handle;
    };
    std::vector<HandleEntry> handles_;
    std::vector<std::unique_ptr<Queue>> queues_;
    struct SrqEntry {
        std::size_t node;
        std::unique_ptr<SharedReceiveQueue> srq;
    };
    std::vector<SrqEntry> srqs_;
    std::vector<std::unique_ptr<End>> ends_;
};

// Make requests. `gather` must outlive the post.
SendWork send_work(std::uint64_t wr_id, const std::vector<Gather>& gather);
SendWork rdma_work(std::uint64_t wr_id, Opcode opcode, const std::vector<Gather>& gather,
                   std::uint64_t remote_address, std::uint32_t remote_key);
// Converts a request for QueuePair::rma_now. REQUIRES: one gather entry.
RmaWork piece_of(const SendWork& work);

// A byte that depends on seed and position; the patterns of neighboring seeds differ.
std::byte pattern(std::uint64_t seed, Bytes position);
void fill(std::byte* at, Bytes length, std::uint64_t seed);
// Success, or a failure that names the first wrong byte.
testing::AssertionResult holds(const std::byte* at, Bytes length, std::uint64_t seed);
testing::AssertionResult all_equal(const std::byte* at, Bytes length, std::byte value);

// Lengths around all sizes at which an implementation may change its behavior, up to `limit`.
std::vector<Bytes> boundary_lengths(Bytes limit);

#define ADAPTIB_NEEDS(capability)                                                                  \
    if (!has(Capability::capability)) {                                                            \
        GTEST_SKIP() << "the rail lacks " #capability;                                             \
    }

#define ADAPTIB_CONFORMANCE(Suite)                                                                 \
    INSTANTIATE_TEST_SUITE_P(Fabric, Suite, testing::ValuesIn(worlds()),                           \
                             [](const testing::TestParamInfo<WorldFactory>& world_info) {          \
                                 return world_info.param.name;                                     \
                             })

} // namespace conformance
} // namespace adaptib
