// SPDX-License-Identifier: BSD-3-Clause
// Endpoints that nobody has used: what they cost, and how they are opened by the first use, here or
// by a peer (interface/process.h).
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common_adaptib_active.h"
#include "common_adaptib_one_sided.h"
#include "unit/interface/endpoints.h"
#include "unit/interface/resources.h"
#include "unit/sanitizers.h"

namespace adaptib::test {
namespace {

class IdleEndpoints : public Endpoints {
protected:
    // Memory and the like that the process takes with so many endpoints.
    Resources cost_of(int endpoints) {
        process_parameters().endpoints = endpoints;
        const Resources before = resources_now();
        EXPECT_EQ(acquire(), kSuccess);
        const Resources cost = resources_now() - before;
        release();
        return cost;
    }
    std::size_t open() { return core_->process.open_ones().size(); }
    // As run_both(), while time passes for the other process: it looks again for an endpoint that
    // was not open after a pause.
    bool run_timed(const std::function<bool()>& condition) {
        return run_both([&] {
            others_->clock.advance(std::chrono::microseconds(10));
            return condition();
        });
    }
    // An unexpected message is found.
    bool finds(std::uint32_t mine, std::int32_t tag) {
        const opal_common_adaptib_envelope_t pattern{0, OPAL_COMMON_ADAPTIB_ANY_SOURCE, tag};
        opal_common_adaptib_probe_t found{};
        return opal_common_adaptib_probe(endpoint(mine), nullptr, &pattern, &found) == kSuccess;
    }
};

// -------------------------------------------------------------------------------------------------
// Costs

TEST_F(IdleEndpoints, TakeLittleMemory) {
    constexpr int kMost = 16;
    constexpr std::int64_t kBound = 4096; // bytes of each
    cost_of(kMost);                       // what stays for good, such as buffers of the C library
    const Resources one = cost_of(1);
    const Resources more = cost_of(kMost) - one;
    EXPECT_GT(one.shared, 0) << "the first has a segment";
    EXPECT_LE(more.heap + more.shared, (kMost - 1) * kBound);
    EXPECT_EQ(more.shared, 0);
    EXPECT_EQ(more.files, 0);
    EXPECT_EQ(more.threads, 0);
}

TEST_F(IdleEndpoints, AreLeftAloneByProgress) {
    begin(16);
    exchange(0, 0, 5);
    progress(5000);
    EXPECT_EQ(open(), 1u);
    for (std::uint32_t i = 1; i < 16; ++i) {
        EXPECT_EQ(passes(i), 0u);
        EXPECT_EQ(endpoint(i)->core, nullptr);
    }
}

TEST_F(IdleEndpoints, AreNotOpenedByWhatConcernsAll) {
    begin(4);
    for (std::uint32_t i = 1; i < 4; ++i) {
        EXPECT_EQ(opal_common_adaptib_flush_mark(endpoint(i)), 0u);
        opal_common_adaptib_broken_listen(
            endpoint(i), [](void*, opal_common_adaptib_peer_t*) {}, nullptr);
        opal_common_adaptib_broken_listen(endpoint(i), nullptr, nullptr);
    }
    int word = 0;
    opal_common_adaptib_memory_released(core_, &word, sizeof word);
    opal_common_adaptib_process_ended(core_, kOther + 1);
    opal_common_adaptib_quiesce_messages(core_);
    EXPECT_EQ(open(), 1u);
}

// -------------------------------------------------------------------------------------------------
// First use

TEST_F(IdleEndpoints, AreOpenedByAReceive) {
    begin(4);
    int word = 0;
    Request request;
    ASSERT_EQ(receive(2, nullptr, 5, word, request), kSuccess);
    EXPECT_EQ(open(), 2u);
    EXPECT_NE(endpoint(2)->core, nullptr);
    ASSERT_EQ(opal_common_adaptib_cancel(endpoint(2), &request.user), kSuccess);
}

TEST_F(IdleEndpoints, AreOpenedByAPeer) {
    begin(4, 2);
    std::array<int, 3> words{10, 11, 12};
    std::array<TestRequest, 3> sent;
    for (std::uint32_t i = 1; i < 4; ++i) {
        send_here(i % 2, i, 5, words[i - 1], sent[i - 1]);
    }
    ASSERT_TRUE(run_timed([&] { return open() == 4; }));
    for (std::uint32_t i = 1; i < 4; ++i) {
        ASSERT_TRUE(run_timed([&] { return finds(i, 5); })) << i;
        int got = 0;
        Request received;
        ASSERT_EQ(receive(i, nullptr, 5, got, received), kComplete);
        EXPECT_EQ(got, words[i - 1]);
    }
    EXPECT_TRUE(messages_.empty());
}

// This process makes no call.
TEST_F(IdleEndpoints, AreOpenedByAPeerWhileTheProcessComputes) {
    begin(2);
    int word = 42;
    TestRequest sent;
    send_here(0, 1, 5, word, sent);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((open() < 2 || !sent.done) && std::chrono::steady_clock::now() < end) {
        others_->clock.advance(std::chrono::microseconds(10));
        others_->progress();
    }
    EXPECT_TRUE(sent.done);
    EXPECT_EQ(open(), 2u);
    ASSERT_TRUE(run_timed([&] { return finds(1, 5); }));
    int got = 0;
    Request received;
    ASSERT_EQ(receive(1, nullptr, 5, got, received), kComplete);
    EXPECT_EQ(got, word);
}

TEST_F(IdleEndpoints, ReceiveAllThatWasSentBeforeInOrder) {
    constexpr int kMessages = 500;
    begin(2);
    std::vector<int> words(kMessages);
    const auto sent = std::make_unique<TestRequest[]>(kMessages);
    for (int i = 0; i < kMessages; ++i) {
        words[static_cast<std::size_t>(i)] = i;
        send_here(0, 1, 5, words[static_cast<std::size_t>(i)], sent[static_cast<std::size_t>(i)]);
    }
    for (int i = 0; i < kMessages; ++i) {
        int got = -1;
        Request received;
        const int code = receive(1, nullptr, 5, got, received);
        ASSERT_TRUE(code == kComplete || code == kSuccess);
        ASSERT_TRUE(run_timed([&] { return code == kComplete || received.reported > 0; }));
        ASSERT_EQ(got, i);
    }
    EXPECT_TRUE(run_timed([&] {
        return std::all_of(&sent[0], &sent[kMessages],
                           [](const TestRequest& each) { return each.done; });
    }));
}

TEST_F(IdleEndpoints, ReceiveALongMessage) {
    begin(2);
    std::vector<std::byte> out = pattern(1 << 20, 7);
    std::vector<std::byte> in(out.size());
    TestRequest sent;
    Request received;
    Peer* here = nullptr;
    ASSERT_TRUE(others_->core(0).peers().get(endpoint_name(kSelf, 1), here).ok());
    bool complete = false;
    ASSERT_TRUE(
        others_->core(0)
            .protocol()
            .sends()
            .send(here, {0, 0, 5}, contiguous(out), false, OpKind::blocking, sent.user, complete)
            .ok());
    ASSERT_FALSE(complete);
    ASSERT_TRUE(run_timed([&] { return finds(1, 5); }));
    const int code = opal_common_adaptib_recv_contig(endpoint(1), nullptr, 0, 0, 5, in.data(),
                                                     in.size(), &received.user);
    ASSERT_TRUE(
        run_timed([&] { return sent.done && (code == kComplete || received.reported > 0); }));
    EXPECT_EQ(in, out);
}

TEST_F(IdleEndpoints, CallTheHandlerOfActiveMessages) {
    begin(2);
    int handled = 0;
    opal_common_adaptib_active_listen(
        endpoint(1),
        [](void* context, opal_common_adaptib_peer_t*, std::uint8_t, const void*, std::size_t) {
            ++*static_cast<int*>(context);
        },
        &handled);
    EXPECT_EQ(open(), 1u);
    Peer* here = nullptr;
    ASSERT_TRUE(others_->core(0).peers().get(endpoint_name(kSelf, 1), here).ok());
    TestRequest sent;
    bool complete = false;
    int word = 5;
    ASSERT_TRUE(others_->core(0)
                    .protocol()
                    .active()
                    .send(*here, 9, contiguous(&word, sizeof word), sent.user, complete)
                    .ok());
    EXPECT_TRUE(run_timed([&] { return handled == 1; }));
    opal_common_adaptib_active_listen(endpoint(1), nullptr, nullptr);
}

// A process whose end was reported before the endpoint was opened.
TEST_F(IdleEndpoints, LearnWhichProcessesHaveEnded) {
    begin(2);
    others_->end(0);
    opal_common_adaptib_process_ended(core_, kOther);
    progress(2000);
    opened(1);
    opal_common_adaptib_peer_t* peer = nullptr;
    EXPECT_EQ(opal_common_adaptib_peer_at(endpoint(1), kOther, 0, &peer), kUnreachable);
    messages_.clear();
}

// -------------------------------------------------------------------------------------------------
// Failures

TEST_F(IdleEndpoints, ThatCannotBeOpenedSayWhyOnceAndAreOpenedLater) {
    if (kAsan) {
        GTEST_SKIP() << "a sanitizer's checks need files of their own";
    }
    begin(2);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    int word = 0;
    Request request;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int first = receive(1, nullptr, 5, word, request);
    const int second = receive(1, nullptr, 5, word, request);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_LT(first, 0);
    EXPECT_EQ(second, first);
    EXPECT_EQ(open(), 1u);
    expect_message(OPAL_COMMON_ADAPTIB_FAILURE, {"Endpoint 1", "cannot be opened"});
    exchange(1, 0, 5);
    EXPECT_EQ(open(), 2u);
}

// -------------------------------------------------------------------------------------------------
// Threads

// All threads use all endpoints for the first time, while a peer sends to these.
TEST_F(IdleEndpoints, AreOpenedOnceByManyThreads) {
    constexpr std::uint32_t kThreads = 4;
    begin(4);
    std::array<int, 4> words{};
    std::array<TestRequest, 4> sent;
    for (std::uint32_t i = 0; i < 4; ++i) {
        words[i] = static_cast<int>(i);
        send_here(0, i, 5, words[i], sent[i]);
    }
    std::atomic<std::uint32_t> over{0};
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint32_t i = 0; i < 4; ++i) {
                const std::uint32_t index = (i + thread) % 4;
                int word = -1;
                Request request;
                ASSERT_EQ(receive(index, nullptr, 100, word, request), kSuccess);
                progress(100);
                ASSERT_EQ(opal_common_adaptib_cancel(endpoint(index), &request.user), kSuccess);
            }
            ++over;
        });
    }
    while (over < kThreads) {
        others_->clock.advance(std::chrono::microseconds(10));
        others_->progress();
        opal_common_adaptib_memory_released(core_, &words, sizeof words);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(open(), 4u);
    for (std::uint32_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(run_timed([&] { return finds(i, 5); })) << i;
        Request received;
        int got = -1;
        EXPECT_EQ(receive(i, nullptr, 5, got, received), kComplete);
        EXPECT_EQ(got, words[i]);
    }
    EXPECT_TRUE(messages_.empty());
}

} // namespace
} // namespace adaptib::test
