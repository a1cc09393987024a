// SPDX-License-Identifier: BSD-3-Clause
// Put, get, atomics and active messages between cores.
#include <numeric>

#include "cores.h"

namespace adaptib::test {
namespace {

constexpr std::uint32_t kAll = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE |
                               OPAL_COMMON_ADAPTIB_REMOTE_ATOMIC;

// Memory of one node that the others may reach.
struct Window {
    Window(Cores& world, std::size_t node, void* base, std::size_t bytes,
           std::uint32_t access = kAll) {
        EXPECT_TRUE(registration
                        .make(world.core(node).rails(), base, bytes,
                              kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic)
                        .ok());
        remote.base = reinterpret_cast<std::uintptr_t>(base);
        remote.bytes = bytes;
        remote.access = access;
        remote.key_count = registration.key_count();
        registration.copy_remote_keys(remote.keys);
    }

    Registration registration;
    opal_common_adaptib_remote_t remote{};
};

opal_common_adaptib_one_sided_t operation(opal_common_adaptib_operation_t kind, void* local,
                                          const Window& window, std::uint64_t offset,
                                          std::size_t bytes) {
    return {kind, local, nullptr, window.remote.base + offset, &window.remote, bytes, 0, 0};
}

Peer* target(Cores& world, std::size_t from, std::size_t to) {
    Peer* peer = nullptr;
    if (from == to) {
        EXPECT_TRUE(world.core(from).get_loopback(peer).ok());
        return peer;
    }
    return world.peer(from, to);
}

Status start(Cores& world, std::size_t from, std::size_t to,
             const opal_common_adaptib_one_sided_t& what, TestRequest& request) {
    bool complete = false;
    const Status status = world.core(from).protocol().start_one_sided(
        *target(world, from, to), what, nullptr, request.user, complete);
    request.done = complete;
    return status;
}

class OneSidedTraffic : public testing::TestWithParam<const char*> {
protected:
    Options options() const {
        Options options;
        options.parameters.shm_single_copy = const_cast<char*>(GetParam());
        options.parameters.shm_rails = 2;
        return options;
    }
};
INSTANTIATE_TEST_SUITE_P(Copies, OneSidedTraffic, testing::Values("auto", "none"));

TEST_P(OneSidedTraffic, PutAndGetMoveEveryByteAndNoOther) {
    Cores world(2, options());
    for (std::size_t to : {std::size_t{0}, std::size_t{1}}) {
        std::vector<std::byte> memory(300000, std::byte{0x11});
        const Window window(world, to, memory.data(), memory.size());
        for (std::size_t size :
             {std::size_t{1}, std::size_t{8}, std::size_t{4097}, std::size_t{200000}}) {
            const std::size_t offset = size / 3 + 5;
            std::vector<std::byte> sent = pattern(size, size);
            std::vector<std::byte> expected = memory;
            std::copy(sent.begin(), sent.end(),
                      expected.begin() + static_cast<std::ptrdiff_t>(offset));
            TestRequest put;
            ASSERT_TRUE(start(world, 0, to,
                              operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), window, offset, size),
                              put)
                            .ok());
            ASSERT_TRUE(world.run({&put}));
            EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            EXPECT_EQ(memory, expected);
            std::vector<std::byte> got(size);
            TestRequest get;
            ASSERT_TRUE(start(world, 0, to,
                              operation(OPAL_COMMON_ADAPTIB_GET, got.data(), window, offset, size),
                              get)
                            .ok());
            ASSERT_TRUE(world.run({&get}));
            EXPECT_EQ(got, sent);
        }
    }
}

TEST_P(OneSidedTraffic, AtomicsOfSeveralOriginsAddUp) {
    Cores world(3, options());
    alignas(8) std::uint64_t word = 1000;
    const Window window(world, 0, &word, sizeof word);
    constexpr std::size_t kEach = 200;
    std::vector<TestRequest> requests(3 * kEach);
    std::vector<std::uint64_t> old(3 * kEach);
    std::vector<TestRequest*> all;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old[i], window, 0, 8);
        add.operand = 1;
        ASSERT_TRUE(start(world, i % 3, 0, add, requests[i]).ok());
        all.push_back(&requests[i]);
    }
    ASSERT_TRUE(world.run(all));
    EXPECT_EQ(word, 1000 + 3 * kEach);
    std::sort(old.begin(), old.end());
    for (std::size_t i = 0; i < old.size(); ++i) {
        ASSERT_EQ(old[i], 1000 + i) << "each origin saw a value of its own";
    }
    std::uint64_t seen = 0;
    for (const bool right : {false, true}) {
        auto swap = operation(OPAL_COMMON_ADAPTIB_COMPARE_SWAP, &seen, window, 0, 8);
        swap.compare = right ? word : word + 1;
        swap.operand = 7;
        const std::uint64_t before = word;
        TestRequest request;
        ASSERT_TRUE(start(world, 1, 0, swap, request).ok());
        ASSERT_TRUE(world.run({&request}));
        EXPECT_EQ(seen, before);
        EXPECT_EQ(word, right ? 7 : before);
    }
}

TEST_P(OneSidedTraffic, WhatIsOutsideOrForbiddenIsRefusedAtOnce) {
    Cores world(2, options());
    alignas(8) std::uint64_t words[4] = {};
    const Window all(world, 1, words, sizeof words);
    const Window readable(world, 1, words, sizeof words, OPAL_COMMON_ADAPTIB_REMOTE_READ);
    std::uint64_t local[5] = {};
    TestRequest request;
    const auto refused = [&](opal_common_adaptib_operation_t kind, const Window& window,
                             std::uint64_t offset, std::size_t bytes) {
        return start(world, 0, 1, operation(kind, local, window, offset, bytes), request).reason();
    };
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_PUT, all, 0, 33), Reason::bad_key);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_PUT, all, 25, 8), Reason::bad_key);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_GET, all, UINT64_MAX - 3, 8), Reason::bad_key);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_PUT, readable, 0, 8), Reason::bad_key);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, readable, 0, 8), Reason::bad_key);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, all, 4, 8), Reason::bad_argument);
    EXPECT_EQ(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, all, 0, 4), Reason::bad_argument);
    exchange(world, 100, 3); // nothing is broken
}

TEST_P(OneSidedTraffic, AWindowThatIsGoneEndsTheOperationWithAnError) {
    Cores world(2, options());
    std::vector<std::byte> memory(4096);
    auto window = std::make_unique<Window>(world, 1, memory.data(), memory.size());
    const opal_common_adaptib_remote_t stale = window->remote;
    window->registration.reset();
    std::vector<std::byte> sent(4096);
    TestRequest put;
    auto what = operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), *window, 0, 4096);
    what.remote = &stale;
    ASSERT_TRUE(start(world, 0, 1, what, put).ok());
    ASSERT_TRUE(world.run({&put}));
    EXPECT_NE(put.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_FALSE(world.messages(0).empty());
    EXPECT_EQ(world.core(0).protocol().one_sided_outstanding(), 0u);
}

struct Heard {
    std::vector<std::pair<std::uint8_t, std::vector<std::byte>>> messages;

    static void handler(void* context, Peer&, std::uint8_t tag, const std::byte* payload,
                        Bytes length) {
        static_cast<Heard*>(context)->messages.emplace_back(
            tag, std::vector<std::byte>(payload, payload + length));
    }
};

TEST(ActiveMessages, ArriveInOrderWhateverTheirSize) {
    for (const std::size_t ring : {std::size_t{4096}, std::size_t{131072}}) {
        Options options;
        options.parameters.ring_bytes = ring; // the small one takes no long message
        options.parameters.eager_limit = 1024;
        Cores world(2, options);
        Heard heard;
        world.core(1).protocol().listen(&Heard::handler, &heard);
        const Bytes longest = world.core(0).protocol().active_max();
        std::vector<std::vector<std::byte>> sent;
        std::vector<TestRequest> requests(500);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            sent.push_back(pattern(i % 5 == 0 ? longest : i, i));
            bool complete = false;
            ASSERT_TRUE(world.core(0)
                            .protocol()
                            .send_active(*world.peer(0, 1), static_cast<std::uint8_t>(i),
                                         contiguous(sent.back()), requests[i].user, complete)
                            .ok());
            requests[i].done = complete;
        }
        ASSERT_TRUE(world.run([&] { return heard.messages.size() == sent.size(); }));
        for (std::size_t i = 0; i < sent.size(); ++i) {
            EXPECT_EQ(heard.messages[i].first, static_cast<std::uint8_t>(i));
            ASSERT_EQ(heard.messages[i].second, sent[i]) << i;
        }
        EXPECT_GT(world.counters(0).ring_sent, 0u);
    }
}

TEST(ActiveMessages, TooLongIsRefusedAndUnheardIsDropped) {
    Cores world(2);
    std::vector<std::byte> sent(world.core(0).protocol().active_max() + 1);
    TestRequest request;
    bool complete = false;
    Protocol& protocol = world.core(0).protocol();
    EXPECT_EQ(protocol.send_active(*world.peer(0, 1), 1, contiguous(sent), request.user, complete),
              Status::error(Reason::bad_argument));
    sent.resize(8);
    ASSERT_TRUE(
        protocol.send_active(*world.peer(0, 1), 1, contiguous(sent), request.user, complete).ok());
    EXPECT_TRUE(world.run([&] { return world.counters(1).bad_packets == 1; }));
    exchange(world, 100, 3);
}

} // namespace
} // namespace adaptib::test
