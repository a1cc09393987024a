// SPDX-License-Identifier: BSD-3-Clause
// Too little locked memory: data that cannot be registered is copied, with one notice,
// and arrives whole.
#include <algorithm>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

constexpr Bytes kBlock = 65536;

// Memory of node 1 that the other node may reach; has to end before the cores do.
struct Window {
    Window(Cores& world, void* base, Bytes bytes) {
        EXPECT_TRUE(registration
                        .make(world.core(1).rails(), base, bytes,
                              kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic)
                        .ok());
        remote.base = reinterpret_cast<std::uintptr_t>(base);
        remote.bytes = bytes;
        remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                        OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;
        remote.key_count = registration.key_count();
        registration.copy_remote_keys(remote.keys);
    }

    Registration registration;
    opal_common_adaptib_remote_t remote{};
};

opal_common_adaptib_one_sided_t operation(opal_common_adaptib_operation_t kind, void* local,
                                          const Window& window, std::uint64_t offset, Bytes bytes,
                                          std::uint64_t operand = 0) {
    return {kind, local, nullptr, window.remote.base + offset, &window.remote, bytes, operand, 0};
}

Status start(Cores& world, const opal_common_adaptib_one_sided_t& what, TestRequest& request) {
    bool complete = false;
    const Status status = world.core(0).protocol().one_sided().start(
        *world.peer(0, 1), what, nullptr, request.user, complete);
    request.done = status.ok() && complete;
    return status;
}

// Nodes that have lockable memory for their staging blocks only.
enum class Poor : std::uint8_t { none, sender, receiver, both };

struct Case {
    Poor poor;
    const char* rendezvous;
    const char* copies;
};

class LockedMemoryLimits : public testing::TestWithParam<Case> {
protected:
    LockedMemoryLimits() {
        options_.parameters.rendezvous = const_cast<char*>(GetParam().rendezvous);
        options_.parameters.shm_single_copy = const_cast<char*>(GetParam().copies);
        options_.parameters.shm_rails = 2;
        options_.parameters.block_bytes = kBlock;
        options_.parameters.ring_bytes = 65536;
        options_.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                               const Clock& clock) {
            plans_[node].lacks = static_cast<std::uint32_t>(Capability::whole_memory);
            return fault::with_faults(std::move(fabric), plans_[node], clock, logs_[node]);
        };
    }

    bool poor(std::size_t node) const {
        return GetParam().poor == Poor::both ||
               GetParam().poor == (node == 0 ? Poor::sender : Poor::receiver);
    }
    // Leaves room for the blocks of two transfers on two rails; a longer buffer has no room.
    void set_limits() {
        const auto depth = static_cast<Bytes>(options_.parameters.block_depth);
        for (std::size_t node = 0; node < 2; ++node) {
            plans_[node].locked_limit =
                poor(node) ? logs_[node].locked + 4 * depth * kBlock : ~Bytes{0};
        }
    }
    static std::size_t reported(Cores& world, std::size_t node) {
        const auto& messages = world.messages(node);
        return static_cast<std::size_t>(
            std::count_if(messages.begin(), messages.end(), [](const std::string& text) {
                return text.find("cannot be registered") != std::string::npos;
            }));
    }
    void check_messages(Cores& world) {
        for (std::size_t node = 0; node < 2; ++node) {
            EXPECT_EQ(logs_[node].count(fault::Fault::register_fails) > 0, poor(node))
                << "node " << node;
            EXPECT_EQ(world.counters(node).registrations_failed > 0, poor(node));
            EXPECT_EQ(reported(world, node), poor(node) ? 1u : 0u) << "node " << node;
            EXPECT_EQ(world.messages(node).size(), reported(world, node))
                << "nothing else is wrong";
        }
    }

    Options options_;
    fault::FaultPlan plans_[2];
    fault::FaultLog logs_[2];
};
INSTANTIATE_TEST_SUITE_P(
    Poor, LockedMemoryLimits,
    testing::Values(Case{Poor::none, "get", "auto"}, Case{Poor::sender, "get", "auto"},
                    Case{Poor::sender, "put", "auto"}, Case{Poor::receiver, "get", "auto"},
                    Case{Poor::receiver, "put", "auto"}, Case{Poor::both, "get", "auto"},
                    Case{Poor::both, "put", "auto"}, Case{Poor::both, "get", "none"}));

TEST_P(LockedMemoryLimits, LargeMessagesArriveWhole) {
    Cores world(2, options_);
    set_limits();
    for (const Bytes size : {4 * kMiB + 12345, 3 * kMiB, 8 * kMiB + 1}) {
        std::vector<std::byte> sent = pattern(size, size);
        std::vector<std::byte> got(size + 64, std::byte{0x77});
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 5, contiguous(got.data(), size), receive).ok());
        ASSERT_TRUE(world.send(0, 1, 5, contiguous(sent), send).ok());
        ASSERT_TRUE(world.run({&send, &receive}));
        EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(receive.user.bytes, size);
        EXPECT_TRUE(std::equal(sent.begin(), sent.end(), got.begin()));
        EXPECT_TRUE(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(size), got.end(),
                                [](std::byte b) { return b == std::byte{0x77}; }));
    }
    check_messages(world);
    EXPECT_EQ(world.counters(0).bad_packets + world.counters(1).bad_packets, 0u);
}

TEST_P(LockedMemoryLimits, AMessageThatIsCutArrivesAsFarAsThereIsRoom) {
    Cores world(2, options_);
    set_limits();
    constexpr Bytes kSent = 6 * kMiB;
    constexpr Bytes kRoom = 4 * kMiB + 77;
    std::vector<std::byte> sent = pattern(kSent, 3);
    std::vector<std::byte> got(kSent, std::byte{0x77});
    TestRequest send;
    TestRequest receive;
    ASSERT_TRUE(world.send(0, 1, 5, contiguous(sent), send).ok());
    ASSERT_TRUE(world.receive(1, 0, 5, contiguous(got.data(), kRoom), receive).ok());
    ASSERT_TRUE(world.run({&send, &receive}));
    EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_TRUNCATED);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + kRoom, sent.begin()));
    EXPECT_TRUE(std::all_of(got.begin() + kRoom, got.end(),
                            [](std::byte b) { return b == std::byte{0x77}; }));
    check_messages(world);
}

TEST_P(LockedMemoryLimits, PutAndGetMoveEveryByte) {
    Cores world(2, options_);
    constexpr Bytes kWindow = 9 * kMiB;
    std::vector<std::byte> memory(kWindow, std::byte{0x11});
    const Window window(world, memory.data(), kWindow); // before memory runs short
    set_limits();
    Peer* peer = world.peer(0, 1);
    Protocol& protocol = world.core(0).protocol();
    for (const Bytes size : {3 * kMiB, 8 * kMiB + 13}) {
        const Bytes offset = size % 1000 + 3;
        std::vector<std::byte> sent = pattern(size, size);
        std::vector<std::byte> expected = memory;
        std::copy(sent.begin(), sent.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
        std::vector<std::byte> got(size);
        for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET}) {
            void* local = kind == OPAL_COMMON_ADAPTIB_PUT ? sent.data() : got.data();
            TestRequest request;
            ASSERT_TRUE(start(world, operation(kind, local, window, offset, size), request).ok());
            EXPECT_EQ(peer->transfers.one_sided, protocol.one_sided().under_way());
            ASSERT_TRUE(world.run({&request}));
            EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(request.user.bytes, size);
            EXPECT_EQ(protocol.one_sided().under_way(), 0u);
            EXPECT_EQ(peer->transfers.one_sided, 0u);
        }
        EXPECT_TRUE(memory == expected);
        EXPECT_TRUE(got == sent);
    }
    EXPECT_EQ(world.counters(0).registrations_failed, poor(0) ? 4u : 0u);
    EXPECT_EQ(reported(world, 0), poor(0) ? 1u : 0u);
}

class LockedMemoryFaults : public testing::Test {
protected:
    LockedMemoryFaults() {
        options_.parameters.registration.cache = 0; // so that limits are met exactly
        options_.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                               const Clock& clock) {
            plan_.lacks = static_cast<std::uint32_t>(Capability::whole_memory);
            return node == 0 ? fault::with_faults(std::move(fabric), plan_, clock, log_)
                             : std::move(fabric);
        };
    }

    Options options_;
    fault::FaultPlan plan_;
    fault::FaultLog log_;
};

// The sender's rail does not cover all memory by itself. A buffer is registered for its first
// message only, until the program says that it unmaps the buffer.
TEST_F(LockedMemoryFaults, BuffersStayRegistered) {
    options_.parameters.registration.cache = 1u << 30;
    Cores world(2, options_);
    const Counters& counters = world.counters(0);
    constexpr int kBytes = 300000;
    std::vector<std::byte> data(kBytes, std::byte{1});
    std::vector<std::byte> got(kBytes);
    for (int round = 0; round < 6; ++round) {
        std::fill(data.begin(), data.end(), static_cast<std::byte>(round));
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world.receive(1, 0, 3, contiguous(got), receive).ok());
        ASSERT_TRUE(world.send(0, 1, 3, contiguous(data), send).ok());
        ASSERT_TRUE(world.run({&send, &receive}));
        ASSERT_EQ(got, data);
        if (round == 3) {
            world.core(0).protocol().memory().forget(data.data() + kBytes / 2, 1);
        }
    }
    EXPECT_EQ(counters.registrations_made, 2u);
    EXPECT_EQ(counters.registrations_found, 4u);
    EXPECT_EQ(counters.registrations_forgotten, 1u);
    EXPECT_GE(counters.registered_bytes, Bytes{kBytes});
}

TEST_F(LockedMemoryFaults, AtomicsGoThroughABlockThatIsThere) {
    Cores world(2, options_);
    std::vector<std::uint64_t> words(50000, 100);
    const Window window(world, words.data(), words.size() * 8);
    exchange(world, 100000, 3); // connects
    const auto block = static_cast<Bytes>(options_.parameters.block_bytes);
    plan_.locked_limit = log_.locked + block; // for one block
    std::vector<std::uint64_t> local(words.size(), 100);
    TestRequest put;
    ASSERT_TRUE(start(world,
                      operation(OPAL_COMMON_ADAPTIB_PUT, local.data(), window, 0, local.size() * 8),
                      put)
                    .ok());
    ASSERT_TRUE(world.run({&put}));
    EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_EQ(log_.locked, plan_.locked_limit);

    std::uint64_t old = 0;
    std::uint64_t other = 0;
    const opal_common_adaptib_one_sided_t add =
        operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old, window, 8, 8, 5);
    opal_common_adaptib_one_sided_t swap = add;
    swap.operation = OPAL_COMMON_ADAPTIB_COMPARE_SWAP;
    swap.operand = 7;
    std::uint64_t expected = 100;
    for (int i = 0; i < 20; ++i) {
        TestRequest request;
        ASSERT_TRUE(start(world, add, request).ok());
        // While the only block is in use, another operation fails for lack of memory,
        // and may come again.
        TestRequest second;
        opal_common_adaptib_one_sided_t more = add;
        more.local = &other;
        const Status status = start(world, more, second);
        ASSERT_TRUE(status.ok() || status == Status::error(Reason::no_memory));
        second.done = second.done || !status.ok();
        ASSERT_TRUE(world.run({&request, &second}));
        EXPECT_EQ(old, expected);
        expected += status.ok() ? 10 : 5;
    }
    EXPECT_EQ(words[1], expected);
    for (const std::uint64_t compare : {expected - 1, expected}) {
        swap.compare = compare;
        TestRequest request;
        ASSERT_TRUE(start(world, swap, request).ok());
        ASSERT_TRUE(world.run({&request}));
        EXPECT_EQ(old, expected);
        EXPECT_EQ(words[1], compare == expected ? 7u : expected);
    }
    EXPECT_EQ(world.messages(0).size(), 1u);
}

TEST_F(LockedMemoryFaults, WithoutRoomForAnyBlockPutsAreErrorsAndMessagesFragments) {
    Cores world(2, options_);
    exchange(world, 100000, 3);
    std::vector<std::byte> memory(1 * kMiB);
    Window window(world, memory.data(), memory.size());
    plan_.locked_limit = 0;
    std::vector<std::byte> sent = pattern(memory.size(), 4);
    TestRequest put;
    EXPECT_EQ(
        start(world, operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), window, 0, sent.size()), put),
        Status::error(Reason::not_supported));
    EXPECT_EQ(world.core(0).protocol().one_sided().under_way(), 0u);
    EXPECT_EQ(world.messages(0).size(), 2u)
        << "that it was not registered, and that it was not copied";
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        std::vector<std::byte> got(sent.size());
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(
            world.receive(1 - from, static_cast<std::int32_t>(from), 1, contiguous(got), receive)
                .ok());
        ASSERT_TRUE(world.send(from, 1 - from, 1, contiguous(sent), send).ok());
        ASSERT_TRUE(world.run({&send, &receive})) << "from " << from;
        EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS) << "from " << from;
        EXPECT_TRUE(got == sent) << "from " << from;
        EXPECT_GT(world.counters(from).fragments_sent, 0u);
    }
    plan_.locked_limit = ~Bytes{0};
    exchange(world, 100000, 3); // nothing is broken
}

TEST_F(LockedMemoryFaults, APeerThatEndsEndsTheCopy) {
    Cores world(2, options_);
    exchange(world, 100000, 3);
    std::vector<std::byte> memory(8 * kMiB);
    Window window(world, memory.data(), memory.size());
    plan_.locked_limit = log_.locked + 4 * static_cast<Bytes>(options_.parameters.block_bytes);
    std::vector<std::byte> sent = pattern(memory.size(), 4);
    TestRequest put;
    ASSERT_TRUE(
        start(world, operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), window, 0, sent.size()), put)
            .ok());
    world.progress(0);
    ASSERT_FALSE(put.done);
    window.registration.reset();
    world.end(1);
    for (int i = 0; i < 1000000 && !put.done; ++i) {
        world.progress(0);
        world.clock.advance(Nanoseconds{10000});
    }
    ASSERT_TRUE(put.done);
    EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(world.core(0).protocol().one_sided().under_way(), 0u);
}

} // namespace
} // namespace adaptib::test
