// SPDX-License-Identifier: BSD-3-Clause
// Adapters that place the packets of a write in any order: no message is taken before all of it is
// there. Where adapters do not say so, the checksum of ring messages finds it.
#include <array>
#include <memory>
#include <string>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::size_t kPorts = 2;
constexpr std::array<std::size_t, 8> kSizes{8, 900, 2000, 2049, 3000, 4000, 8192, 30'000};

char kAlways[] = "always";
char kYes[] = "yes";
char kNo[] = "no";
char kOn[] = "on";

// A world in which one packet of each long write into a ring is late.
RanksOptions scrambling(std::uint64_t seed, Bytes mtu) {
    RanksOptions options;
    options.ranks = kRanks;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.machine.limits.mtu = mtu;
    options.world.scrambled_writes = 1;
    options.world.topology = crossbar(kRanks, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.keeps_registrations = true;
    options.parameters.connect_threshold = 0;
    return options;
}

// Sends messages of all sizes between all ranks, some at once, over the connections that a first
// message has made, until one fails.
Messages carry_all(Ranks& ranks) {
    Messages messages;
    const auto add = [&](std::size_t from, std::size_t size) {
        messages.push_back(
            std::make_unique<Message>(from, (from + 1) % kRanks, size, messages.size()));
        messages.back()->start(ranks, static_cast<std::int32_t>(messages.size()));
    };
    const auto any_failed = [&] {
        bool failed = false;
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            const Peer* const to = ranks.peer(rank, (rank + 1) % kRanks);
            failed =
                failed || to->session.state == ConnectState::failed || !broken(ranks, rank).empty();
        }
        return failed;
    };
    for (std::size_t from = 0; from < kRanks; ++from) {
        add(from, 8);
    }
    rest(ranks, std::chrono::milliseconds{10});
    for (std::size_t round = 0; round < 4; ++round) {
        for (const std::size_t size : kSizes) {
            if (any_failed()) {
                return messages;
            }
            for (std::size_t from = 0; from < kRanks; ++from) {
                add(from, size);
            }
            if (round % 2 == 0) { // readers that have nothing else to do look at once
                rest(ranks, std::chrono::milliseconds{1});
            }
        }
        ranks.run_until([&] { return all_done(messages); }, std::chrono::seconds{10});
    }
    return messages;
}

std::size_t longest(Ranks& ranks) { return ranks.peer(0, 1)->out.ring_capacity; }

class Placement : public testing::TestWithParam<Bytes> {};
INSTANTIATE_TEST_SUITE_P(Mtus, Placement, testing::Values(256, 1024, 2048, 4096));

TEST_P(Placement, AMessageOfSeveralPacketsIsNotWrittenIntoARing) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        RanksOptions options = scrambling(seed, GetParam());
        if (seed % 2 == 0) {
            options.parameters.frequent_buffers = kAlways;
        }
        const auto ranks = make(std::move(options));
        const Messages messages = carry_all(*ranks);
        expect_arrived(messages);
        nothing_bad(*ranks);
        EXPECT_NE(ranks->peer(0, 1)->out.ring, nullptr);
        EXPECT_LT(longest(*ranks), GetParam());
        EXPECT_GT(longest(*ranks), GetParam() - 64);
    }
}

TEST_P(Placement, NothingIsLostWhilePortsFail) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(seed);
        const auto ranks = make(scrambling(seed, GetParam()));
        Random random(seed);
        const Messages messages = storm(*ranks, random, kPorts, kSizes);
        expect_arrived(messages);
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            expect_unbroken(*ranks, rank);
        }
    }
}

// The fault is there, and the tests above would see it.
TEST(Placements, ADeviceThatIsTrustedInErrorDamagesMessages) {
    RanksOptions options = scrambling(1, 1024);
    options.parameters.placement.ring_in_order = kYes;
    const auto ranks = make(std::move(options));
    const Messages messages = carry_all(*ranks);
    const bool damaged = std::any_of(messages.begin(), messages.end(), [](const auto& message) {
        return message->receive.done && message->got != message->sent;
    });
    EXPECT_TRUE(damaged);
}

TEST(Placements, TheChecksumFindsADeviceThatIsTrustedInError) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        RanksOptions options = scrambling(seed, 1024);
        options.parameters.placement.ring_in_order = kYes;
        options.parameters.placement.ring_check = kOn;
        const auto ranks = make(std::move(options));
        const Messages messages = carry_all(*ranks);
        std::string all;
        for (std::size_t rank = 0; rank < kRanks; ++rank) {
            for (const std::string& text : ranks->messages(rank)) {
                all += text;
            }
        }
        EXPECT_NE(all.find("places the packets of a write out of order"), std::string::npos) << all;
        for (const auto& message : messages) {
            if (message->receive.done &&
                message->receive.user.status == OPAL_COMMON_ADAPTIB_SUCCESS) {
                EXPECT_TRUE(message->got == message->sent) << message->sent.size();
            }
        }
    }
}

TEST(Placements, CheckedMessagesArriveOverDevicesThatPlaceInOrder) {
    RanksOptions options = scrambling(1, 2048);
    options.world.scrambled_writes = 0;
    options.parameters.placement.ring_check = kOn;
    options.parameters.frequent_buffers = kAlways;
    const auto ranks = make(std::move(options));
    expect_arrived(carry_all(*ranks));
    EXPECT_GT(longest(*ranks), 8192u);
    nothing_bad(*ranks);
}

TEST(Placements, AUserMayDistrustADevice) {
    RanksOptions options = scrambling(1, 2048);
    options.world.scrambled_writes = 0;
    options.parameters.placement.ring_in_order = kNo;
    const auto ranks = make(std::move(options));
    expect_arrived(carry_all(*ranks));
    EXPECT_LT(longest(*ranks), 2048u);
}

} // namespace
} // namespace adaptib::sim
