// SPDX-License-Identifier: BSD-3-Clause
// Devices that fall silent: no event, no completion, no error, whatever is posted. Complete cores
// over a simulated network find that out within the parameter failure_timeout. They do not mistake
// their own absence, a computing peer, or a long transfer over a slow link for it.
#include <algorithm>
#include <array>

#include "memory/registration.h"
#include "simulator/faults/fault.h"
#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;
using fault::Fault;
using test::TestRequest;

constexpr Nanoseconds kTimeout = 1s; // failure_timeout's default
// Nobody waits for the silent device any longer, so a repair takes microseconds; this is the bound.
constexpr Nanoseconds kRepair = 300ms;

char kPut[] = "put";
char kGet[] = "get";
char kEven[] = "even";
char kOff[] = "off";

struct Shape {
    char* rendezvous = kGet;
    std::uint64_t slower = 1; // factor, compared with the machine's links
    std::uint32_t ports = 2;
};

struct Answers {
    int timeout; // the parameter, in ms
    int retries;
    std::uint8_t code; // 4.096 us x 2^code is at least that time
};

// Two hosts; the fabric of each rank has faults.
class World2 final : private Clock {
public:
    explicit World2(const Shape& shape = {}, const Answers& answers = {1000, 6, 0})
        : ports_(shape.ports) {
        RanksOptions options;
        options.world.machine = *machine("connect-ib");
        options.world.machine.offers.reliable_ud = false;
        options.world.machine.adapter.port_rate.value /= shape.slower;
        options.world.topology =
            crossbar(2, {.ports = shape.ports}, links_of(options.world.machine));
        std::string text;
        EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
        options.parameters.rendezvous = shape.rendezvous;
        options.parameters.striping_policy = kEven;
        options.parameters.connect_threshold = 0;
        options.parameters.apm = kOff;
        options.parameters.answer_timeout = answers.timeout;
        options.parameters.answer_retries = answers.retries;
        options.wrap = [this](std::size_t rank, std::unique_ptr<Fabric> below) {
            return fault::with_faults(std::move(below), plans_[rank], *this, logs_[rank],
                                      [this, rank](Nanoseconds when) {
                                          if (ranks != nullptr) {
                                              ranks->wake(rank, when);
                                          }
                                      });
        };
        ranks = make(std::move(options));
        carry(*ranks, 0, 1, 1'000'000);
        carry(*ranks, 1, 0, 10);
        EXPECT_EQ(ranks->peer(0, 1)->lanes.live_subchannels(), shape.ports);
    }

    void set_silent(std::size_t rank, std::uint32_t rail, bool silent) {
        plans_[rank].faults.push_back(
            {.fault = silent ? Fault::rail_silent : Fault::rail_up, .rail = rail});
        ranks->wake(rank);
    }
    Nanoseconds time() const { return ranks->world().simulator().now(); }
    std::uint64_t sum(std::uint64_t Counters::*counter) {
        return ranks->counters(0).*counter + ranks->counters(1).*counter;
    }
    // Returns the time until `done`; max: longer than `limit`.
    template <typename F> Nanoseconds wait(F&& done, Nanoseconds limit = 100s) {
        const Nanoseconds began = time();
        return ranks->run_until(done, limit) ? time() - began : Nanoseconds::max();
    }
    void expect_connected_by_all() {
        for (const std::size_t rank : {0, 1}) {
            EXPECT_EQ(ranks->peer(rank, 1 - rank)->lanes.live_subchannels(), ports_) << rank;
            EXPECT_EQ(ranks->counters(rank).connections_failed, 0u);
            EXPECT_EQ(ranks->counters(rank).bad_packets, 0u);
        }
    }

    std::unique_ptr<Ranks> ranks;

private:
    Nanoseconds now() const override {
        return ranks == nullptr ? Nanoseconds{0} : ranks->world().simulator().now();
    }

    std::uint32_t ports_;
    std::array<fault::FaultPlan, 2> plans_;
    std::array<fault::FaultLog, 2> logs_;
};

bool arrived(const Messages& messages) {
    return std::all_of(messages.begin(), messages.end(),
                       [](const auto& message) { return message->done(); });
}

void expect_whole(const Messages& messages) {
    for (const auto& message : messages) {
        EXPECT_EQ(message->send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(message->receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_TRUE(message->got == message->sent);
    }
}

void start(World2& world, Messages& messages, std::size_t from, std::size_t bytes) {
    messages.push_back(std::make_unique<Message>(from, 1 - from, bytes, messages.size()));
    messages.back()->start(*world.ranks);
}

struct Case {
    char* rendezvous;
    std::size_t rank; // the rank whose device falls silent
    std::uint32_t rail;
};

class ASilentDevice : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, ASilentDevice,
                         testing::Values(Case{kGet, 0, 0}, Case{kGet, 0, 1}, Case{kGet, 1, 0},
                                         Case{kGet, 1, 1}, Case{kPut, 0, 0}, Case{kPut, 0, 1},
                                         Case{kPut, 1, 0}, Case{kPut, 1, 1}));

// The device falls silent in the middle of long messages both ways, with short ones among them.
TEST_P(ASilentDevice, IsFoundOut) {
    World2 world({.rendezvous = GetParam().rendezvous});
    Messages messages;
    for (const std::size_t from : {0, 1}) {
        start(world, messages, from, 20'000'000);
        start(world, messages, from, 100);
    }
    rest(*world.ranks, 500us);
    ASSERT_FALSE(arrived(messages));
    world.set_silent(GetParam().rank, GetParam().rail, true);
    const Nanoseconds took = world.wait([&] { return arrived(messages); });
    EXPECT_LT(took, kTimeout + kRepair);
    expect_whole(messages);
    EXPECT_GE(world.ranks->counters(GetParam().rank).repairs, 1u);
    EXPECT_EQ(world.ranks->peer(GetParam().rank, 1 - GetParam().rank)->lanes.live_subchannels(),
              1u);
    world.set_silent(GetParam().rank, GetParam().rail, false);
    for (int i = 0; i < 10; ++i) {
        rest(*world.ranks, 500ms);
        carry(*world.ranks, 0, 1, 1'000'000);
    }
    world.expect_connected_by_all();
}

// A short message is written into the ring, unsignaled, and nothing answers it before it is there.
TEST_P(ASilentDevice, IsFoundOutByOneShortMessage) {
    World2 world({.rendezvous = GetParam().rendezvous});
    world.set_silent(GetParam().rank, GetParam().rail, true);
    rest(*world.ranks, 1ms);
    Messages messages;
    start(world, messages, GetParam().rank, 8);
    EXPECT_LT(world.wait([&] { return arrived(messages); }), kTimeout + kRepair);
    expect_whole(messages);
}

// The other side only sends, and has used up the room of its ring.
TEST_P(ASilentDevice, IsFoundOutByWhoOnlyReturnsCredit) {
    World2 world({.rendezvous = GetParam().rendezvous});
    world.set_silent(GetParam().rank, GetParam().rail, true);
    rest(*world.ranks, 1ms);
    Messages messages;
    for (int i = 0; i < 2000; ++i) {
        start(world, messages, 1 - GetParam().rank, 1000);
    }
    EXPECT_LT(world.wait([&] { return arrived(messages); }), kTimeout + kRepair);
    expect_whole(messages);
}

TEST_P(ASilentDevice, IsFoundOutByPutsAndGets) {
    World2 world;
    const std::size_t from = GetParam().rank;
    std::vector<std::byte> window(8'000'000);
    std::vector<std::byte> local(window.size(), std::byte{5});
    Registration known;
    ASSERT_TRUE(known
                    .make(world.ranks->core(1 - from).rails(), window.data(), window.size(),
                          kLocalWrite | kRemoteRead | kRemoteWrite | kRemoteAtomic)
                    .ok());
    opal_common_adaptib_remote_t remote{};
    remote.base = reinterpret_cast<std::uintptr_t>(window.data());
    remote.bytes = window.size();
    remote.access = OPAL_COMMON_ADAPTIB_REMOTE_READ | OPAL_COMMON_ADAPTIB_REMOTE_WRITE;
    remote.key_count = known.key_count();
    known.copy_remote_keys(remote.keys);
    const bool put = GetParam().rendezvous == kPut;
    (put ? window : local).assign(window.size(), std::byte{9});
    (put ? local : window).assign(window.size(), std::byte{5});
    world.set_silent(from, GetParam().rail, true);
    rest(*world.ranks, 1ms);
    TestRequest request;
    const opal_common_adaptib_one_sided_t what{put ? OPAL_COMMON_ADAPTIB_PUT
                                                   : OPAL_COMMON_ADAPTIB_GET,
                                               local.data(),
                                               nullptr,
                                               remote.base,
                                               &remote,
                                               window.size(),
                                               0,
                                               0};
    bool complete = false;
    ASSERT_TRUE(
        world.ranks->core(from)
            .protocol()
            .one_sided()
            .start(*world.ranks->peer(from, 1 - from), what, nullptr, request.user, complete)
            .ok());
    EXPECT_FALSE(complete);
    world.ranks->wake(from);
    EXPECT_LT(world.wait([&] { return request.done; }), kTimeout + kRepair);
    EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
    EXPECT_TRUE((put ? window : local) == std::vector<std::byte>(window.size(), std::byte{5}));
}

// No other path lets the peer be heard: only when the device works again is it known that the old
// queue pair does not.
TEST(Silence, TheOnlyDeviceIsUsedAgainOnceItWorks) {
    World2 world({.ports = 1});
    Messages messages;
    start(world, messages, 0, 20'000'000);
    start(world, messages, 1, 20'000'000);
    rest(*world.ranks, 500us);
    world.set_silent(0, 0, true);
    EXPECT_EQ(world.wait([&] { return arrived(messages); }, 20s), Nanoseconds::max());
    world.set_silent(0, 0, false);
    EXPECT_LT(world.wait([&] { return arrived(messages); }), 5s);
    expect_whole(messages);
    world.expect_connected_by_all();
}

// A process that makes no call for long finds the completions of that time afterwards.
TEST(Silence, WhoDoesNotCallForLongDoesNotTakeThatForSilence) {
    World2 world;
    for (int i = 0; i < 5; ++i) {
        Messages messages;
        start(world, messages, 0, 20'000'000);
        start(world, messages, 1, 20'000'000);
        start(world, messages, 0, 8);
        rest(*world.ranks, 500us);
        world.ranks->process(i % 2).charge(i < 4 ? 30s : 1s);
        ASSERT_NE(world.wait([&] { return arrived(messages); }), Nanoseconds::max());
        expect_whole(messages);
    }
    EXPECT_EQ(world.sum(&Counters::paths_failed), 0u);
    EXPECT_EQ(world.sum(&Counters::repairs), 0u);
}

TEST(Silence, AProcessThatComputesIsWaitedFor) {
    World2 world;
    Messages messages;
    start(world, messages, 0, 8);
    world.set_silent(0, 0, true);
    world.ranks->process(1).charge(6s); // less than the longest time that a queue pair is given
    EXPECT_EQ(world.wait([&] { return world.sum(&Counters::paths_failed) > 0; }, 6s),
              Nanoseconds::max());
    EXPECT_LT(world.wait([&] { return arrived(messages); }), kTimeout + kRepair);
    expect_whole(messages);
}

TEST(Silence, DevicesAreToldHowLongTheyWaitForAnAnswer) {
    for (const Answers& answers : {Answers{1000, 6, 18}, Answers{1, 0, 8}, Answers{67, 3, 14},
                                   Answers{68, 7, 15}, Answers{1'000'000, 1, 28}}) {
        World2 world({}, answers);
        for (const Subchannel& subchannel : world.ranks->peer(0, 1)->lanes.subchannels) {
            EXPECT_EQ(subchannel.qp->query().timeout, answers.code);
            EXPECT_EQ(subchannel.qp->query().retry_count, answers.retries);
        }
    }
}

// As over RoCE, when the port of the peer has got another MAC address.
TEST(Silence, AQueuePairWhosePacketsVanishIsReplacedThoughItsPathAnswers) {
    for (const std::uint32_t ports : {1u, 2u}) {
        World2 world({.ports = ports});
        world.ranks->world().set_connections(false);
        Messages messages;
        start(world, messages, 0, 8);
        const auto replaced = [&] { return world.sum(&Counters::repairs) > 0; };
        const Nanoseconds took = world.wait(replaced);
        EXPECT_GT(took, kTimeout);
        EXPECT_LT(took, 2 * kTimeout);
        world.ranks->world().set_connections(true);
        EXPECT_LT(world.wait([&] { return arrived(messages); }), kRepair);
        expect_whole(messages);
    }
}

// A lost packet is sent again after answer_timeout, which may be longer than failure_timeout.
TEST(Silence, APacketThatIsSentAgainIsWaitedFor) {
    for (const int answer_timeout : {1000, 2000}) {
        World2 world({.ports = 1}, {answer_timeout, 6, 0});
        world.ranks->world().set_connections(false);
        Messages messages;
        start(world, messages, 0, 8);
        rest(*world.ranks, std::chrono::milliseconds{answer_timeout / 2});
        world.ranks->world().set_connections(true);
        EXPECT_LT(world.wait([&] { return arrived(messages); }, 10s),
                  std::chrono::milliseconds{answer_timeout});
        expect_whole(messages);
        EXPECT_EQ(world.sum(&Counters::repairs), 0u) << answer_timeout;
    }
}

// Nothing completes for seconds, as the links carry so little.
TEST(Silence, ALongTransferOverASlowLinkIsNotCut) {
    for (char* const rendezvous : {kGet, kPut}) {
        World2 world({.rendezvous = rendezvous, .slower = 1000});
        Messages messages;
        start(world, messages, 0, 100'000'000);
        const Nanoseconds took = world.wait([&] { return arrived(messages); });
        EXPECT_GT(took, 5s);
        EXPECT_LT(took, 50s);
        expect_whole(messages);
        EXPECT_GT(world.sum(&Counters::paths_suspected), 0u);
        EXPECT_EQ(world.sum(&Counters::paths_failed), 0u);
        EXPECT_EQ(world.sum(&Counters::repairs), 0u);
    }
}

} // namespace
} // namespace adaptib::sim
