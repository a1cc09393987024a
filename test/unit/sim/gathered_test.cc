// SPDX-License-Identifier: BSD-3-Clause
// Messages that devices gather from buffers which are sent again and again, over a simulated
// network whose ports fail: each buffer is overwritten, and used for another message, as soon as
// its request ends; every message arrives once, with the bytes that it was sent with.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRanks = 2;
constexpr std::size_t kPorts = 3;
constexpr std::size_t kBuffers = 6; // of each rank
constexpr Bytes kMost = 8192;

char kAlways[] = "always";
char kOff[] = "off";

RanksOptions networks(std::uint64_t seed, char* frequent = kAlways) {
    Random random(seed);
    RanksOptions options;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(kRanks, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.keeps_registrations = true;
    options.parameters.frequent_buffers = frequent;
    options.parameters.connect_threshold = 0;
    options.parameters.verbs_ring_bytes = random.below(2) == 0 ? 32768 : 262144;
    options.parameters.apm = kOff;
    return options;
}

// Messages that go as datagrams, up to the longest that one carries, which may be lost, doubled and
// late.
constexpr Bytes kMostOfADatagram = 3900;
char kDatagrams[] = "fixed:shared_sendrecv";
char kSharedRing[] = "fixed:shared_ring";

RanksOptions datagrams(std::uint64_t seed, double faults) {
    RanksOptions options = networks(seed);
    options.parameters.channel_policy = kDatagrams;
    options.world.datagram_loss = options.world.datagram_twice = options.world.datagram_late =
        faults;
    options.world.machine.offers.reliable_ud = faults == 0 && seed % 2 == 0;
    return options;
}

// Sends from a few buffers, one message after the other, from one rank to the other.
class Stream {
public:
    // `most`: bytes of the longest message.
    Stream(Ranks& ranks, std::size_t from, std::uint64_t seed, Bytes most)
        : ranks_(ranks), from_(from), random_(seed), most_(most) {
        for (Buffer& buffer : buffers_) {
            buffer.memory.resize(kMost);
        }
    }

    // Starts a send from each buffer that is free, until `count` messages have been sent; checks
    // those that have arrived.
    void step(std::size_t count) {
        for (Buffer& buffer : buffers_) {
            if (buffer.send.done && buffer.in_use) {
                EXPECT_EQ(buffer.send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                std::fill(buffer.memory.begin(), buffer.memory.end(), std::byte{0xee});
                buffer.in_use = false;
            }
            if (!buffer.in_use && sent_ < count) {
                start(buffer);
            }
        }
        while (!arriving_.empty() && arriving_.front()->receive.done) {
            check(*arriving_.front());
            arriving_.pop_front();
            ++arrived_;
        }
    }
    bool over(std::size_t count) const {
        return arrived_ == count && std::none_of(buffers_.begin(), buffers_.end(),
                                                 [](const Buffer& each) { return each.in_use; });
    }

    // Messages that were short enough to be eager ones.
    std::size_t eager() const { return eager_; }
    std::string text() const {
        return std::to_string(sent_) + " sent, " + std::to_string(arrived_) + " arrived";
    }

private:
    struct Buffer {
        std::vector<std::byte> memory;
        test::TestRequest send;
        bool in_use = false;
    };
    struct Arriving {
        Bytes bytes = 0;
        std::size_t number = 0;
        std::vector<std::byte> memory = std::vector<std::byte>(kMost);
        test::TestRequest receive;
    };

    std::byte byte_of(std::size_t number, std::size_t i) const {
        return static_cast<std::byte>(number * 31 + i * 7 + from_);
    }
    void start(Buffer& buffer) {
        const std::size_t to = 1 - from_;
        const Bytes bytes = 128 + random_.below(most_ - 127);
        const Envelope envelope{0, static_cast<std::int32_t>(from_), 3};
        auto arriving = std::make_unique<Arriving>();
        arriving->bytes = bytes;
        arriving->number = sent_;
        for (std::size_t i = 0; i < bytes; ++i) {
            buffer.memory[i] = byte_of(sent_, i);
        }
        bool complete = false;
        Peer* const peer = ranks_.peer(from_, to);
        eager_ += bytes <= peer->flow.eager_limit ? 1 : 0;
        buffer.send.done = false;
        buffer.send.user.status = OPAL_COMMON_ADAPTIB_SUCCESS;
        buffer.in_use = true;
        EXPECT_TRUE(ranks_.core(from_)
                        .protocol()
                        .sends()
                        .send(peer, envelope, data_of(buffer.memory, bytes), false,
                              OpKind::non_blocking, buffer.send.user, complete)
                        .ok());
        buffer.send.done = complete;
        complete = false;
        EXPECT_TRUE(ranks_.core(to)
                        .protocol()
                        .receives()
                        .receive(envelope, data_of(arriving->memory, kMost), arriving->receive.user,
                                 complete)
                        .ok());
        arriving->receive.done = complete;
        arriving_.push_back(std::move(arriving));
        ranks_.wake(from_);
        ranks_.wake(to);
        ++sent_;
    }
    static Data data_of(std::vector<std::byte>& memory, Bytes bytes) {
        return {memory.data(), bytes, nullptr, nullptr, nullptr};
    }
    void check(const Arriving& arriving) {
        ASSERT_EQ(arriving.receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(arriving.receive.user.bytes, arriving.bytes);
        for (std::size_t i = 0; i < arriving.bytes; ++i) {
            ASSERT_EQ(arriving.memory[i], byte_of(arriving.number, i))
                << "message " << arriving.number << ", byte " << i;
        }
    }

    Ranks& ranks_;
    const std::size_t from_;
    Random random_;
    const Bytes most_;
    std::array<Buffer, kBuffers> buffers_;
    std::deque<std::unique_ptr<Arriving>> arriving_;
    std::size_t sent_ = 0;
    std::size_t eager_ = 0;
    std::size_t arrived_ = 0;
};

// Streams both ways; `fail` is called before each step. Sets the number of each rank's eager
// messages.
template <typename Fail>
void carry_streams(Ranks& ranks, std::uint64_t seed, Fail&& fail,
                   std::array<std::size_t, kRanks>& eager, Bytes most = kMost) {
    constexpr std::size_t kCount = 400;
    Stream there(ranks, 0, seed, most);
    Stream back(ranks, 1, seed + 1, most);
    constexpr std::size_t kMostSteps = 200'000;
    Nanoseconds pause = 5us;
    for (std::size_t steps = 0; !(there.over(kCount) && back.over(kCount)); ++steps) {
        fail();
        there.step(kCount);
        back.step(kCount);
        ASSERT_FALSE(testing::Test::HasFailure());
        ASSERT_LT(steps, kMostSteps) << there.text() << ", " << back.text();
        const Nanoseconds before = ranks.world().simulator().now();
        rest(ranks, pause); // longer, until there is an event in that time
        pause = ranks.world().simulator().now() == before ? 2 * pause : Nanoseconds{5us};
    }
    eager = {there.eager(), back.eager()};
}
template <typename Fail> void carry_streams(Ranks& ranks, std::uint64_t seed, Fail&& fail) {
    std::array<std::size_t, kRanks> eager{};
    carry_streams(ranks, seed, fail, eager);
}

TEST(GatheredMessages, ArriveWholeWhileTheirBuffersAreUsedAgain) {
    const auto ranks = make(networks(1));
    std::array<std::size_t, kRanks> eager{};
    carry_streams(
        *ranks, 1, [] {}, eager);
    constexpr std::size_t kFirst = 10; // before there is a connection
    for (const std::size_t rank : {0, 1}) {
        EXPECT_GT(eager[rank], 150u);
        EXPECT_LE(ranks->counters(rank).messages_gathered, eager[rank]);
        EXPECT_GE(ranks->counters(rank).messages_gathered + kFirst, eager[rank]);
    }
    nothing_bad(*ranks);
}

TEST(GatheredMessages, AreCopiedIfGatheringIsOff) {
    const auto ranks = make(networks(1, kOff));
    carry_streams(*ranks, 1, [] {});
    EXPECT_EQ(ranks->counters(0).messages_gathered, 0u);
    nothing_bad(*ranks);
}

class GatheredStorms : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, GatheredStorms, testing::Range<std::uint64_t>(1, 21));

// Ports fail and come back at random, so that connections break with messages under way.
TEST_P(GatheredStorms, LoseNothing) {
    Random random(GetParam() * 991);
    const auto ranks = make(networks(GetParam()));
    std::array<std::array<bool, kPorts>, 2> down{};
    carry_streams(*ranks, GetParam(), [&] {
        if (random.below(20) == 0) {
            const std::size_t rank = random.below(2);
            const std::size_t port = random.below(kPorts);
            down[rank][port] = !down[rank][port];
            set_port(*ranks, rank, port, !down[rank][port]);
        }
    });
    EXPECT_GT(ranks->counters(0).messages_gathered, 100u);
    EXPECT_GT(ranks->counters(0).repairs + ranks->counters(1).repairs, 0u);
    for (const std::size_t rank : {0, 1}) {
        EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
        EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
    }
}

// Over queue pairs that peers share (DC), messages are gathered as over others.
TEST(GatheredMessages, GoOverSharedQueuePairs) {
    RanksOptions options = networks(5);
    options.parameters.channel_policy = kSharedRing;
    const auto ranks = make(std::move(options));
    std::array<std::size_t, kRanks> eager{};
    carry_streams(
        *ranks, 5, [] {}, eager);
    for (const std::size_t rank : {0, 1}) {
        EXPECT_GE(ranks->counters(rank).messages_gathered + 10, eager[rank]);
        EXPECT_GT(ranks->counters(rank).messages_gathered, 100u);
    }
    nothing_bad(*ranks);
}

// Carries streams of datagrams, between which `fail` is called; each rank gathers more than `least`
// of them. How many it gathers depends on where its buffers lie, too.
template <typename Fail>
std::unique_ptr<Ranks> carry_datagrams(std::uint64_t seed, RanksOptions options, Fail&& fail,
                                       std::uint64_t least = 20) {
    auto ranks = make(std::move(options));
    std::array<std::size_t, kRanks> eager{};
    carry_streams(
        *ranks, seed, [&] { fail(*ranks); }, eager, kMostOfADatagram);
    for (const std::size_t rank : {0, 1}) {
        EXPECT_GT(ranks->counters(rank).datagrams_gathered, least);
        EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
        EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
    }
    return ranks;
}

TEST(GatheredMessages, GoAsDatagrams) {
    for (const std::uint64_t seed : {1, 2}) { // acknowledged ones, and reliable ones
        const auto ranks = carry_datagrams(seed, datagrams(seed, 0), [](Ranks&) {});
        EXPECT_GT(ranks->counters(0).datagrams_gathered, 300u);
        EXPECT_EQ(ranks->counters(0).messages_gathered, 0u);
        EXPECT_LT(ranks->counters(0).datagram_loans_ended, 20u) << "acknowledgments come first";
        nothing_bad(*ranks);
    }
}

class GatheredDatagrams : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, GatheredDatagrams, testing::Range<std::uint64_t>(1, 7));

TEST_P(GatheredDatagrams, MayBeLostDoubledAndLate) {
    const auto ranks = carry_datagrams(GetParam(), datagrams(GetParam(), 0.1), [](Ranks&) {});
    EXPECT_GT(ranks->counters(0).datagram_loans_ended, 0u);
    EXPECT_GT(ranks->counters(0).datagram_repeated, 0u);
}

TEST_P(GatheredDatagrams, MoveToOtherPaths) {
    Random random(GetParam() * 77);
    std::array<std::array<bool, kPorts>, 2> down{};
    const auto ranks = carry_datagrams(GetParam(), datagrams(GetParam(), 0.02), [&](Ranks& all) {
        if (random.below(10) == 0) {
            const std::size_t rank = random.below(2);
            const std::size_t port = random.below(kPorts);
            down[rank][port] = !down[rank][port];
            set_port(all, rank, port, !down[rank][port]);
        }
    });
    EXPECT_GT(ranks->counters(0).datagram_moves + ranks->counters(1).datagram_moves, 0u);
}

// Rings come while datagrams are under way.
TEST_P(GatheredDatagrams, GiveWayToRings) {
    RanksOptions options = datagrams(GetParam(), 0.1);
    options.parameters.channel_policy = networks(GetParam()).parameters.channel_policy;
    options.parameters.connect_threshold = 50; // so that few messages are datagrams
    const auto ranks = carry_datagrams(
        GetParam(), std::move(options), [](Ranks&) {}, 2);
    EXPECT_GT(ranks->counters(0).messages_gathered + ranks->counters(1).messages_gathered, 0u);
}

// A peer is lost while messages to it are under way: their requests end with an error.
TEST(GatheredMessages, EndWithTheirPeer) {
    RanksOptions options = networks(3);
    options.parameters.partition_timeout = 5;
    const auto ranks = make(std::move(options));
    carry_streams(*ranks, 3, [] {});
    Messages messages;
    for (std::size_t i = 0; i < 5; ++i) {
        messages.push_back(std::make_unique<Message>(0, 1, 1000, i));
        messages.back()->start_send(*ranks, 7);
        EXPECT_FALSE(messages.back()->send.done) << "gathered";
    }
    ranks->kill(1);
    const auto all_sent = [&] {
        return std::all_of(messages.begin(), messages.end(),
                           [](const auto& message) { return message->send.done; });
    };
    EXPECT_TRUE(ranks->run_until(all_sent, 60s));
}

} // namespace
} // namespace adaptib::sim
