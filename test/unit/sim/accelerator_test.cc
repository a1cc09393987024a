// SPDX-License-Identifier: BSD-3-Clause
// Long messages whose data lies on an accelerator, over a simulated network whose adapters reach
// it: nothing packs or unpacks such data, also while ports fail.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "unit/sim/traffic.h"

namespace adaptib::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPorts = 2;
constexpr Bytes kBytes = 300'000;

// The context of data is its buffer, one for each allocation.
struct Buffer {
    std::vector<std::byte> memory = std::vector<std::byte>(kBytes);
    bool on_accelerator = true;
    std::size_t copies = 0; // calls that packed or unpacked

    Data data() { return {nullptr, kBytes, pack, unpack, this}; }
    static int pack(void* context, std::size_t offset, void* to, std::size_t* length) {
        auto& self = *static_cast<Buffer*>(context);
        ++self.copies;
        std::copy_n(self.memory.data() + offset, *length, static_cast<std::byte*>(to));
        return 0;
    }
    static int unpack(void* context, std::size_t offset, const void* from, std::size_t* length) {
        auto& self = *static_cast<Buffer*>(context);
        ++self.copies;
        std::copy_n(static_cast<const std::byte*>(from), *length, self.memory.data() + offset);
        return 0;
    }
};

bool locate(void* context, opal_common_adaptib_accelerator_place_t* place) {
    auto& buffer = *static_cast<Buffer*>(context);
    *place = {buffer.memory.data(), buffer.memory.data(), kBytes, 1};
    return buffer.on_accelerator;
}
bool exists(const opal_common_adaptib_accelerator_place_t*) { return true; }
constexpr opal_common_adaptib_accelerators_t kAccelerators{locate, exists};

bool export_nothing(void*, Bytes, ExportedMemory&) { return true; } // the network needs no file

std::unique_ptr<Ranks> networks(std::uint64_t seed, char* rendezvous) {
    RanksOptions options;
    options.seed = options.world.seed = seed;
    options.world.machine = *machine("connect-ib");
    options.world.topology = crossbar(2, {.ports = kPorts}, links_of(options.world.machine));
    std::string text;
    EXPECT_TRUE(Routes::compute(options.world.topology, options.world.routes, text)) << text;
    options.parameters.rendezvous = rendezvous;
    auto ranks = make(std::move(options));
    for (const std::size_t rank : {0, 1}) {
        ranks->core(rank).protocol().memory().accelerator(0).use_by(&kAccelerators, export_nothing);
    }
    return ranks;
}

// Sends and receives a message. Returns false if it does not arrive.
bool carry(Ranks& ranks, Buffer& from, Buffer& to, std::uint64_t number) {
    for (std::size_t i = 0; i < kBytes; ++i) {
        from.memory[i] = static_cast<std::byte>(i * 7 + number);
        to.memory[i] = std::byte{0xee};
    }
    test::TestRequest send;
    test::TestRequest receive;
    bool complete = false;
    const Envelope envelope{0, 0, 3};
    EXPECT_TRUE(ranks.core(0)
                    .protocol()
                    .sends()
                    .send(ranks.peer(0, 1), envelope, from.data(), false, OpKind::non_blocking,
                          send.user, complete)
                    .ok());
    EXPECT_TRUE(ranks.core(1)
                    .protocol()
                    .receives()
                    .receive(envelope, to.data(), receive.user, complete)
                    .ok());
    ranks.wake(0);
    ranks.wake(1);
    return ranks.run_until([&] { return send.done && receive.done; }, 60s) &&
           to.memory == from.memory;
}

char kGet[] = "get";
char kPut[] = "put";

class OnAccelerators : public testing::TestWithParam<char*> {};
INSTANTIATE_TEST_SUITE_P(Rendezvous, OnAccelerators, testing::Values(kGet, kPut));

TEST_P(OnAccelerators, AdaptersReadAndWriteThere) {
    const auto ranks = networks(1, GetParam());
    Buffer from;
    Buffer to;
    for (std::uint64_t number = 0; number < 5; ++number) {
        ASSERT_TRUE(carry(*ranks, from, to, number));
    }
    EXPECT_EQ(from.copies + to.copies, 0u);
    EXPECT_EQ(ranks->counters(0).accelerator_direct, 5u);
    EXPECT_EQ(ranks->counters(1).accelerator_direct, 5u);
    nothing_bad(*ranks);
}

// One end is not reached: it copies, the other one does not.
TEST_P(OnAccelerators, EachEndByItself) {
    const auto ranks = networks(2, GetParam());
    for (const bool source : {true, false}) {
        Buffer from;
        Buffer to;
        from.on_accelerator = source;
        to.on_accelerator = !source;
        ASSERT_TRUE(carry(*ranks, from, to, 1));
        EXPECT_EQ(from.copies > 0, !source);
        EXPECT_EQ(to.copies > 0, source);
    }
    nothing_bad(*ranks);
}

TEST_P(OnAccelerators, NothingIsLostWhilePortsFail) {
    for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
        const auto ranks = networks(seed, GetParam());
        Random random(seed * 31);
        Buffer from;
        Buffer to;
        for (std::uint64_t number = 0; number < 30; ++number) {
            const std::size_t port = random.below(kPorts);
            set_port(*ranks, random.below(2), port, random.below(3) == 0);
            for (const std::size_t rank : {0, 1}) {
                set_port(*ranks, rank, 1 - port, true); // so that there is a way
            }
            ASSERT_TRUE(carry(*ranks, from, to, number)) << seed << ", " << number;
        }
        EXPECT_EQ(from.copies + to.copies, 0u) << seed;
        EXPECT_EQ(ranks->counters(0).connections_failed, 0u);
    }
}

} // namespace
} // namespace adaptib::sim
