// SPDX-License-Identifier: BSD-3-Clause
// IntrusiveList: order, removal anywhere, one element in two lists, and a model over random calls.
#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "base/random.h"

namespace adaptib {
namespace {

struct Item {
    int value = 0;
    ListLink<Item> link;
    ListLink<Item> other;
};
using List = IntrusiveList<Item, &Item::link>;
using OtherList = IntrusiveList<Item, &Item::other>;

template <class L> std::vector<const Item*> forward(const L& list) {
    std::vector<const Item*> items;
    for (const Item* item = list.front(); item != nullptr; item = list.next(*item)) {
        items.push_back(item);
    }
    return items;
}

template <class L> std::vector<const Item*> backward(const L& list) {
    std::vector<const Item*> items;
    for (const Item* item = list.back(); item != nullptr; item = list.prev(*item)) {
        items.push_back(item);
    }
    std::reverse(items.begin(), items.end());
    return items;
}

TEST(IntrusiveList, EmptyOne) {
    List list;
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(list.size(), 0u);
    EXPECT_EQ(list.front(), nullptr);
    EXPECT_EQ(list.back(), nullptr);
    EXPECT_EQ(list.pop_front(), nullptr);
}

TEST(IntrusiveList, KeepsTheOrder) {
    List list;
    Item items[4];
    list.push_back(items[1]);
    list.push_back(items[2]);
    list.push_front(items[0]);
    list.push_back(items[3]);
    EXPECT_EQ(forward(list),
              (std::vector<const Item*>{&items[0], &items[1], &items[2], &items[3]}));
    EXPECT_EQ(backward(list), forward(list));
    EXPECT_EQ(list.pop_front(), &items[0]);
    EXPECT_FALSE(items[0].link.linked());
    EXPECT_TRUE(items[1].link.linked());
    EXPECT_EQ(list.front(), &items[1]);
    EXPECT_EQ(list.back(), &items[3]);
}

TEST(IntrusiveList, RemovesFirstMiddleLastAndOnly) {
    List list;
    Item items[4];
    for (Item& item : items) {
        list.push_back(item);
    }
    list.remove(items[1]);
    EXPECT_EQ(forward(list), (std::vector<const Item*>{&items[0], &items[2], &items[3]}));
    list.remove(items[3]);
    EXPECT_EQ(backward(list), (std::vector<const Item*>{&items[0], &items[2]}));
    list.remove(items[0]);
    EXPECT_EQ(forward(list), (std::vector<const Item*>{&items[2]}));
    list.remove(items[2]);
    EXPECT_TRUE(list.empty());
    for (const Item& item : items) {
        EXPECT_FALSE(item.link.linked());
    }
    list.push_back(items[2]);
    EXPECT_EQ(list.back(), &items[2]);
    list.remove(items[2]);
}

TEST(IntrusiveList, AnElementIsInTwoListsThroughTwoLinks) {
    List list;
    OtherList other;
    Item a;
    Item b;
    list.push_back(a);
    list.push_back(b);
    other.push_back(b);
    other.push_back(a);
    list.remove(a);
    EXPECT_EQ(forward(list), (std::vector<const Item*>{&b}));
    EXPECT_EQ(forward(other), (std::vector<const Item*>{&b, &a}));
}

TEST(IntrusiveList, AgreesWithAVector) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Item items[12];
        List list;
        std::vector<const Item*> model;
        for (int step = 0; step < 1000; ++step) {
            Item& item = items[random.below(std::size(items))];
            if (item.link.linked()) {
                list.remove(item);
                model.erase(std::find(model.begin(), model.end(), &item));
            } else if (random.below(3) == 0) {
                list.push_front(item);
                model.insert(model.begin(), &item);
            } else {
                list.push_back(item);
                model.push_back(&item);
            }
            if (random.below(8) == 0) {
                const Item* const expected = model.empty() ? nullptr : model.front();
                ASSERT_EQ(list.pop_front(), expected);
                if (!model.empty()) {
                    model.erase(model.begin());
                }
            }
            ASSERT_EQ(forward(list), model);
            ASSERT_EQ(backward(list), model);
            ASSERT_EQ(list.size(), model.size());
        }
    }
}

} // namespace
} // namespace adaptib
