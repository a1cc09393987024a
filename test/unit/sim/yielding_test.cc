// SPDX-License-Identifier: BSD-3-Clause
// An operation cannot do without a connection while all that are allowed are in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "unit/sim/open_memory.h"
#include "unit/sim/worlds.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

char kRcOnDemand[] = "rc_on_demand";

// Work that two ranks do without a pause, so that the connection between them is never idle.
enum class Busy : std::uint8_t { messages, gets, gets_of_both, large_messages };

// Puts something from 0 to 1 once 1 and 2 are busy; returns how long that takes.
Nanoseconds put_beside(Busy busy, char* policy) {
    RanksOptions options = world_of(3);
    options.parameters.connect_max = 1;
    options.parameters.channel_policy = policy;
    options.parameters.channel_period = 20;
    const auto ranks = make(std::move(options));
    OpenMemory memory(*ranks, 1000);
    test::TestRequest put;
    std::vector<std::byte> value(1000, std::byte{7});
    constexpr std::size_t kAtOnce = 2; // something is in flight at any time
    struct Get {
        test::TestRequest request;
        std::vector<std::byte> value = std::vector<std::byte>(1000);
        bool begun = false;
    };
    std::vector<Get> gets(2 * kAtOnce);
    Messages messages;
    std::uint64_t repeated = 0;
    const auto go_on = [&] {
        for (std::size_t i = 0; i < gets.size(); ++i) {
            const bool takes_part =
                busy == Busy::gets_of_both || (busy == Busy::gets && i < kAtOnce);
            if (Get& get = gets[i]; takes_part && (!get.begun || get.request.done)) {
                repeated += get.begun ? 1 : 0;
                get.begun = true;
                const std::size_t from = i < kAtOnce ? 1 : 2;
                memory.start(from, 3 - from, OPAL_COMMON_ADAPTIB_GET, get.value, get.request);
            }
        }
        if (busy == Busy::messages || busy == Busy::large_messages) {
            const std::size_t bytes = busy == Busy::messages ? 8 : 200'000;
            while (messages.size() < 4) {
                const std::size_t from = 1 + messages.size() % 2;
                messages.push_back(std::make_unique<Message>(from, 3 - from, bytes));
                messages.back()->start(*ranks);
            }
            repeated += static_cast<std::uint64_t>(
                std::erase_if(messages, [](const auto& message) { return message->done(); }));
        }
        return false;
    };
    ranks->run_until(go_on, 50ms);
    EXPECT_EQ(ranks->peer(1, 2)->session.state, ConnectState::open);
    memory.start(0, 1, OPAL_COMMON_ADAPTIB_PUT, value, put);
    const Nanoseconds began = ranks->now(0);
    ranks->run_until([&] { return go_on() || put.done; }, 5s);
    const Nanoseconds took = ranks->now(0) - began;
    EXPECT_TRUE(put.done);
    EXPECT_EQ(memory.of(1), value);
    const std::uint64_t by_then = repeated;
    ranks->run_until(go_on, 50ms);
    EXPECT_GT(repeated, by_then + 100); // 1 and 2 go on
    nothing_bad(*ranks);
    return took;
}

TEST(Yielding, WhoCannotDoWithoutGetsOneThatIsInUse) {
    for (char* policy : {default_parameters().channel_policy, kRcOnDemand}) {
        for (const Busy busy :
             {Busy::messages, Busy::gets, Busy::gets_of_both, Busy::large_messages}) {
            SCOPED_TRACE(std::string(policy) + " " + std::to_string(static_cast<int>(busy)));
            EXPECT_LT(put_beside(busy, policy), 40ms);
        }
    }
}

} // namespace
} // namespace adaptib::sim
