// SPDX-License-Identifier: BSD-3-Clause
// IdTable: an id finds its object while the object is in the table; no other id finds anything.
#include "base/id_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "base/random.h"

namespace adaptib {
namespace {

TEST(IdTable, FindsWhatWasAddedUntilItIsRemoved) {
    IdTable<int> table;
    int a = 0;
    int b = 0;
    const std::uint64_t id_a = table.add(&a);
    const std::uint64_t id_b = table.add(&b);
    EXPECT_NE(id_a, 0u);
    EXPECT_NE(id_b, 0u);
    EXPECT_NE(id_a, id_b);
    EXPECT_EQ(table.find(id_a), &a);
    EXPECT_EQ(table.find(id_b), &b);
    EXPECT_EQ(table.size(), 2u);
    table.remove(id_a);
    EXPECT_EQ(table.find(id_a), nullptr);
    EXPECT_EQ(table.find(id_b), &b);
    EXPECT_EQ(table.size(), 1u);
}

TEST(IdTable, AStaleIdDoesNotFindWhatCameAfterIt) {
    IdTable<int> table;
    int object = 0;
    std::set<std::uint64_t> old;
    for (int round = 0; round < 100; ++round) {
        const std::uint64_t id = table.add(&object);
        EXPECT_EQ(old.count(id), 0u);
        for (const std::uint64_t stale : old) {
            ASSERT_EQ(table.find(stale), nullptr);
        }
        table.remove(id);
        old.insert(id);
    }
    EXPECT_EQ(static_cast<std::uint32_t>(*old.begin()), static_cast<std::uint32_t>(*old.rbegin()))
        << "the slot is used again";
}

TEST(IdTable, RemovingTwiceOrSomethingInventedChangesNothing) {
    IdTable<int> table;
    int a = 0;
    int b = 0;
    const std::uint64_t id_a = table.add(&a);
    table.remove(id_a);
    table.remove(id_a);
    EXPECT_EQ(table.size(), 0u);
    const std::uint64_t id_b = table.add(&b);
    table.remove(id_a);
    table.remove(id_b + 1);
    table.remove(id_b ^ (std::uint64_t{1} << 63));
    table.remove(0);
    EXPECT_EQ(table.size(), 1u);
    EXPECT_EQ(table.find(id_b), &b);
    // The free list is intact: two more objects get slots of their own.
    const std::uint64_t id_c = table.add(&a);
    const std::uint64_t id_d = table.add(&a);
    EXPECT_EQ(
        (std::set<std::uint32_t>{static_cast<std::uint32_t>(id_b), static_cast<std::uint32_t>(id_c),
                                 static_cast<std::uint32_t>(id_d)})
            .size(),
        3u);
}

TEST(IdTable, InventedIdsFindNothing) {
    IdTable<int> table;
    EXPECT_EQ(table.find(0), nullptr);
    EXPECT_EQ(table.find(UINT64_MAX), nullptr);
    int a = 0;
    const std::uint64_t id = table.add(&a);
    const std::uint64_t freed = table.add(&a);
    table.remove(freed);
    for (int bit = 0; bit < 64; ++bit) {
        EXPECT_EQ(table.find(id ^ (std::uint64_t{1} << bit)), nullptr) << bit;
    }
    EXPECT_EQ(table.find(freed + (std::uint64_t{1} << 32)), nullptr) << "the free slot's next id";
    EXPECT_EQ(table.find(UINT32_MAX), nullptr);
    EXPECT_EQ(table.find(UINT64_MAX), nullptr);
}

TEST(IdTable, BehavesAsAMapInARandomRun) {
    IdTable<int> table;
    std::vector<int> objects(500);
    std::map<std::uint64_t, int*> model;
    std::vector<std::uint64_t> ever;
    Random random(5);
    for (int step = 0; step < 20000; ++step) {
        if (random.below(2) == 0 && model.size() < objects.size()) {
            int* object = &objects[random.below(objects.size())];
            const std::uint64_t id = table.add(object);
            ASSERT_NE(id, 0u);
            ASSERT_TRUE(model.emplace(id, object).second);
            ever.push_back(id);
        } else if (!ever.empty()) {
            const std::uint64_t id = ever[random.below(ever.size())];
            table.remove(id);
            model.erase(id);
        }
        if (!ever.empty()) {
            const std::uint64_t id = ever[random.below(ever.size())];
            const auto found = model.find(id);
            ASSERT_EQ(table.find(id), found == model.end() ? nullptr : found->second);
        }
        ASSERT_EQ(table.size(), model.size());
    }
    std::multiset<int*> expected;
    for (const auto& [id, object] : model) {
        ASSERT_EQ(table.find(id), object);
        expected.insert(object);
    }
    std::multiset<int*> seen;
    table.for_each([&](int* object) { seen.insert(object); });
    EXPECT_EQ(seen, expected);
}

} // namespace
} // namespace adaptib
