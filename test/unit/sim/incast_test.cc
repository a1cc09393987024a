// SPDX-License-Identifier: BSD-3-Clause
// Many processes contact one at the same time, over datagrams that are lost if they find no buffer.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "unit/core/test_request.h"
#include "unit/sim/worlds.h"

namespace adaptib::sim {
namespace {

using std::chrono::milliseconds;
using Request = test::TestRequest;

constexpr std::size_t kSenders = 1000;

RanksOptions one_and_many() {
    RanksOptions options = world_of(kSenders + 1);
    options.world.machine.offers.reliable_ud = false;
    options.world.topology = crossbar(kSenders + 1, {}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    return options;
}

// A message of 8 bytes from each other rank to rank 0.
struct Incast {
    explicit Incast(Ranks& all) : ranks(all), sends(kSenders), receives(kSenders) {
        words.assign(2 * kSenders, 7);
        for (std::size_t i = 0; i < kSenders; ++i) {
            const Envelope envelope{0, static_cast<std::int32_t>(i + 1), 3};
            bool complete = false;
            EXPECT_TRUE(ranks.core(i + 1)
                            .protocol()
                            .sends()
                            .send(ranks.peer(i + 1, 0), envelope, data(i), false,
                                  OpKind::non_blocking, sends[i].user, complete)
                            .ok());
            sends[i].done = complete;
            ranks.wake(i + 1);
        }
    }
    void receive() {
        for (std::size_t i = 0; i < kSenders; ++i) {
            const Envelope envelope{0, static_cast<std::int32_t>(i + 1), 3};
            bool complete = false;
            EXPECT_TRUE(ranks.core(0)
                            .protocol()
                            .receives()
                            .receive(envelope, data(kSenders + i), receives[i].user, complete)
                            .ok());
            receives[i].done = complete;
        }
        ranks.wake(0);
    }
    Data data(std::size_t i) { return {&words[i], sizeof words[i], nullptr, nullptr, nullptr}; }
    bool done() const {
        for (std::size_t i = 0; i < kSenders; ++i) {
            if (!receives[i].done) {
                return false;
            }
        }
        return true;
    }

    Ranks& ranks;
    std::vector<std::uint64_t> words;
    std::vector<Request> sends;
    std::vector<Request> receives;
};

TEST(Incast, AThousandFirstContactsTakeNoSeconds) {
    std::string text;
    const auto ranks = Ranks::create(one_and_many(), text);
    ASSERT_NE(ranks, nullptr) << text;
    Incast incast(*ranks);
    incast.receive();
    EXPECT_TRUE(ranks->run_until([&] { return incast.done(); }, std::chrono::seconds{20}));
    EXPECT_LT(ranks->now(0), milliseconds{15});
}

// The job's size is known, and so is that each process may send: the first messages find buffers
// even if nobody takes them for long.
TEST(Incast, BuffersWaitForThemWhileTheProcessComputes) {
    std::string text;
    const auto ranks = Ranks::create(one_and_many(), text);
    ASSERT_NE(ranks, nullptr) << text;
    ranks->core(0).expect(kSenders);
    ranks->compute(0, milliseconds{500});
    Incast incast(*ranks);
    incast.receive();
    EXPECT_TRUE(ranks->run_until([&] { return incast.done(); }, std::chrono::seconds{20}));
    EXPECT_LT(ranks->now(0), milliseconds{510});
}

} // namespace
} // namespace adaptib::sim
