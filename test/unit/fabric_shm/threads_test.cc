// SPDX-License-Identifier: BSD-3-Clause
// Two shm fabrics in two threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "unit/fabric_shm/node.h"

namespace adaptib::test {
namespace {

TEST(Threads, TwoFabricsInTwoThreadsExchangeMessagesAndPublishedWrites) {
    Node a;
    Node b;
    ASSERT_TRUE(a.ok && b.ok);
    QueuePair* x = a.add_qp(QpType::rc);
    QueuePair* y = b.add_qp(QpType::rc);
    ASSERT_TRUE(Node::connect(*x, b.rail().address(), y->number()));
    ASSERT_TRUE(Node::connect(*y, a.rail().address(), x->number()));
    constexpr std::uint64_t kRounds = 3000;
    // Each node writes a line filled with the round's number into the other's shared buffer,
    // publishing the last word, and waits for the other's line.
    const auto play = [](Node& self, Node& peer, bool first) {
        auto* mine = static_cast<std::uint64_t*>(self.shared->address());
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            std::uint64_t line[8];
            std::fill(line, line + 8, round);
            const Gather gather{line, sizeof line, 0};
            SendWork work = Node::rdma(Opcode::write, gather,
                                       reinterpret_cast<std::uintptr_t>(peer.shared->address()),
                                       peer.shared->remote_key());
            work.flags = kInline | kPublish | (round % 16 == 0 ? +kSignaled : 0u);
            const auto write = [&] { return self.qps[0]->post_send(work).ok(); };
            if (first && !write()) {
                return false;
            }
            const Nanoseconds end = self.clock.now() + kLong;
            while (std::atomic_ref<std::uint64_t>(mine[7]).load(std::memory_order_acquire) !=
                   round) {
                if (self.clock.now() > end) {
                    return false;
                }
            }
            for (int i = 0; i < 7; ++i) {
                if (mine[i] != round) {
                    return false;
                }
            }
            if (!first && !write()) {
                return false;
            }
            WorkCompletion done;
            while (self.cq->poll({&done, 1}) == 1) {
                if (done.status != WorkStatus::success) {
                    return false;
                }
            }
        }
        return true;
    };
    bool good = false;
    std::thread other([&] { good = play(b, a, false); });
    EXPECT_TRUE(play(a, b, true));
    other.join();
    EXPECT_TRUE(good);
}

} // namespace
} // namespace adaptib::test
