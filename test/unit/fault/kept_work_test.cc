// SPDX-License-Identifier: BSD-3-Clause
// The lists of a queue pair with faults, without a queue pair.
#include "simulator/faults/kept_work.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "simulator/faults/posted_receives.h"

namespace adaptib::fault {
namespace {

TEST(KeptWork, InlineDataIsCopiedAndOtherDataStaysTheCallers) {
    char one[] = "abc";
    char two[] = "de";
    Gather gather[] = {{one, 3, 7}, {two, 2, 8}};
    SendWork work;
    work.wr_id = 5;
    work.gather = gather;
    work.gather_count = 2;
    const auto usual = keep(work);
    work.flags = kInline;
    const auto inlined = keep(work);
    std::memset(one, 'x', 3);
    gather[1] = {};
    ASSERT_EQ(usual->work.gather_count, 2u);
    EXPECT_EQ(usual->work.gather[0].address, one);
    EXPECT_EQ(usual->work.gather[1].address, two) << "the list is its own";
    ASSERT_EQ(inlined->work.gather_count, 1u);
    ASSERT_EQ(inlined->work.gather[0].length, 5u);
    EXPECT_EQ(std::memcmp(inlined->work.gather[0].address, "abcde", 5), 0);
    EXPECT_EQ(inlined->work.wr_id, 5u);
}

TEST(LateDatagrams, AreSentWhenTheyAreDueAndStayWhenTheyCannot) {
    LateDatagrams late;
    EXPECT_EQ(late.next(Nanoseconds{3}), Nanoseconds::max());
    for (const std::int64_t time : {30, 10, 20}) {
        auto kept = std::make_unique<KeptWork>();
        kept->work.wr_id = static_cast<std::uint64_t>(time);
        Due due;
        due.time = Nanoseconds{time};
        late.add(std::move(kept), due);
    }
    EXPECT_EQ(late.next(Nanoseconds{3}), Nanoseconds{10});
    EXPECT_EQ(late.next(Nanoseconds{15}), Nanoseconds{15});
    std::vector<std::uint64_t> sent;
    const auto reached = [](const Due& due) { return due.time <= Nanoseconds{20}; };
    late.send(reached, [&](std::unique_ptr<KeptWork>& kept) {
        sent.push_back(kept->work.wr_id);
        return kept->work.wr_id == 10;
    });
    EXPECT_EQ(sent, (std::vector<std::uint64_t>{10, 20}));
    late.send(reached, [&](std::unique_ptr<KeptWork>&) { return true; });
    EXPECT_FALSE(late.empty());
    EXPECT_EQ(late.next(Nanoseconds{0}), Nanoseconds{30});
    late.clear();
    EXPECT_TRUE(late.empty());
}

TEST(PostedReceives, ANumberIsTakenOnceAndNeverUsedAgain) {
    PostedReceives receives;
    const std::uint64_t first = receives.next();
    receives.add(70);
    receives.add(71);
    std::uint64_t wr_id = 0;
    EXPECT_TRUE(receives.take(first + 1, wr_id));
    EXPECT_EQ(wr_id, 71u);
    EXPECT_FALSE(receives.take(first + 1, wr_id));
    receives.clear();
    EXPECT_FALSE(receives.take(first, wr_id));
    EXPECT_EQ(receives.next(), first + 2);
}

} // namespace
} // namespace adaptib::fault
