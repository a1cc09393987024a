// SPDX-License-Identifier: BSD-3-Clause
// Endpoints of two processes over DC queue pairs: each endpoint is a core with a fabric of its own
// over the stand-ins, and has its part of the process's initiators and targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process_name.h"
#include "core/core.h"
#include "core/derived_options.h"
#include "unit/core/address_table.h"
#include "unit/core/test_request.h"
#include "unit/verbs/dc_fixture.h"
#include "unit/verbs/stand_in_wire.h"

namespace adaptib::test {
namespace {

constexpr std::uint64_t kJob = std::uint64_t{7} << 32;
constexpr std::size_t kBytes = 100;

struct Endpoint {
    std::unique_ptr<Core> core;
    Counters counters;
    std::vector<std::string> messages;
};

class DcEndpoints : public DcTest {
protected:
    DcEndpoints() {
        device_.limits.max_qp = 1000;
        device_.limits.max_cqe = 65535; // initiators of an endpoint share a queue
        lib_.devices = {device_};
        parameters_.channel_policy = const_cast<char*>("dc_on_demand");
        parameters_.connect_threshold = 1;
        parameters_.verbs_ring_bytes = 65536;
    }
    void TearDown() override {
        endpoints_.clear();
        DcTest::TearDown();
    }

    // Opens that many endpoints of the process.
    void open_process(std::uint32_t process, std::uint32_t count) {
        for (std::uint32_t number = 0; number < count; ++number) {
            open_endpoint(process, number, part_of_limits(parameters_, count));
        }
    }
    void open_endpoint(std::uint32_t process, std::uint32_t number, const Parameters& part) {
        auto& made = *endpoints_.emplace_back(std::make_unique<Endpoint>());
        CoreEnvironment environment;
        environment.self = endpoint_name(kJob | process, number);
        environment.host = "host" + std::to_string(process);
        environment.bootstrap = &table_;
        environment.clock = &clock_;
        environment.random = &random_;
        environment.counters = &made.counters;
        environment.message = [&made](Severity, const std::string& text) {
            made.messages.push_back(text);
        };
        ASSERT_EQ(open(), kOk) << error_;
        ASSERT_EQ(Core::create(part, environment, std::move(fabric_), made.core, error_), kOk)
            << error_;
        table_.blobs[environment.self] = made.core->address();
    }
    Endpoint& endpoint(std::size_t index) { return *endpoints_[index]; }
    bool publishes_target(std::size_t index) {
        ProcessAddress address;
        const std::vector<std::byte>& blob = endpoint(index).core->address();
        EXPECT_EQ(decode(blob.data(), blob.size(), address), kOk);
        return (address.rails.at(0).flags & kRailShares) != 0;
    }

    // The queue pairs of that kind that each endpoint has, in the order of the endpoints. Each
    // endpoint has opened the device for itself.
    std::vector<std::set<std::uint32_t>> by_endpoint(ibv_qp_type kind) {
        std::vector<std::set<std::uint32_t>> numbers(endpoints_.size());
        for (const auto& each : lib_.qps) {
            if (each->alive && each->kind == kind) {
                numbers.at(owner_of(*each)).insert(each->qp_num);
            }
        }
        return numbers;
    }
    std::size_t owner_of(const FakeQp& pair) {
        std::size_t owner = 0;
        for (const auto& context : lib_.contexts) {
            if (context.get() == pair.context) {
                break;
            }
            owner += context->alive ? 1 : 0;
        }
        return owner;
    }

    // Sends a message from one endpoint to the other, whose name is `to_name`.
    void exchange(std::size_t from, std::size_t to, std::uint64_t to_name, int round) {
        const Envelope envelope{0, static_cast<std::int32_t>(from), round};
        std::array<char, kBytes> out;
        std::array<char, kBytes> in{};
        out.fill(static_cast<char>(1 + from * 16 + to + static_cast<std::size_t>(round)));
        TestRequest send;
        TestRequest receive;
        Peer* peer = nullptr;
        bool complete = false;
        ASSERT_EQ(endpoint(from).core->peers().get(to_name, peer), kOk);
        ASSERT_EQ(
            endpoint(to).core->protocol().receives().receive(
                envelope, {in.data(), kBytes, nullptr, nullptr, nullptr}, receive.user, complete),
            kOk);
        receive.done = receive.done || complete;
        complete = false;
        ASSERT_EQ(endpoint(from).core->protocol().sends().send(
                      peer, envelope, {out.data(), kBytes, nullptr, nullptr, nullptr}, false,
                      OpKind::blocking, send.user, complete),
                  kOk);
        send.done = send.done || complete;
        run([&] { return send.done && receive.done; });
        EXPECT_TRUE(send.done && receive.done) << "round " << round;
        EXPECT_EQ(in, out);
    }
    template <typename Condition> void run(Condition&& condition) {
        for (int pass = 0; pass < 20'000 && !condition(); ++pass) {
            clock_.advance(std::chrono::microseconds{10});
            for (const auto& each : endpoints_) {
                each->core->progress(false);
                CompletedList& completed = each->core->protocol().completed();
                while (!completed.empty()) {
                    UserRequest* user = completed.pop();
                    user->complete(user);
                }
                wire_.carry();
            }
        }
    }

    ManualClock clock_;
    Random random_{3};
    AddressTable table_;
    Parameters parameters_ = default_parameters();
    StandInWire wire_{lib_};
    std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

class DcEndpointCounts : public DcEndpoints, public testing::WithParamInterface<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Endpoints, DcEndpointCounts, testing::Values(1u, 2u, 4u, 16u));

// There are more peers than initiators.
TEST_P(DcEndpointCounts, EachHasItsPartOfTheTargetsAndInitiators) {
    constexpr std::uint32_t kPeers = 20;
    const std::uint32_t count = GetParam();
    const std::size_t part = std::max(8u / count, 1u);
    open_process(0, count);
    for (std::uint32_t peer = 1; peer <= kPeers; ++peer) {
        open_process(peer, 1);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_TRUE(publishes_target(i));
        EXPECT_EQ(by_endpoint(kDcTarget)[i].size(), 1u) << "until there are peers";
        for (std::uint32_t peer = 1; peer <= kPeers; ++peer) {
            for (int round = 0; round < 4; ++round) {
                exchange(i, count + peer - 1, kJob | peer, round);
                exchange(count + peer - 1, i, endpoint_name(kJob, i), round);
            }
        }
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(by_endpoint(kDcTarget)[i].size(), part);
        EXPECT_EQ(by_endpoint(kDcInitiator)[i].size(), part);
        EXPECT_TRUE(endpoint(i).messages.empty()) << endpoint(i).messages[0];
    }
}

TEST_P(DcEndpointCounts, AMessageGoesFromInitiatorsOfItsEndpointToTargetsOfThePeers) {
    const std::uint32_t count = GetParam();
    open_process(0, count);
    open_process(1, count);
    for (int round = 0; round < 20; ++round) {
        for (std::uint32_t i = 0; i < count; ++i) {
            exchange(i, count + i, endpoint_name(kJob | 1, i), round);
            exchange(count + i, i, endpoint_name(kJob | 0, i), round);
        }
    }
    const auto initiators = by_endpoint(kDcInitiator);
    const auto targets = by_endpoint(kDcTarget);
    std::vector<int> written(2 * count);
    for (const CarriedWrite& write : wire_.writes()) {
        for (std::size_t i = 0; i < initiators.size(); ++i) {
            if (initiators[i].contains(write.initiator)) {
                ++written[i];
                EXPECT_TRUE(targets[(i + count) % (2 * count)].contains(write.target));
            }
        }
    }
    for (std::size_t i = 0; i < written.size(); ++i) {
        EXPECT_GT(written[i], 10) << "endpoint " << i;
        EXPECT_EQ(initiators[i].size(), 1u) << "of its part, what one peer needs";
        EXPECT_TRUE(endpoint(i).messages.empty()) << endpoint(i).messages[0];
    }
}

TEST_F(DcEndpoints, NumbersMayDiffer) {
    open_process(0, 4);
    open_process(1, 1);
    for (int round = 0; round < 10; ++round) {
        for (std::uint32_t i = 0; i < 4; ++i) {
            exchange(i, 4, endpoint_name(kJob | 1, 0), 10 * round + static_cast<int>(i));
            exchange(4, i, endpoint_name(kJob | 0, i), 10 * round + static_cast<int>(i));
        }
    }
    EXPECT_EQ(by_endpoint(kDcTarget)[4].size(), 4u) << "one for each endpoint of the other process";
    EXPECT_EQ(by_endpoint(kDcInitiator)[4].size(), 4u);
    EXPECT_EQ(by_endpoint(kDcInitiator)[0].size(), 1u);
}

TEST_F(DcEndpoints, WithEndpointsOfADeviceWithoutThemTheyUseConnections) {
    open_process(0, 2);
    device_.targets = false;
    lib_.devices = {device_};
    open_process(1, 2);
    EXPECT_TRUE(publishes_target(0));
    EXPECT_FALSE(publishes_target(2));
    for (int round = 0; round < 20; ++round) {
        for (std::uint32_t i = 0; i < 2; ++i) {
            exchange(i, 2 + i, endpoint_name(kJob | 1, i), round);
            exchange(2 + i, i, endpoint_name(kJob | 0, i), round);
        }
    }
    EXPECT_TRUE(wire_.writes().empty());
    EXPECT_GT(wire_.connected_writes(), 20);
}

} // namespace
} // namespace adaptib::test
