// SPDX-License-Identifier: BSD-3-Clause
// Whole cores over a fabric with faults: whatever goes wrong, requests end, and notices
// name a lost peer.
//
// Node 0's fabric has the faults. The passive end does not notice errors of its peer's end, so the
// tests expect of node 1 only what it can know: once node 0 has ended, node 1's sends end.
#include <algorithm>
#include <array>
#include <deque>

#include "simulator/faults/fault.h"
#include "unit/core/cores.h"

namespace adaptib::test {
namespace {

using fault::Fault;
using fault::PlannedFault;

constexpr std::array<std::size_t, 8> kSizes{0, 8, 200, 2000, 4000, 9000, 40000, 90000};
constexpr std::size_t kMessages = 20; // each way

struct Config {
    const char* name;
    const char* rendezvous;
    bool stores; // the writer stores into rings; otherwise every message is a request
    int connect_threshold;
};
constexpr std::array kConfigs{Config{"get", "get", true, 0}, Config{"put", "put", true, 0},
                              Config{"get_posted", "get", false, 0},
                              Config{"put_posted", "put", false, 0},
                              Config{"get_late_connection", "get", false, 6}};

// Two cores and traffic between them.
class Traffic {
public:
    explicit Traffic(const Config& config, std::uint64_t seed = 1) : random_(seed) {
        plan.seed = seed;
        // All transfers are requests; node 1's fabric is unchanged.
        plan.lacks = static_cast<std::uint32_t>(Capability::whole_memory);
        if (!config.stores) {
            plan.lacks |= static_cast<std::uint32_t>(Capability::direct);
        }
        Options options;
        options.seed = seed;
        options.parameters.rendezvous = const_cast<char*>(config.rendezvous);
        options.parameters.connect_threshold = config.connect_threshold;
        options.parameters.block_bytes = 16384;
        options.wrap = [this](std::size_t node, std::unique_ptr<Fabric> fabric,
                              const Clock& clock) {
            return node == 0 ? fault::with_faults(std::move(fabric), plan, clock, log)
                             : std::move(fabric);
        };
        world = std::make_unique<Cores>(2, options);
    }
    ~Traffic() { world.reset(); } // before the buffers that the cores may still write to

    // Posts all messages, with passes in between; refused ones count as ended.
    void start() {
        for (std::size_t i = 0; i < kMessages; ++i) {
            for (const std::size_t from : {std::size_t{0}, std::size_t{1}}) {
                const std::size_t bytes = kSizes[random_.below(kSizes.size())];
                const bool strided = random_.below(4) == 0;
                post(from, bytes, strided);
                if (random_.below(3) == 0) {
                    world->progress();
                }
            }
        }
    }
    void post(std::size_t from, std::size_t bytes, bool strided) {
        Message& message = messages_.emplace_back(from, bytes, messages_.size());
        const auto tag = static_cast<std::int32_t>(messages_.size());
        const Data out = strided ? message.scattered.data() : contiguous(message.sent);
        Peer* source = nullptr;
        bool complete = false;
        Status status = world->core(1 - from).peers().get(Cores::name(from), source);
        if (status.ok()) {
            status = world->core(1 - from).protocol().receives().receive(
                {0, static_cast<std::int32_t>(from), tag}, contiguous(message.got),
                message.receive.user, complete, source);
        }
        message.receive.done = complete || !status.ok();
        message.receive_refused = !status.ok();
        if (status.ok()) {
            status = world->send(from, 1 - from, tag, out, message.send);
        }
        if (!status.ok()) { // nobody else tells the receiver
            message.send.done = true;
            if (!message.receive.done) {
                message.receive_refused = message.receive.done =
                    world->core(1 - from).protocol().receives().cancel(message.receive.user);
            }
        }
    }
    // Runs until `done`, or until `passes` are over.
    bool run(const std::function<bool()>& done, int passes = 20000) {
        for (int pass = 0; pass < passes && !done(); ++pass) {
            world->progress();
            world->clock.advance(Nanoseconds{1000});
        }
        return done();
    }
    bool all_done() const {
        return std::all_of(messages_.begin(), messages_.end(), [](const Message& message) {
            return message.send.done && message.receive.done;
        });
    }
    // Requests of `node` that have not ended.
    std::size_t left(std::size_t node, bool receives_too = true) const {
        std::size_t count = 0;
        for (const Message& message : messages_) {
            if (message.from == node) {
                count += message.send.done ? 0 : 1;
            } else if (receives_too) {
                count += message.receive.done ? 0 : 1;
            }
        }
        return count;
    }
    // Checks that received messages are those that were sent; returns their number.
    std::size_t check_payloads() const {
        std::size_t good = 0;
        for (const Message& message : messages_) {
            if (message.receive.done && !message.receive_refused &&
                message.receive.user.status == OPAL_COMMON_ADAPTIB_SUCCESS) {
                EXPECT_EQ(message.receive.user.bytes, message.sent.size());
                EXPECT_TRUE(message.got == message.sent);
                ++good;
            }
        }
        return good;
    }
    bool reported(std::size_t node, const std::string& part) const {
        const auto& messages = world->messages(node);
        return std::any_of(messages.begin(), messages.end(), [&](const std::string& text) {
            return text.find(part) != std::string::npos;
        });
    }
    bool lost(std::size_t node) {
        return world->peer(node, 1 - node)->session.state == ConnectState::failed;
    }
    // Expects that all messages arrive, and that no core has anything to report.
    void expect_all_arrived() {
        EXPECT_TRUE(run([this] { return all_done(); })) << left(0) << " and " << left(1) << " left";
        EXPECT_EQ(check_payloads(), 2 * kMessages);
        EXPECT_TRUE(world->messages(0).empty()) << world->messages(0)[0];
        EXPECT_TRUE(world->messages(1).empty());
    }
    // Expects that node 0 has lost the peer, or noticed nothing; in the first case it ends,
    // and node 1 notices.
    void expect_ends(const std::string& why) {
        run([this] { return all_done() || (lost(0) && left(0) == 0); });
        world->progress(); // a pass reports what the one before it has lost
        if (all_done() && !lost(0)) {
            check_payloads();
            return;
        }
        EXPECT_TRUE(lost(0)) << "it hangs";
        EXPECT_EQ(left(0), 0u);
        EXPECT_TRUE(reported(0, why))
            << (world->messages(0).empty() ? "nothing" : world->messages(0)[0]);
        expect_the_other_notices();
        check_payloads();
    }
    void expect_the_other_notices() {
        world->end(0);
        std::vector<std::byte> last(100);
        TestRequest request;
        const bool refused = !world->send(1, 0, 999, contiguous(last), request).ok();
        request.done = request.done || refused;
        for (int pass = 0; pass < 300000 && !(request.done && left(1, false) == 0); ++pass) {
            world->progress(1);
            world->clock.advance(Nanoseconds{1000});
        }
        EXPECT_TRUE(request.done);
        EXPECT_EQ(left(1, false), 0u);
    }

    fault::FaultPlan plan;
    fault::FaultLog log;
    std::unique_ptr<Cores> world;

private:
    using Message = PatternMessage;

    Random random_;
    std::deque<Message> messages_;
};

class FaultyCores : public testing::TestWithParam<Config> {};
INSTANTIATE_TEST_SUITE_P(Configs, FaultyCores, testing::ValuesIn(kConfigs),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(FaultyCores, WithoutFaultsAllArrives) {
    Traffic traffic(GetParam());
    traffic.start();
    traffic.expect_all_arrived();
    EXPECT_TRUE(traffic.log.entries.empty());
}

// Each request fails in turn, executed or not.
TEST_P(FaultyCores, TheNthRequestFails) {
    constexpr std::array kStatuses{WorkStatus::retry_exceeded, WorkStatus::remote_access_error,
                                   WorkStatus::general_error, WorkStatus::fatal};
    std::size_t injected = 0;
    for (std::uint64_t nth = 1; nth <= 40; ++nth) {
        for (const Fault fault : {Fault::request_fails, Fault::request_fails_done}) {
            SCOPED_TRACE(testing::Message()
                         << "request " << nth << " fault " << static_cast<int>(fault));
            const WorkStatus status = kStatuses[nth % kStatuses.size()];
            Traffic traffic(GetParam(), nth);
            traffic.plan.faults.push_back({.fault = fault, .nth = nth, .status = status});
            traffic.start();
            traffic.expect_ends(work_status_text(status));
            injected += traffic.log.entries.size();
        }
    }
    EXPECT_GT(injected, 10u);
}

TEST_P(FaultyCores, LateCompletionsAndFullQueuesDelayOnly) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(GetParam(), seed);
        traffic.plan.faults = {
            {.fault = Fault::completion_delayed, .rate = 0.2, .delay = {20, {}}},
            {.fault = Fault::completion_delayed, .rate = 0.1, .delay = {0, Nanoseconds{50000}}},
            {.fault = Fault::send_refused, .rate = 0.3}};
        traffic.start();
        traffic.expect_all_arrived();
        EXPECT_GT(traffic.log.count(Fault::completion_delayed), 0u);
        EXPECT_GT(traffic.log.count(Fault::send_refused), 0u);
    }
}

TEST_P(FaultyCores, TheRailGoesDown) {
    for (std::uint64_t nth = 1; nth <= 40; nth += 3) {
        SCOPED_TRACE(nth);
        Traffic traffic(GetParam(), nth);
        traffic.plan.faults.push_back({.fault = Fault::rail_down, .nth = nth});
        traffic.start();
        traffic.expect_ends("rail shm0 is down");
    }
}

TEST_P(FaultyCores, CallsFail) {
    for (const Fault fault : {Fault::create_qp_fails, Fault::create_ah_fails, Fault::register_fails,
                              Fault::allocate_fails, Fault::modify_fails}) {
        for (std::uint64_t nth = 1; nth <= 8; ++nth) {
            SCOPED_TRACE(testing::Message()
                         << "fault " << static_cast<int>(fault) << " call " << nth);
            Traffic traffic(GetParam(), nth);
            traffic.plan.faults.push_back(
                {.fault = fault, .nth = nth, .reason = Reason::no_memory});
            traffic.start();
            traffic.expect_ends("memory");
        }
    }
}

// The rail promises reliable datagrams: lost ones stop traffic, and do no other harm.
TEST_P(FaultyCores, BadDatagramsDoNoHarm) {
    std::uint64_t bad = 0;
    std::size_t corrupted = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(GetParam(), seed);
        traffic.plan.faults = {{.fault = Fault::datagram_corrupted, .rate = 0.3, .bytes = 8},
                               {.fault = Fault::datagram_lost, .rate = 0.1},
                               {.fault = Fault::datagram_doubled, .rate = 0.1},
                               {.fault = Fault::datagram_delayed, .rate = 0.1, .delay = {30, {}}}};
        traffic.start();
        traffic.run([&] { return traffic.all_done(); }, 3000);
        corrupted += traffic.log.count(Fault::datagram_corrupted);
        bad += traffic.world->counters(1).bad_packets;
        traffic.world->end(0);
        for (int pass = 0; pass < 3000; ++pass) {
            traffic.world->progress(1);
        }
    }
    EXPECT_GT(corrupted, 10u);
    EXPECT_GT(bad, 0u) << "counted and dropped";
}

TEST_P(FaultyCores, DoubledDatagramsAreTakenOnce) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(seed);
        Traffic traffic(GetParam(), seed);
        traffic.plan.faults = {{.fault = Fault::datagram_doubled, .rate = 0.5}};
        traffic.start();
        traffic.expect_all_arrived();
    }
}

TEST_P(FaultyCores, ADeadNodeIsNoticedWhenItEnds) {
    for (std::uint64_t nth = 1; nth <= 40; nth += 3) {
        SCOPED_TRACE(nth);
        Traffic traffic(GetParam(), nth);
        traffic.plan.faults.push_back({.fault = Fault::death, .nth = nth});
        traffic.start();
        traffic.run([&] { return traffic.all_done(); }, 2000);
        const bool waits = traffic.left(1, false) > 0;
        traffic.expect_the_other_notices();
        EXPECT_TRUE(!waits || traffic.reported(1, "process 0"));
        traffic.check_payloads();
    }
}

} // namespace
} // namespace adaptib::test
