// SPDX-License-Identifier: BSD-3-Clause
// Put, get, atomics and active messages between cores.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "cores.h"
#include "protocol/ring_sends.h"
#include "window.h"

namespace adaptib::test {
namespace {

// Parameters: the way in which data is copied, and the end that executes atomics.
class OneSidedTraffic : public testing::TestWithParam<std::tuple<const char*, const char*>> {
protected:
    Options options() const {
        Options options;
        options.parameters.shm_single_copy = const_cast<char*>(std::get<0>(GetParam()));
        options.parameters.atomics = const_cast<char*>(std::get<1>(GetParam()));
        options.parameters.shm_rails = 2;
        return options;
    }
};
INSTANTIATE_TEST_SUITE_P(Copies, OneSidedTraffic,
                         testing::Combine(testing::Values("auto", "none"),
                                          testing::Values("adapter", "target")));

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
    exchange(world, 100, 20); // the target's regions are known once there is a connection
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
    window->open.reset();
    std::vector<std::byte> sent(4096);
    TestRequest put;
    auto what = operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), *window, 0, 4096);
    what.remote = &stale;
    ASSERT_TRUE(start(world, 0, 1, what, put).ok());
    ASSERT_TRUE(world.run({&put}));
    EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_BAD_PARAM);
    EXPECT_EQ(world.messages(0).size(), 1u);
    EXPECT_EQ(world.core(0).protocol().one_sided().under_way(), 0u);
    // With a connection the operation is refused at once. Neither case hurts anything else.
    EXPECT_EQ(start(world, 0, 1, what, put).reason(), Reason::bad_key);
    exchange(world, 100, 3);
}

// The description is that of a neighbor window, or half of each: osc/rdma may pass such ones on.
TEST_P(OneSidedTraffic, ADescriptionOfAnotherWindowOfTheTargetWillDo) {
    for (const bool connected : {false, true}) {
        Cores world(2, options());
        std::vector<std::uint64_t> memory(64, 5);
        const Window mine(world, 1, memory.data(), 256);
        const Window other(world, 1, memory.data() + 32, 256);
        if (connected) {
            exchange(world, 100, 20);
        }
        opal_common_adaptib_remote_t torn = other.remote;
        torn.base = mine.remote.base;
        for (const auto& remote : {other.remote, torn}) {
            for (const auto kind :
                 {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET, OPAL_COMMON_ADAPTIB_FETCH_ADD,
                  OPAL_COMMON_ADAPTIB_COMPARE_SWAP}) {
                std::uint64_t local = 7;
                auto what = operation(kind, &local, mine, 8, 8);
                what.remote = &remote;
                what.operand = 2;
                TestRequest request;
                ASSERT_TRUE(start(world, 0, 1, what, request).ok());
                ASSERT_TRUE(world.run({&request}));
                EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            }
        }
        EXPECT_EQ(memory[1], 9u) << "a put of 7, and 2 added";
        EXPECT_EQ(memory[32 + 1], 5u) << "the neighbour's";
        EXPECT_TRUE(world.messages(0).empty());
        const bool asked = std::string_view(std::get<1>(GetParam())) == "target";
        EXPECT_GE(world.counters(0).keys_replaced, asked ? 4u : 8u);
        exchange(world, 100, 3);
    }
}

// Starts many puts from node 0 to node 1; in the middle of them the window ends, or
// all of node 1 does.
void interrupt(Cores& world, Window& window, std::vector<std::byte>& memory, bool ends) {
    constexpr std::size_t kPuts = 64;
    const std::size_t size = memory.size();
    std::vector<std::byte> sent(size, std::byte{0x11});
    std::vector<TestRequest> puts(kPuts);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < kPuts; ++i) {
        if (i == kPuts / 2) {
            world.run([&] { return puts[3].done; });
            window.open.reset();
            if (ends) {
                world.end(1);
            }
            std::fill(memory.begin(), memory.end(), std::byte{0x22});
        }
        if (!start(world, 0, 1, operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), window, 0, size),
                   puts[i])
                 .ok()) {
            puts[i].done = true;
            puts[i].user.status = OPAL_COMMON_ADAPTIB_UNREACHABLE;
            ++refused;
        }
    }
    for (int pass = 0; pass < 100000; ++pass) {
        world.progress(0);
        if (!ends) {
            world.progress(1);
        }
        world.clock.advance(Nanoseconds{100000});
        if (world.core(0).protocol().one_sided().under_way() == 0) {
            break;
        }
    }
    EXPECT_EQ(world.core(0).protocol().one_sided().under_way(), 0u) << "puts that never end";
    std::size_t failed = 0;
    for (const TestRequest& put : puts) {
        ASSERT_TRUE(put.done);
        failed += put.user.status != OPAL_COMMON_ADAPTIB_SUCCESS;
    }
    EXPECT_GE(failed, kPuts / 2) << "a put succeeded after its target was gone";
    EXPECT_LT(failed, kPuts);
    EXPECT_LE(refused, kPuts / 2);
    EXPECT_EQ(memory, std::vector<std::byte>(size, std::byte{0x22})) << "written afterwards";
    const auto is_failure = [](const std::string& text) {
        return text.find("made anew") == std::string::npos;
    };
    EXPECT_EQ(std::ranges::count_if(world.messages(0), is_failure),
              !ends && refused == failed ? 0 : 1)
        << "one clear message, unless all were refused at their start";
}

TEST_P(OneSidedTraffic, AWindowThatGoesInTheMiddleOfPuts) {
    Cores world(3, options());
    std::vector<std::byte> memory(700000);
    Window window(world, 1, memory.data(), memory.size());
    exchange(world, 100, 20);
    interrupt(world, window, memory, false);
    // The target goes on: this process and another one still put to it.
    const Window other(world, 1, memory.data(), memory.size());
    for (const std::size_t from : {std::size_t{0}, std::size_t{2}}) {
        std::vector<std::byte> sent = pattern(memory.size(), from);
        TestRequest put;
        ASSERT_TRUE(start(world, from, 1,
                          operation(OPAL_COMMON_ADAPTIB_PUT, sent.data(), other, 0, sent.size()),
                          put)
                        .ok());
        ASSERT_TRUE(world.run({&put}));
        EXPECT_EQ(put.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(memory, sent);
    }
}

TEST_P(OneSidedTraffic, APeerThatEndsInTheMiddleOfPuts) {
    Cores world(3, options());
    std::vector<std::byte> memory(700000);
    Window window(world, 1, memory.data(), memory.size());
    exchange(world, 100, 20);
    interrupt(world, window, memory, true);
}

// Several initiators try operations within the call and start others, alternately.
TEST_P(OneSidedTraffic, AtOnceAndStartedAddUp) {
    for (const int rails : {1, 2}) {
        Options options = this->options();
        options.parameters.shm_rails = rails;
        Cores world(3, options);
        alignas(8) std::uint64_t words[2] = {1000, 0};
        const Window window(world, 0, words, sizeof words);
        constexpr std::size_t kEach = 300;
        std::vector<TestRequest> requests(3 * kEach);
        std::vector<std::uint64_t> old(3 * kEach);
        std::vector<TestRequest*> all;
        std::size_t at_once = 0;
        for (std::size_t i = 0; i < requests.size(); ++i) {
            auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old[i], window, 0, 8);
            add.operand = 1;
            if ((i / 3) % 3 != 0 && world.core(i % 3).protocol().one_sided().try_rma(
                                        *target(world, i % 3, 0), add, nullptr)) {
                requests[i].done = true;
                ++at_once;
            } else {
                ASSERT_TRUE(start(world, i % 3, 0, add, requests[i]).ok());
            }
            all.push_back(&requests[i]);
            if (i % 50 == 0) {
                world.progress();
            }
        }
        ASSERT_TRUE(world.run(all));
        EXPECT_EQ(words[0], 1000 + 3 * kEach);
        EXPECT_EQ(words[1], 0u);
        std::sort(old.begin(), old.end());
        for (std::size_t i = 0; i < old.size(); ++i) {
            ASSERT_EQ(old[i], 1000 + i) << "each origin saw a value of its own";
        }
        // Within the call: over the only path, where a single copy is possible; and by
        // the target itself.
        const bool target = std::string(std::get<1>(GetParam())) == "target";
        const bool fast_path =
            target || (rails == 1 && std::string(std::get<0>(GetParam())) == "auto");
        EXPECT_EQ(at_once > 0, fast_path) << at_once;
        EXPECT_EQ(world.core(1).protocol().one_sided().under_way(), 0u);
    }
}

TEST_P(OneSidedTraffic, NothingAtOnceThatIsNotAllowed) {
    Options options = this->options();
    options.parameters.shm_rails = 1;
    Cores world(2, options);
    alignas(8) std::uint64_t words[4] = {1, 2, 3, 4};
    auto all = std::make_unique<Window>(world, 1, words, sizeof words);
    const Window readable(world, 1, words, sizeof words, OPAL_COMMON_ADAPTIB_REMOTE_READ);
    std::uint64_t local[5] = {9, 9, 9, 9, 9};
    Protocol& protocol = world.core(0).protocol();
    const auto at_once = [&](const opal_common_adaptib_one_sided_t& what) {
        return protocol.one_sided().try_rma(*world.peer(0, 1), what, nullptr);
    };
    const auto put = operation(OPAL_COMMON_ADAPTIB_PUT, local, *all, 0, 8);
    EXPECT_FALSE(at_once(put)) << "not connected";
    local[0] = 1;
    TestRequest connecting;
    ASSERT_TRUE(start(world, 0, 1, put, connecting).ok());
    ASSERT_TRUE(world.run({&connecting}));
    const bool possible = std::string(std::get<0>(GetParam())) == "auto";
    EXPECT_EQ(at_once(put), possible);
    local[0] = 9;
    const auto refused = [&](opal_common_adaptib_operation_t kind, const Window& window,
                             std::uint64_t offset, std::size_t bytes) {
        return !at_once(operation(kind, local, window, offset, bytes));
    };
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_PUT, *all, 0, 33));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_PUT, *all, 25, 8));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_GET, *all, UINT64_MAX - 3, 8));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_PUT, *all, 0, 0));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_PUT, readable, 0, 8));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, readable, 0, 8));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, *all, 4, 8));
    EXPECT_TRUE(refused(OPAL_COMMON_ADAPTIB_FETCH_ADD, *all, 0, 4));
    opal_common_adaptib_remote_t lie = all->remote;
    for (const int count : {0, 9, UINT16_MAX}) {
        lie.key_count = static_cast<std::uint16_t>(count);
        auto what = put;
        what.remote = &lie;
        EXPECT_FALSE(at_once(what)) << count;
    }
    const opal_common_adaptib_remote_t stale = all->remote;
    all->open.reset();
    auto what = put;
    what.remote = &stale;
    EXPECT_FALSE(at_once(what)) << "the window is gone";
    EXPECT_EQ(words[0] + words[1] + words[2] + words[3], 10u);
    EXPECT_TRUE(world.messages(0).empty()) << "nothing is broken";
    exchange(world, 100, 3);
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
        world.core(1).protocol().active().listen(&Heard::handler, &heard);
        const Bytes longest = world.core(0).protocol().active().most();
        std::vector<std::vector<std::byte>> sent;
        std::vector<TestRequest> requests(500);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            sent.push_back(pattern(i % 5 == 0 ? longest : i, i));
            bool complete = false;
            ASSERT_TRUE(world.core(0)
                            .protocol()
                            .active()
                            .send(*world.peer(0, 1), static_cast<std::uint8_t>(i),
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

// Messages go in all three ways: within the call in two pieces, as a request, and two-sided in
// between. The small ring fills up, so that messages wait.
TEST(ActiveMessages, ThoseSentAtOnceKeepTheOrder) {
    for (const std::size_t ring : {std::size_t{4096}, std::size_t{131072}}) {
        Options options;
        options.parameters.ring_bytes = ring;
        options.parameters.eager_limit = 1024;
        Cores world(2, options);
        Heard heard;
        world.core(1).protocol().active().listen(&Heard::handler, &heard);
        Protocol& protocol = world.core(0).protocol();
        std::byte none{};
        EXPECT_FALSE(protocol.active().try_send(*world.peer(0, 1), 1, &none, 0, nullptr, 0))
            << "there is no ring yet";
        exchange(world, 100, 40);
        Random random(ring);
        std::vector<std::vector<std::byte>> sent;
        std::vector<TestRequest> requests(2000);
        std::size_t at_once = 0;
        std::size_t waiting = 0;
        for (std::size_t i = 0; i < requests.size(); ++i) {
            const std::size_t size = random.below(30) == 0 ? 8192 : 1 + random.below(300);
            const std::size_t cut = random.below(4) == 0 ? size : random.below(size + 1);
            const auto tag = static_cast<std::uint8_t>(i);
            sent.push_back(pattern(size, i));
            const std::byte* first = sent.back().data();
            if (random.below(4) != 0 &&
                protocol.active().try_send(*world.peer(0, 1), tag, first, cut,
                                           cut < size ? first + cut : nullptr, size - cut)) {
                requests[i].done = true;
                ++at_once;
            } else {
                bool complete = false;
                ASSERT_TRUE(protocol.active()
                                .send(*world.peer(0, 1), tag, contiguous(sent.back()),
                                      requests[i].user, complete)
                                .ok());
                requests[i].done = complete;
                waiting += complete ? 0 : 1;
            }
            if (random.below(100) == 0) {
                const std::size_t before = heard.messages.size() + random.below(60);
                for (int pass = 0; pass < 100 && heard.messages.size() < before; ++pass) {
                    world.progress(pass % 2 == 0 ? 1 : 0);
                }
            }
        }
        ASSERT_TRUE(world.run([&] { return heard.messages.size() == sent.size(); }));
        for (std::size_t i = 0; i < sent.size(); ++i) {
            ASSERT_EQ(heard.messages[i].first, static_cast<std::uint8_t>(i)) << i;
            ASSERT_EQ(heard.messages[i].second, sent[i]) << i;
        }
        for (TestRequest& request : requests) {
            ASSERT_TRUE(world.run({&request}));
        }
        EXPECT_GT(at_once, ring / 600);
        EXPECT_GT(waiting, 0u);
        EXPECT_EQ(world.counters(1).bad_packets, 0u);
        exchange(world, 100, 3);
    }
}

TEST(ActiveMessages, NoneAtOnceThatIsTooLongOrToAPeerThatIsLost) {
    Cores world(2);
    exchange(world, 100, 40);
    Peer* peer = world.peer(0, 1);
    std::vector<std::byte> bytes(world.core(0).protocol().active().most() + 1);
    const auto at_once = [&](std::size_t first, std::size_t second) {
        return world.core(0).protocol().active().try_send(*peer, 1, bytes.data(), first,
                                                          bytes.data(), second);
    };
    EXPECT_TRUE(at_once(8, 0));
    EXPECT_TRUE(at_once(8, bytes.size() - 9));
    EXPECT_FALSE(at_once(8, bytes.size() - 8)) << "longer than active_max";
    EXPECT_FALSE(at_once(bytes.size(), 0));
    EXPECT_TRUE(world.run([&] { return world.counters(1).bad_packets == 2; })) << "unheard";
    world.end(1);
    // Messages sent before that is known are lost; afterwards nothing is sent any more.
    for (int pass = 0; pass < 100000 && peer->contact.datagram.handle != nullptr; ++pass) {
        static_cast<void>(at_once(8, 8));
        world.progress(0);
        world.clock.advance(Nanoseconds{100000});
    }
    EXPECT_EQ(peer->session.state, ConnectState::idle) << "it has left";
    EXPECT_FALSE(at_once(8, 0));
    Protocol& protocol = world.core(0).protocol();
    const Envelope envelope{0, 0, 1};
    EXPECT_FALSE(RingSends::try_send(*peer, envelope, contiguous(bytes.data(), 8)));
    TestRequest request;
    bool complete = false;
    EXPECT_TRUE(protocol.sends()
                    .send(peer, envelope, contiguous(bytes.data(), 8), false, OpKind::blocking,
                          request.user, complete)
                    .ok());
    EXPECT_TRUE(complete);
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
    EXPECT_EQ(protocol.sends().send(peer, envelope, contiguous(bytes.data(), 8), false,
                                    OpKind::blocking, request.user, complete),
              Status::error(Reason::unreachable));
    ASSERT_EQ(world.messages(0).size(), 1u);
    EXPECT_NE(world.messages(0)[0].find(reason_text(Reason::peer_gone)), std::string::npos);
}

TEST(ActiveMessages, TooLongIsRefusedAndUnheardIsDropped) {
    Cores world(2);
    std::vector<std::byte> sent(world.core(0).protocol().active().most() + 1);
    TestRequest request;
    bool complete = false;
    Protocol& protocol = world.core(0).protocol();
    EXPECT_EQ(
        protocol.active().send(*world.peer(0, 1), 1, contiguous(sent), request.user, complete),
        Status::error(Reason::bad_argument));
    sent.resize(8);
    ASSERT_TRUE(protocol.active()
                    .send(*world.peer(0, 1), 1, contiguous(sent), request.user, complete)
                    .ok());
    EXPECT_TRUE(world.run([&] { return world.counters(1).bad_packets == 1; }));
    exchange(world, 100, 3);
}

} // namespace
} // namespace adaptib::test
