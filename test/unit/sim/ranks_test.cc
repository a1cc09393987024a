// SPDX-License-Identifier: BSD-3-Clause
// Complete cores over the simulated fabric: messages of all sizes arrive, at the time that the
// machine model gives, in the same way every time.
#include "simulator/torture/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/core/test_request.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using Request = test::TestRequest;

RanksOptions two_hosts(std::size_t ranks = 2) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

Data contiguous(std::vector<std::byte>& buffer) {
    return {buffer.data(), buffer.size(), nullptr, nullptr, nullptr};
}

// Exchanges one message from rank 0 to rank 1, sent and received in their first turns.
void exchange(Ranks& ranks, std::size_t bytes, std::uint64_t seed) {
    Random random(seed);
    std::vector<std::byte> sent(bytes);
    for (std::byte& byte : sent) {
        byte = static_cast<std::byte>(random.next() >> 56);
    }
    std::vector<std::byte> got(bytes);
    Request send;
    Request receive;
    bool complete = false;
    Peer* peer = ranks.peer(0, 1);
    ASSERT_NE(peer, nullptr);
    ASSERT_TRUE(
        ranks.core(0)
            .protocol()
            .sends()
            .send(peer, {0, 0, 7}, contiguous(sent), false, OpKind::blocking, send.user, complete)
            .ok());
    send.done = complete;
    ranks.wake(0);
    complete = false;
    ASSERT_TRUE(ranks.core(1)
                    .protocol()
                    .receives()
                    .receive({0, 0, 7}, contiguous(got), receive.user, complete)
                    .ok());
    receive.done = complete;
    ASSERT_TRUE(ranks.run_until([&] { return send.done && receive.done; }, std::chrono::seconds{1}))
        << bytes << " bytes, idle " << ranks.idle();
    EXPECT_EQ(got, sent);
}

TEST(Ranks, MessagesOfAllSizesArrive) {
    RanksOptions options = two_hosts();
    std::string text;
    const std::unique_ptr<Ranks> ranks = Ranks::create(std::move(options), text);
    ASSERT_NE(ranks, nullptr) << text;
    std::uint64_t seed = 0;
    for (int round = 0; round < 20; ++round) {
        for (const std::size_t bytes : {0, 1, 100, 4000, 4096, 4097, 70'000, 1'000'000}) {
            exchange(*ranks, bytes, ++seed);
        }
    }
    EXPECT_GT(ranks->counters(0).ring_sent, 0u);
}

// Returns the trace of a world with random traffic of four ranks.
std::string trace_of(std::uint64_t seed) {
    RanksOptions options = two_hosts(4);
    options.seed = options.world.seed = seed;
    std::string text;
    const std::unique_ptr<Ranks> ranks = Ranks::create(std::move(options), text);
    if (ranks == nullptr) {
        return text;
    }
    std::string trace;
    ranks->world().trace = [&](const std::string& line) { trace += line + "\n"; };
    Random random(seed);
    std::vector<std::byte> memory(200'000);
    std::vector<std::unique_ptr<Request>> requests;
    for (int i = 0; i < 200; ++i) {
        const std::size_t from = random.below(4);
        const std::size_t to = (from + 1 + random.below(3)) % 4;
        const Data data{memory.data(), random.below(i % 10 == 0 ? 200'000 : 5'000), nullptr,
                        nullptr, nullptr};
        for (const bool sends : {true, false}) {
            requests.push_back(std::make_unique<Request>());
            bool complete = false;
            const Envelope envelope{0, static_cast<std::int32_t>(from), i};
            const Status status = sends ? ranks->core(from).protocol().sends().send(
                                              ranks->peer(from, to), envelope, data, false,
                                              OpKind::non_blocking, requests.back()->user, complete)
                                        : ranks->core(to).protocol().receives().receive(
                                              envelope, data, requests.back()->user, complete);
            EXPECT_TRUE(status.ok());
            requests.back()->done = complete;
            ranks->wake(sends ? from : to, Nanoseconds(random.below(100'000)));
        }
    }
    EXPECT_TRUE(ranks->run_until(
        [&] {
            return std::all_of(requests.begin(), requests.end(),
                               [](const auto& request) { return request->done; });
        },
        std::chrono::seconds{1}));
    return trace;
}

// A ring that has been idle for long is polled in turn with others. A reader that sleeps polls all
// rings when it wakes.
TEST(Ranks, AMessageIntoAnIdleRingIsSeenAtOnce) {
    constexpr std::size_t kRanks = 9;
    constexpr int kLong = 25'000; // passes
    RanksOptions options;
    options.ranks = kRanks;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(kRanks, {}, links_of(options.world.machine));
    char policy[] = "fixed:rc_ring";
    options.parameters.channel_policy = policy;
    std::string text;
    ASSERT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    const auto ranks = make(std::move(options));
    for (std::size_t from = 1; from < kRanks; ++from) {
        carry(*ranks, from, 0, 8);
        carry(*ranks, from, 0, 8);
    }
    for (int i = 0; i < kLong; ++i) {
        ranks->core(0).progress();
    }
    ASSERT_GT(ranks->core(0).ring_poller().cold(), 2u);
    for (std::size_t from = 1; from < kRanks; ++from) {
        const Nanoseconds before = std::max(ranks->now(0), ranks->now(from));
        carry(*ranks, from, 0, 8);
        EXPECT_LT(ranks->now(0) - before, Nanoseconds{100'000}) << from;
    }
}

// One thread has the turns of all endpoints of a process, and while it computes, none has any.
TEST(Ranks, EndpointsOfOneThreadShareItsTime) {
    RanksOptions options = two_hosts(4);
    options.endpoints = {2, 2};
    options.hosts = {0, 0, 1, 1};
    options.one_thread = true;
    const auto ranks = make(std::move(options));
    EXPECT_EQ(&ranks->process(0), &ranks->process(1));
    EXPECT_NE(&ranks->process(1), &ranks->process(2));
    for (const std::size_t endpoint : {0u, 1u}) {
        carry(*ranks, endpoint, 2 + endpoint, 8);
        carry(*ranks, 2 + endpoint, endpoint, 100'000);
    }
    const Nanoseconds computes = std::chrono::milliseconds{3};
    const Nanoseconds begin = ranks->now(0);
    ranks->compute(0, computes);
    carry(*ranks, 3, 1, 8);
    EXPECT_GE(ranks->now(1), begin + computes);
}

TEST(Ranks, TheSameSeedGivesTheSameTrace) {
    const std::string first = trace_of(5);
    EXPECT_GT(first.size(), 10'000u);
    EXPECT_TRUE(first == trace_of(5));
    EXPECT_TRUE(first != trace_of(6));
}

// A rank dies in the middle: operations of others that wait for it end with an error and a notice.
TEST(Ranks, ADeadRankIsNoticed) {
    for (const char* tolerance : {"on", "off"}) {
        SCOPED_TRACE(tolerance);
        const bool on = std::string(tolerance) == "on";
        std::string text;
        RanksOptions options = two_hosts();
        options.parameters.fault_tolerance = const_cast<char*>(tolerance);
        options.parameters.partition_timeout = 20;
        const std::unique_ptr<Ranks> ranks = Ranks::create(std::move(options), text);
        ASSERT_NE(ranks, nullptr) << text;
        exchange(*ranks, 100'000, 1);
        std::vector<std::byte> memory(1'000'000);
        Request request;
        bool complete = false;
        ASSERT_TRUE(ranks->core(0)
                        .protocol()
                        .sends()
                        .send(ranks->peer(0, 1), {0, 0, 7}, contiguous(memory), false,
                              OpKind::blocking, request.user, complete)
                        .ok());
        request.done = complete;
        ranks->wake(0);
        ranks->kill(1);
        EXPECT_TRUE(ranks->run_until([&] { return request.done; }, std::chrono::seconds{100}));
        EXPECT_NE(request.user.status, 0);
        ASSERT_FALSE(ranks->messages(0).empty());
        EXPECT_NE(
            ranks->messages(0).back().find(on ? "no path to it has worked for 20 s" : "retry"),
            std::string::npos)
            << ranks->messages(0).back();
    }
}

} // namespace
} // namespace adaptib::sim
