// SPDX-License-Identifier: BSD-3-Clause
// Buffers that the kernel does not pin, so that cross-memory attach fails on them: messages, puts,
// gets and atomics carry their data all the same, by every way that data within a host can take,
// and no connection breaks.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "attentive.h"
#include "cooperative_copy.h"
#include "cores.h"
#include "unit/secret_memory.h"
#include "window.h"

namespace adaptib::test {
namespace {

constexpr std::size_t kMost = 1u << 20;
constexpr std::size_t kSizes[] = {100, 5000, 65'536, 200'001, kMost};

class UnpinnedBuffers : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        for (const SecretMemory& each : secret) {
            if (!each.there()) {
                GTEST_SKIP() << "no memfd_secret in this kernel, or no locked memory for it";
            }
        }
        Options options;
        options.parameters.rendezvous = const_cast<char*>(GetParam());
        options.parameters.eager_limit = 64;
        world = std::make_unique<Cores>(2, options);
        exchange(*world, 100'000, 3);
    }
    ~UnpinnedBuffers() override { world.reset(); } // before the buffers

    // Sends a message in `from`, and receives it into `to`. `there`: its sender makes
    // progress meanwhile.
    void carry(std::byte* from, std::byte* to, std::size_t bytes, bool there) {
        const std::vector<std::byte> sent = pattern(bytes, ++seed_);
        std::copy(sent.begin(), sent.end(), from);
        std::fill(to, to + bytes, std::byte{});
        TestRequest send;
        TestRequest receive;
        ASSERT_TRUE(world->send(0, 1, 1, contiguous(from, bytes), send).ok());
        if (there) {
            const Attentive other(*world, 0);
            receive_now(to, bytes, receive);
        } else {
            receive_now(to, bytes, receive);
        }
        ASSERT_TRUE(world->run({&send, &receive}));
        EXPECT_EQ(send.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        EXPECT_EQ(receive.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_TRUE(std::equal(sent.begin(), sent.end(), to)) << bytes;
    }
    void receive_now(std::byte* to, std::size_t bytes, TestRequest& receive) {
        ASSERT_TRUE(world->receive(1, 0, 1, contiguous(to, bytes), receive).ok());
        for (int pass = 0; pass < 100; ++pass) {
            world->progress(1);
        }
    }
    // Checks that everything is as before: no notice, no new connection, and ordinary data
    // moves within the call.
    void expect_unharmed() {
        exchange(*world, 100'000, 3);
        for (const std::size_t node : {std::size_t{0}, std::size_t{1}}) {
            EXPECT_TRUE(world->messages(node).empty());
            EXPECT_EQ(world->counters(node).bad_packets, 0u);
            EXPECT_EQ(world->counters(node).repairs, 0u);
        }
    }

    SecretMemory secret[2] = {SecretMemory(kMost), SecretMemory(kMost)};
    std::vector<std::byte> plain = std::vector<std::byte>(kMost);
    std::unique_ptr<Cores> world;

private:
    std::uint64_t seed_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Rendezvous, UnpinnedBuffers, testing::Values("get", "put"));

TEST_P(UnpinnedBuffers, CarryMessages) {
    for (const std::size_t bytes : kSizes) {
        for (const bool there : {false, true}) {
            ASSERT_NO_FATAL_FAILURE(carry(secret[0].data(), plain.data(), bytes, there));
            ASSERT_NO_FATAL_FAILURE(carry(plain.data(), secret[1].data(), bytes, there));
            ASSERT_NO_FATAL_FAILURE(carry(secret[0].data(), secret[1].data(), bytes, there));
        }
    }
    expect_unharmed();
}

// Both ends copy, unless both refuse.
TEST_P(UnpinnedBuffers, CarryLongMessagesThatBothEndsCopy) {
    for (int round = 0; round < 10; ++round) {
        for (std::size_t to : {std::size_t{0}, std::size_t{1}}) {
            if (Peer* const peer = world->peer(to, 1 - to);
                peer->transfers.cooperative_copy_choices != nullptr) {
                ask_first(*peer);
            }
        }
        ASSERT_NO_FATAL_FAILURE(carry(secret[0].data(), plain.data(), kMost, true));
        ASSERT_NO_FATAL_FAILURE(carry(plain.data(), secret[1].data(), kMost, true));
        ASSERT_NO_FATAL_FAILURE(carry(secret[0].data(), secret[1].data(), kMost, true));
    }
    EXPECT_EQ(world->counters(1).copies_offered > 0, std::strcmp(GetParam(), "get") == 0);
    expect_unharmed();
}

TEST_P(UnpinnedBuffers, TakePutsAndGets) {
    const Window window(*world, 1, secret[1].data(), kMost);
    for (const bool there : {false, true}) {
        for (std::byte* local : {plain.data(), secret[0].data()}) {
            for (const std::size_t bytes : {std::size_t{8}, std::size_t{3000}, kMost / 2}) {
                SCOPED_TRACE(testing::Message() << bytes << " there " << there);
                const std::vector<std::byte> sent = pattern(bytes, bytes + std::size_t(there));
                std::copy(sent.begin(), sent.end(), local);
                for (const auto kind : {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET}) {
                    const auto what = operation(kind, local, window, 40, bytes);
                    TestRequest request;
                    const auto begin = [&] {
                        request.done = world->core(0).protocol().one_sided().try_rma(
                            *world->peer(0, 1), what, nullptr);
                        if (!request.done) {
                            ASSERT_TRUE(start(*world, 0, 1, what, request).ok());
                        }
                    };
                    if (there) {
                        const Attentive target(*world, 1);
                        begin();
                    } else {
                        begin();
                    }
                    ASSERT_TRUE(world->run({&request}));
                    ASSERT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
                    ASSERT_TRUE(std::equal(sent.begin(), sent.end(), secret[1].data() + 40));
                    ASSERT_TRUE(std::equal(sent.begin(), sent.end(), local));
                    std::fill(local, local + bytes, std::byte{}); // the get brings it back
                }
            }
        }
    }
    expect_unharmed();
}

TEST_P(UnpinnedBuffers, TakeAtomics) {
    const Window window(*world, 1, secret[1].data(), kMost);
    auto* const word = reinterpret_cast<std::uint64_t*>(secret[1].data() + 8);
    *word = 1;
    for (std::uint64_t i = 1; i < 50; ++i) {
        std::uint64_t old = 0;
        auto add = operation(OPAL_COMMON_ADAPTIB_FETCH_ADD, &old, window, 8, 8);
        add.operand = i;
        const std::uint64_t before = *word;
        TestRequest request;
        ASSERT_TRUE(start(*world, 0, 1, add, request).ok());
        ASSERT_TRUE(world->run({&request}));
        ASSERT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
        ASSERT_EQ(old, before);
        ASSERT_EQ(*word, before + i);
    }
    expect_unharmed();
}

// Memory of a window that is unmapped while others use it makes their operation fail,
// and nothing else.
TEST_P(UnpinnedBuffers, AWindowThatIsNotMappedAnyMoreIsAnErrorOfTheOperation) {
    void* const gone =
        mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(gone, MAP_FAILED);
    const Window window(*world, 1, gone, kMost);
    // Like munmap, but no allocator reuses the range.
    ASSERT_EQ(mprotect(gone, kMost, PROT_NONE), 0);
    alignas(8) std::byte local[8] = {};
    for (const auto kind :
         {OPAL_COMMON_ADAPTIB_PUT, OPAL_COMMON_ADAPTIB_GET, OPAL_COMMON_ADAPTIB_FETCH_ADD}) {
        for (const std::size_t bytes : {sizeof local, kMost / 2}) {
            if (kind == OPAL_COMMON_ADAPTIB_FETCH_ADD && bytes > sizeof local) {
                continue;
            }
            std::byte* const from = bytes > sizeof local ? plain.data() : local;
            TestRequest request;
            ASSERT_TRUE(start(*world, 0, 1, operation(kind, from, window, 0, bytes), request).ok());
            ASSERT_TRUE(world->run({&request}));
            EXPECT_NE(request.user.status, OPAL_COMMON_ADAPTIB_SUCCESS);
            if (kind != OPAL_COMMON_ADAPTIB_FETCH_ADD) {
                EXPECT_EQ(request.user.status, OPAL_COMMON_ADAPTIB_FAULT);
                ASSERT_NO_FATAL_FAILURE(expect_unharmed());
            }
            exchange(*world, 100'000, 3);
        }
    }
    munmap(gone, kMost);
}

} // namespace
} // namespace adaptib::test
