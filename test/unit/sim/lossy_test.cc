// SPDX-License-Identifier: BSD-3-Clause
// Complete cores over a network that loses, doubles and reorders datagrams: messages and connection
// handshakes come through, each once; a peer that no longer answers is given up.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "simulator/torture/ranks.h"
#include "unit/core/test_request.h"

namespace adaptib::sim {
namespace {

using Request = test::TestRequest;

RanksOptions lossy(std::size_t ranks, double loss, std::uint64_t seed) {
    RanksOptions options;
    options.ranks = ranks;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.machine.offers.reliable_ud = false;
    options.world.topology = crossbar(4, {}, links_of(options.world.machine));
    options.world.datagram_loss = options.world.datagram_twice = options.world.datagram_late = loss;
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

struct Message {
    std::vector<std::byte> sent;
    std::vector<std::byte> got;
    Request send;
    Request receive;
};

// `count` messages between random ranks; receives are posted in the order of sending for each pair.
std::vector<std::unique_ptr<Message>> start(Ranks& ranks, int count, std::size_t longest,
                                            std::uint64_t seed) {
    Random random(seed);
    std::vector<std::unique_ptr<Message>> messages;
    for (int i = 0; i < count; ++i) {
        const std::size_t from = random.below(ranks.size());
        const std::size_t to = (from + 1 + random.below(ranks.size() - 1)) % ranks.size();
        Message& m = *messages.emplace_back(std::make_unique<Message>());
        m.sent.resize(1 + random.below(longest));
        m.got.resize(m.sent.size());
        for (std::byte& byte : m.sent) {
            byte = static_cast<std::byte>(random.next() >> 56);
        }
        const Envelope envelope{0, static_cast<std::int32_t>(from), 3};
        bool complete = false;
        const Data out{m.sent.data(), m.sent.size(), nullptr, nullptr, nullptr};
        const Data in{m.got.data(), m.got.size(), nullptr, nullptr, nullptr};
        EXPECT_TRUE(ranks.core(from)
                        .protocol()
                        .sends()
                        .send(ranks.peer(from, to), envelope, out, i % 5 == 0, OpKind::non_blocking,
                              m.send.user, complete)
                        .ok());
        m.send.done = complete;
        complete = false;
        EXPECT_TRUE(ranks.core(to)
                        .protocol()
                        .receives()
                        .receive(envelope, in, m.receive.user, complete)
                        .ok());
        m.receive.done = complete;
        ranks.wake(from);
        ranks.wake(to);
    }
    return messages;
}

bool all_done(const std::vector<std::unique_ptr<Message>>& messages) {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& m) { return m->send.done && m->receive.done; });
}

class Lossy : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Percent, Lossy, testing::Values(0, 1, 10, 30));

TEST_P(Lossy, EveryMessageArrivesOnceAndInOrder) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        for (const int threshold : {16, 1'000'000}) { // with connections, and by datagrams alone
            SCOPED_TRACE(std::to_string(seed) + ", threshold " + std::to_string(threshold));
            RanksOptions options = lossy(4, GetParam() / 100.0, seed);
            options.parameters.connect_threshold = threshold;
            std::string text;
            const std::unique_ptr<Ranks> ranks = Ranks::create(std::move(options), text);
            ASSERT_NE(ranks, nullptr) << text;
            const std::size_t longest = threshold == 16 ? 20'000 : 1'500;
            const auto messages = start(*ranks, 300, longest, seed);
            ASSERT_TRUE(
                ranks->run_until([&] { return all_done(messages); }, std::chrono::seconds{100}))
                << (ranks->messages(0).empty() ? "" : ranks->messages(0).back());
            for (const auto& m : messages) {
                ASSERT_EQ(m->got, m->sent);
            }
            std::uint64_t repeated = 0;
            for (std::size_t i = 0; i < ranks->size(); ++i) {
                repeated += ranks->counters(i).datagram_repeated;
                EXPECT_EQ(ranks->counters(i).bad_packets, 0u);
            }
            EXPECT_EQ(repeated > 0, GetParam() > 0) << repeated;
            // Once everything is acknowledged, no rank has anything left to do.
            EXPECT_FALSE(ranks->run_until([] { return false; }, std::chrono::seconds{100}));
            EXPECT_TRUE(ranks->idle());
        }
    }
}

class LossyPeers : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(FaultTolerance, LossyPeers, testing::Values("on", "off"));

TEST_P(LossyPeers, OneThatDoesNotAnswerIsGivenUp) {
    RanksOptions options = lossy(2, 0, 1);
    options.parameters.connect_threshold = 1'000'000;
    options.parameters.fault_tolerance = const_cast<char*>(GetParam());
    options.parameters.partition_timeout = 20;
    std::string text;
    const std::unique_ptr<Ranks> ranks = Ranks::create(std::move(options), text);
    ASSERT_NE(ranks, nullptr) << text;
    ranks->kill(1);
    Message m;
    m.sent.resize(100);
    bool complete = false;
    const Data out{m.sent.data(), m.sent.size(), nullptr, nullptr, nullptr};
    ASSERT_TRUE(
        ranks->core(0)
            .protocol()
            .sends()
            .send(ranks->peer(0, 1), {0, 0, 3}, out, true, OpKind::blocking, m.send.user, complete)
            .ok());
    ranks->wake(0);
    ASSERT_TRUE(ranks->run_until([&] { return m.send.done; }, std::chrono::seconds{60}));
    EXPECT_NE(m.send.user.status, 0);
    ASSERT_FALSE(ranks->messages(0).empty());
    const std::string& said = ranks->messages(0).back();
    if (std::string(GetParam()) == "on") {
        EXPECT_NE(said.find("no path to it has worked for 20 s"), std::string::npos) << said;
        EXPECT_NE(said.find(" -> "), std::string::npos) << said;
        EXPECT_GT(ranks->now(0), std::chrono::seconds{20});
    } else {
        EXPECT_NE(said.find("retry"), std::string::npos) << said;
        EXPECT_GT(ranks->now(0), std::chrono::seconds{5});
    }
}

} // namespace
} // namespace adaptib::sim
