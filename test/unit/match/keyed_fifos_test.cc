// SPDX-License-Identifier: BSD-3-Clause
// KeyedFifos: order within a key, growth, shrinking, reuse without allocation, life without memory.
#include "match/keyed_fifos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include "base/random.h"

namespace {
// The table allocates bucket arrays with nothrow, and nothing else does. (noinline below: gcc 12
// takes an inlined malloc or free for the wrong partner of new[] and delete[].)
bool no_memory = false;
int nothrow_arrays = 0;
} // namespace

[[gnu::noinline]] void* operator new[](std::size_t size) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    ++nothrow_arrays;
    return no_memory ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace adaptib {
namespace {

struct Node {
    Envelope envelope;
    FifoLink<Node> link;
};
struct NodeKey {
    static FifoLink<Node>& link(Node& node) { return node.link; }
    static Envelope key(const Envelope& envelope) { return envelope; }
    static bool same(const Envelope& a, const Envelope& b) { return a == b; }
};
using Table = KeyedFifos<Node, NodeKey>;

Envelope with_tag(std::size_t tag) { return {1, 2, static_cast<std::int32_t>(tag)}; }

std::unique_ptr<Node[]> distinct_nodes(std::size_t count) {
    auto nodes = std::make_unique<Node[]>(count);
    for (std::size_t i = 0; i < count; ++i) {
        nodes[i].envelope = with_tag(i);
    }
    return nodes;
}

Node* pop(Table& table, const Envelope& envelope) {
    Node** const place = table.find(envelope);
    return *place == nullptr ? nullptr : &table.take_first(place);
}

TEST(KeyedFifos, FirstInFirstOutPerKey) {
    Table table;
    Node nodes[6];
    for (std::size_t i = 0; i < 6; ++i) {
        nodes[i].envelope = with_tag(i % 2);
        table.push_back(nodes[i]);
    }
    EXPECT_EQ(table.keys(), 2u);
    for (const std::size_t i : {1u, 3u, 0u, 2u, 5u, 4u}) {
        EXPECT_EQ(table.front(with_tag(i % 2)), &nodes[i]);
        EXPECT_EQ(pop(table, with_tag(i % 2)), &nodes[i]);
        EXPECT_FALSE(nodes[i].link.linked());
    }
    EXPECT_EQ(table.keys(), 0u);
    EXPECT_EQ(pop(table, with_tag(0)), nullptr);
}

TEST(KeyedFifos, RemovesFirstMiddleLastAndOnly) {
    Table table;
    Node nodes[4];
    for (Node& node : nodes) {
        table.push_back(node);
    }
    table.remove(nodes[1]);
    table.remove(nodes[3]);
    table.push_back(nodes[1]); // behind the node that is last now
    table.remove(nodes[0]);
    EXPECT_EQ(pop(table, {}), &nodes[2]);
    EXPECT_EQ(table.front({}), &nodes[1]);
    table.remove(nodes[1]);
    EXPECT_EQ(table.keys(), 0u);
    EXPECT_EQ(table.front({}), nullptr);
    for (const Node& node : nodes) {
        EXPECT_FALSE(node.link.linked());
    }
}

TEST(KeyedFifos, ChainsStayShortAtAnyNumberOfKeys) {
    constexpr std::size_t kCount = 100000;
    const auto nodes = distinct_nodes(kCount);
    Table table;
    for (std::size_t i = 0; i < kCount; ++i) {
        table.push_back(nodes[i]);
        ASSERT_GE(table.buckets(), 2 * table.keys());
    }
    std::size_t longest = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(table.front(with_tag(i)), &nodes[i]);
        std::size_t length = 0;
        for (const Node* node = &nodes[i]; node != nullptr; node = node->link.chain) {
            ++length;
        }
        longest = std::max(longest, length);
    }
    EXPECT_LE(longest, 10u);
}

TEST(KeyedFifos, ManyOfOneKeyNeedOneBucket) {
    constexpr std::size_t kCount = 10000;
    const auto nodes = std::make_unique<Node[]>(kCount);
    Table table;
    for (std::size_t i = 0; i < kCount; ++i) {
        table.push_back(nodes[i]);
    }
    EXPECT_EQ(table.keys(), 1u);
    EXPECT_EQ(table.buckets(), Table::kFirstBuckets);
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(pop(table, {}), &nodes[i]);
    }
}

TEST(KeyedFifos, ARepeatedWorkingSetAllocatesNothing) {
    constexpr std::size_t kCount = 10000;
    const auto nodes = distinct_nodes(kCount);
    Table table;
    const auto round = [&] {
        for (std::size_t i = 0; i < kCount; ++i) {
            table.push_back(nodes[i]);
        }
        for (std::size_t i = 0; i < kCount; ++i) {
            ASSERT_EQ(pop(table, with_tag(i)), &nodes[i]);
        }
    };
    nothrow_arrays = 0;
    round();
    EXPECT_GT(nothrow_arrays, 0);
    nothrow_arrays = 0;
    for (int i = 0; i < 10; ++i) {
        round();
    }
    EXPECT_EQ(nothrow_arrays, 0);
}

TEST(KeyedFifos, ASmallWorkingSetAllocatesNothingAtAll) {
    const auto nodes = distinct_nodes(100000);
    nothrow_arrays = 0;
    Table table;
    for (std::size_t i = 0; i < 100000; ++i) { // never more than 10 at a time, no key twice
        table.push_back(nodes[i]);
        if (i >= 10) {
            ASSERT_EQ(pop(table, with_tag(i - 10)), &nodes[i - 10]);
        }
    }
    EXPECT_EQ(nothrow_arrays, 0);
    table.drain([](Node&) {});
}

TEST(KeyedFifos, GivesBackWhatABurstNeeded) {
    constexpr std::size_t kCount = 200000;
    const auto nodes = distinct_nodes(kCount);
    Table table;
    for (std::size_t i = 0; i < kCount; ++i) {
        table.push_back(nodes[i]);
    }
    EXPECT_GE(table.buckets(), 2 * kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        if (i % 1000 != 0) {
            table.remove(nodes[i]);
        }
    }
    EXPECT_LE(table.buckets(), Table::kKeptBuckets);
    for (std::size_t i = 0; i < kCount; i += 1000) {
        ASSERT_EQ(pop(table, with_tag(i)), &nodes[i]);
    }
}

TEST(KeyedFifos, WorksOnWithoutMemory) {
    constexpr std::size_t kCount = 1000;
    const auto nodes = distinct_nodes(kCount);
    Table table;
    no_memory = true;
    nothrow_arrays = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        table.push_back(nodes[i]);
    }
    no_memory = false;
    EXPECT_EQ(table.buckets(), Table::kFirstBuckets);
    EXPECT_LE(nothrow_arrays, 10); // the table does not retry at every call
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(pop(table, with_tag(i)), &nodes[i]);
    }
    // The table grows again once there is memory.
    for (std::size_t i = 0; i < kCount; ++i) {
        table.push_back(nodes[i]);
    }
    const auto more = distinct_nodes(2 * kCount);
    for (std::size_t i = kCount; i < 2 * kCount; ++i) {
        table.push_back(more[i]);
    }
    EXPECT_GT(table.buckets(), Table::kFirstBuckets);
    table.drain([](Node&) {});
}

TEST(KeyedFifos, DrainReleasesEverythingOnce) {
    for (const std::size_t count : {0u, 1u, 100u, 100000u}) {
        Table table;
        for (std::size_t i = 0; i < count; ++i) {
            auto node = std::make_unique<Node>();
            node->envelope = with_tag(i / 3);
            table.push_back(*node);
            static_cast<void>(node.release()); // drain()'s callback deletes it
        }
        std::size_t visited = 0;
        table.for_each([&visited](Node& node) { visited += node.link.linked() ? 1 : 0; });
        EXPECT_EQ(visited, count);
        visited = 0;
        table.drain([&](Node& node) {
            ++visited;
            EXPECT_FALSE(node.link.linked());
            delete &node;
        });
        EXPECT_EQ(visited, count);
        EXPECT_EQ(table.keys(), 0u);
        EXPECT_LE(table.buckets(), Table::kKeptBuckets);
        Node again;
        table.push_back(again);
        EXPECT_EQ(table.front({}), &again);
    }
}

TEST(KeyedFifos, AgreesWithAModel) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        const std::size_t keys = 1 + random.below(200);
        std::vector<std::deque<Node*>> model(keys);
        const auto nodes = std::make_unique<Node[]>(400);
        Table table;
        for (int step = 0; step < 3000; ++step) {
            Node& node = nodes[random.below(400)];
            const std::size_t key = random.below(keys);
            if (!node.link.linked()) {
                node.envelope = with_tag(key);
                table.push_back(node);
                model[key].push_back(&node);
            } else if (random.below(2) == 0) {
                auto& fifo = model[static_cast<std::size_t>(node.envelope.tag)];
                fifo.erase(std::find(fifo.begin(), fifo.end(), &node));
                table.remove(node);
            } else {
                Node* const expected = model[key].empty() ? nullptr : model[key].front();
                ASSERT_EQ(table.front(with_tag(key)), expected);
                ASSERT_EQ(pop(table, with_tag(key)), expected);
                if (expected != nullptr) {
                    model[key].pop_front();
                }
            }
            if (step % 100 == 0) {
                std::size_t filled = 0;
                for (const auto& fifo : model) {
                    filled += fifo.empty() ? 0 : 1;
                }
                ASSERT_EQ(table.keys(), filled);
            }
        }
        std::vector<std::deque<Node*>> rest(keys);
        table.for_each([&rest](Node& node) {
            rest[static_cast<std::size_t>(node.envelope.tag)].push_back(&node);
        });
        ASSERT_EQ(rest, model);
    }
}

} // namespace
} // namespace adaptib
