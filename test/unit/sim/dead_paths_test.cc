// SPDX-License-Identifier: BSD-3-Clause
// Paths that never carry a connection, of complete cores over a simulated network: separate
// networks that look alike, and networks that pass datagrams alone.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "unit/sim/open_memory.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

RanksOptions hosts(std::size_t ranks, std::uint32_t ports, int threshold) {
    RanksOptions options;
    options.ranks = ranks;
    options.world.machine = *machine("connect-ib");
    options.world.machine.offers.dc = false;
    options.world.machine.offers.migration = false;
    options.world.topology =
        crossbar(static_cast<std::uint32_t>(ranks), {.ports = ports, .one_network = true},
                 links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.connect_threshold = threshold;
    return options;
}

Messages messages_of_all_sizes(Ranks& ranks) {
    Messages messages;
    for (const std::size_t bytes : {10u, 3000u, 8000u, 8192u, 1'000'000u}) {
        for (const std::size_t from : {0u, 1u}) {
            messages.push_back(std::make_unique<Message>(from, 1 - from, bytes, messages.size()));
            messages.back()->start(ranks);
        }
    }
    return messages;
}

std::size_t count(const std::vector<std::string>& texts, const std::string& words) {
    return static_cast<std::size_t>(
        std::count_if(texts.begin(), texts.end(), [&](const std::string& text) {
            return text.find(words) != std::string::npos;
        }));
}

std::string all(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) {
        out += text + "\n";
    }
    return out;
}

struct Planes {
    const char* name;
    std::vector<std::uint32_t> of_first; // host, by port
    std::vector<std::uint32_t> of_second;
    int threshold;
};

class AlikePlanes : public testing::TestWithParam<Planes> {};
INSTANTIATE_TEST_SUITE_P(Orders, AlikePlanes,
                         testing::Values(Planes{"same", {0, 1}, {0, 1}, 0},
                                         Planes{"crossed", {0, 1}, {1, 0}, 0},
                                         Planes{"crossed_later", {0, 1}, {1, 0}, 16},
                                         Planes{"one_in_common", {0, 1}, {2, 0}, 0}),
                         [](const auto& test) { return std::string(test.param.name); });

// Nothing but the answers tells which rail leads where.
TEST_P(AlikePlanes, MessagesArriveOverThePathsThatThereAre) {
    const Planes& planes = GetParam();
    const auto ports = static_cast<std::uint32_t>(planes.of_first.size());
    const auto ranks = make(hosts(2, ports, planes.threshold));
    std::size_t common = 0;
    for (std::size_t port = 0; port < ports; ++port) {
        const auto& there = ranks->world().topology().hosts;
        ranks->world().set_plane(there[0].ports[port], planes.of_first[port]);
        ranks->world().set_plane(there[1].ports[port], planes.of_second[port]);
        common +=
            std::count(planes.of_second.begin(), planes.of_second.end(), planes.of_first[port]);
    }
    Messages messages = messages_of_all_sizes(*ranks);
    ranks->run_until([&] { return all_done(messages); }, 2s);
    expect_arrived(messages);
    rest(*ranks, 20s);
    messages = messages_of_all_sizes(*ranks);
    ranks->run_until([&] { return all_done(messages); }, 2s);
    expect_arrived(messages);
    for (const std::size_t rank : {0u, 1u}) {
        expect_unbroken(*ranks, rank);
        EXPECT_EQ(ranks->peer(rank, 1 - rank)->lanes.live_subchannels(), common)
            << all(ranks->messages(rank));
        EXPECT_LE(count(ranks->messages(rank), "look alike"),
                  planes.of_first == planes.of_second ? 0u : 1u);
        EXPECT_LE(ranks->counters(rank).repairs, 3u);
    }
    EXPECT_EQ(count(ranks->messages(0), "look alike") + count(ranks->messages(1), "look alike") > 0,
              planes.of_first != planes.of_second)
        << all(ranks->messages(0)) << all(ranks->messages(1));
}

// Ports, and whether the device has DC, whose connections carry nothing either.
class DeadConnections : public testing::TestWithParam<std::tuple<std::uint32_t, bool>> {};
INSTANTIATE_TEST_SUITE_P(Ports, DeadConnections,
                         testing::Combine(testing::Values(1u, 2u), testing::Bool()));

// The first messages lie in rings that nothing reaches, and some are too long for a datagram.
TEST_P(DeadConnections, MessagesGoAsDatagrams) {
    const auto [ports, dc] = GetParam();
    RanksOptions options = hosts(2, ports, 0);
    options.world.machine.offers.dc = dc;
    const auto ranks = make(std::move(options));
    ranks->world().set_connections(false);
    Messages messages = messages_of_all_sizes(*ranks);
    ranks->run_until([&] { return all_done(messages); }, 60s);
    SCOPED_TRACE(all(ranks->messages(0)) + all(ranks->messages(1)));
    expect_arrived(messages);
    const auto notices = [&] {
        return count(ranks->messages(0), "carry nothing") +
               count(ranks->messages(1), "carry nothing");
    };
    EXPECT_GE(notices(), 1u) << all(ranks->messages(0)) << all(ranks->messages(1));
    EXPECT_LE(notices(), 2u) << "one of each process at most";
    messages = messages_of_all_sizes(*ranks);
    ranks->run_until([&] { return all_done(messages); }, 100s);
    expect_arrived(messages);
    for (const std::size_t rank : {0u, 1u}) {
        expect_unbroken(*ranks, rank);
    }
    ranks->world().set_connections(true);
    ranks->compute(0, 300s);
    ranks->compute(1, 300s);
    rest(*ranks, 301s);
    carry(*ranks, 0, 1, 100'000);
    rest(*ranks, 1s);
    carry(*ranks, 1, 0, 100'000);
    EXPECT_EQ(ranks->peer(0, 1)->session.state, ConnectState::open);
    EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), ports);
}

// Data that is not contiguous, of the same bytes each way.
struct Strided {
    std::vector<std::byte> memory = std::vector<std::byte>(20'000'000, std::byte{5});
    Data data() { return {nullptr, memory.size(), pack, unpack, this}; }
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length) {
        std::copy_n(static_cast<Strided*>(context)->memory.data() + offset, *length,
                    static_cast<std::byte*>(to));
        return 0;
    }
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
        std::copy_n(static_cast<const std::byte*>(from), *length,
                    static_cast<Strided*>(context)->memory.data() + offset);
        return 0;
    }
};

constexpr int kPatience = 60; // s
// The rests of 30 and 60 s, after which kPatience is over, and the attempts between them.
constexpr Nanoseconds kAtMost = 120s;

RanksOptions patient_hosts(std::uint32_t ports, bool dc) {
    RanksOptions options = hosts(2, ports, 0);
    options.world.machine.offers.dc = dc;
    options.parameters.partition_timeout = kPatience;
    return options;
}

void expect_given_up(const test::TestRequest& request) {
    EXPECT_TRUE(request.done);
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_UNREACHABLE);
}

// One side at least finds the reason; the other one may learn from it that it is given up.
void expect_reason(Ranks& ranks) {
    EXPECT_GE(count(ranks.messages(0), "have carried nothing for more than") +
                  count(ranks.messages(1), "have carried nothing for more than"),
              1u)
        << all(ranks.messages(0)) << all(ranks.messages(1));
}

TEST_P(DeadConnections, APutEndsWithTheReason) {
    const auto [ports, dc] = GetParam();
    const auto ranks = make(patient_hosts(ports, dc));
    OpenMemory memory(*ranks, 100'000);
    ranks->world().set_connections(false);
    std::vector<std::byte> sent(1000);
    test::TestRequest put;
    memory.start(0, 1, OPAL_COMMON_ADAPTIB_PUT, sent, put);
    rest(*ranks, std::chrono::seconds{kPatience});
    EXPECT_FALSE(put.done);
    ranks->run_until([&] { return put.done; }, kAtMost);
    expect_given_up(put);
    expect_reason(*ranks);
}

TEST_P(DeadConnections, AMessageThatIsNotContiguousAndHasBegunEndsWithTheReason) {
    const auto [ports, dc] = GetParam();
    const auto ranks = make(patient_hosts(ports, dc));
    carry(*ranks, 0, 1, 1000);
    rest(*ranks, 1s);
    Strided from;
    Strided to;
    test::TestRequest send;
    test::TestRequest receive;
    bool complete = false;
    const Envelope envelope{0, 1, 3};
    ASSERT_TRUE(ranks->core(0)
                    .protocol()
                    .receives()
                    .receive(envelope, to.data(), receive.user, complete, nullptr)
                    .ok());
    ASSERT_TRUE(ranks->core(1)
                    .protocol()
                    .sends()
                    .send(ranks->peer(1, 0), envelope, from.data(), false, OpKind::non_blocking,
                          send.user, complete)
                    .ok());
    ranks->wake(0);
    ranks->wake(1);
    const auto has_begun = [&] {
        return ranks->core(1).protocol().waits_for_connection(*ranks->peer(1, 0));
    };
    ASSERT_TRUE(ranks->run_until(has_begun, 1s));
    rest(*ranks, 100us);
    ASSERT_FALSE(receive.done);
    ranks->world().set_connections(false);
    ranks->run_until([&] { return send.done && receive.done; }, 2 * kAtMost);
    rest(*ranks, 1s); // one side may have learnt last
    SCOPED_TRACE(all(ranks->messages(0)) + all(ranks->messages(1)));
    rest(*ranks, 1s);
    expect_given_up(receive);
    expect_given_up(send);
    expect_reason(*ranks);
}

// Messages alone do not need connections, however long there are none.
TEST_P(DeadConnections, MessagesAreNotGivenUp) {
    const auto [ports, dc] = GetParam();
    const auto ranks = make(patient_hosts(ports, dc));
    ranks->world().set_connections(false);
    for (int i = 0; i < 10; ++i) {
        const Messages messages = messages_of_all_sizes(*ranks);
        ranks->run_until([&] { return all_done(messages); }, 60s);
        expect_arrived(messages);
        rest(*ranks, 30s);
    }
    for (const std::size_t rank : {0u, 1u}) {
        expect_unbroken(*ranks, rank);
    }
}

} // namespace
} // namespace adaptib::sim
